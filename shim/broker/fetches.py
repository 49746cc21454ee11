"""Fetch: reads records for a consumer, or parks its request until there are enough.

Sources: KIP-74 (limits), KIP-227 (sessions), KIP-516 (topic ids), KIP-951 (new leaders); the conditions of an answer
are those of Kafka's KafkaApis and ReplicaManager.

A fetch that waits and gets no records is the most frequent request of all, so its cost must not grow with the number of
partitions. Hence the `FetchState`: the partitions of a session, or of a request of which the server passes the decoded
object in again because the bytes were the same. A state without anything to read is clean, and watches its logs for
changes. Until one changes, the next fetch of a clean state is parked, and in the end answered with the same response
object as before, without a look at any partition. The state of a session also knows which partitions may have news;
where they are many, the answer is made in turns (`fetch_answers.py`). Many parked fetches may have to be answered at
one time: after some partitions each of the others takes its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Any, Final, Protocol

from kafka_shim.apis.fetch import FetchRequest, FetchResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.fetch_answers import FetchAnswer
from kafka_shim.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSessions, next_epoch
from kafka_shim.broker.fetch_state import READ_COMMITTED, FetchState, ParkedFetch
from kafka_shim.broker.topics import Topics
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.outbox import Outbox

REMEMBERED_SIZE: Final = 200_000
"""Requests without a session are remembered up to this size in total."""
AT_ONCE: Final = 500
"""Partitions with possible news to look at without a pause: for one answer, and for all parked fetches of a tick."""
IN_A_TURN: Final = 50
"""Partitions of a longer answer to look at before the time is read."""
LONG: Final = 256 * 1024
"""The memory of an answer with more bytes of records is counted from its first record on."""


class Turns(Protocol):
    """Work in turns: `go_on` is called until it returns False; `broken` if it raises."""

    def go_on(self, now: float) -> bool: ...

    def broken(self, error: Exception) -> None: ...


class _InTurns:
    """An answer that is made in turns."""

    __slots__ = ("_answer", "_api", "_exchange")

    def __init__(self, api: FetchApi, exchange: object, answer: FetchAnswer) -> None:
        self._api = api
        self._exchange = exchange
        self._answer = answer

    def go_on(self, now: float) -> bool:
        return self._api.go_on(self._exchange, self._answer, now)

    def broken(self, error: Exception) -> None:
        self._api.broken(self._exchange, error)


class _Settling:
    """The turn of parked fetches of one state after a change of its logs."""

    __slots__ = ("_api", "_state")

    def __init__(self, api: FetchApi, state: FetchState) -> None:
        self._api = api
        self._state = state

    def go_on(self, now: float) -> bool:
        self._api.settle_in_turn(self._state, now)
        return False

    def broken(self, error: Exception) -> None:
        self._api.outbox.failed(error, "parked Fetches")


class FetchApi:
    """The Fetch rule of one broker, its sessions, and its parked fetches with their deadlines.

    `clock_ahead()` returns the seconds by which the clock of `now` is ahead of real time, since fetches wait in real
    time; None if it is never ahead.
    """

    def __init__(
        self,
        node_id: int,
        topics: Topics,
        outbox: Outbox,
        new_id: Callable[[], bytes],
        clock_ahead: Callable[[], float] | None = None,
    ) -> None:
        self.node_id = node_id
        self.topics = topics
        self.outbox = outbox
        slots = topics.settings.number("max.incremental.fetch.session.cache.slots")
        self.sessions: FetchSessions[FetchState] = FetchSessions(slots, new_id)
        self._most_bytes = topics.settings.number("fetch.max.bytes")
        self._remembered: dict[int, FetchState] = {}
        self._remembered_size = 0
        self._waiting: dict[object, ParkedFetch] = {}
        self.deadlines: list[tuple[float, int, ParkedFetch]] = []
        self._order = count()
        self._clock_ahead = clock_ahead
        self.room: Callable[[], int] | None = None
        """Returns the bytes that answers may still take until clients read; None without such a bound."""
        self.hold: Callable[[Any, int], None] | None = None
        """Counts the bytes of the answer to an exchange, 0 to forget them; may end connections. None where none are."""
        self.take_turns: Callable[[Turns], None] | None = None
        """Takes work that is to be done in turns; None where all is done at once."""
        self._in_turns: dict[object, FetchAnswer] = {}
        self._unsettled: dict[FetchState, None] = {}
        """The states that wait for their turn after a change of their logs."""
        self._tick = -inf
        self._looked = 0
        """The partitions that parked fetches have looked at in the tick of this time."""
        self.listeners: list[Callable[[FetchApi, object, FetchState], None]] = []
        """Called with each request that is understood, before it is answered or parked; none but while a test waits."""

    def fetch(
        self, request: FetchRequest, exchange: object, now: float, *, by_topic_id: bool, with_leaders: bool
    ) -> FetchResponse | Parked:
        """Answer or park one Fetch. `by_topic_id`: v13+; `with_leaders`: v16+ (KIP-951).

        A waiting fetch is cheap if requests of the same bytes are passed in as the same object. Answers without news to
        one client are the same object every time and must not be changed.
        """
        if self._clock_ahead is not None:
            now -= self._clock_ahead()
        state = self._remembered.get(id(request))
        if state is None:
            if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
                state = self._begun(request, by_topic_id=by_topic_id, with_leaders=with_leaders)
            else:
                continued = self._continued(request, now, by_topic_id=by_topic_id)
                if isinstance(continued, FetchResponse):
                    return continued
                state = continued
        if self.listeners:
            for listener in self.listeners:
                listener(self, exchange, state)
        may_wait = request.max_wait_ms > 0 and request.min_bytes > 0
        if may_wait and state.clean and state.revision == self.topics.revision:
            return self._park(state, request, exchange, now)
        state.look_up(self.topics)
        if not state.is_full:
            state.follow()
        if state.is_ready(self.node_id, self._enough(request.min_bytes, request.max_bytes)) or not may_wait:
            return self._answer(state, exchange, request.max_bytes, now)
        if not state.clean:
            state.listen()
        # One that is too large is forgotten at once, and watches its logs only because it is parked.
        self._park(state, request, exchange, now)
        self._remember(state, request)
        return PARKED

    def next_deadline(self) -> float:
        """When the next parked fetch must be answered, monotonic seconds; infinity if none is parked."""
        deadlines = self.deadlines
        while deadlines and not deadlines[0][2].live:
            heappop(deadlines)
        if not deadlines:
            return inf
        return deadlines[0][0] if self._clock_ahead is None else deadlines[0][0] + self._clock_ahead()

    def parked(self) -> list[tuple[object, FetchState]]:
        """Return the exchanges of the parked fetches, each with its partitions."""
        return [(exchange, waiter.state) for exchange, waiter in self._waiting.items()]

    def expire(self, now: float) -> None:
        """Answer the parked fetches that have reached their deadline."""
        if self._clock_ahead is not None:
            now -= self._clock_ahead()
        deadlines = self.deadlines
        while deadlines and deadlines[0][0] <= now:
            waiter = heappop(deadlines)[2]
            if waiter.live:
                self._reply(waiter, now)

    def drop(self, exchange: object) -> None:
        """Drop a parked fetch after the end of its connection."""
        waiter = self._waiting.pop(exchange, None)
        if waiter is not None:
            state = waiter.state
            waiter.end()
            del state.waiters[exchange]
            self.let_go(state)
        self._end_turns(exchange)

    def settle(self, state: FetchState, now: float) -> None:
        """Answer the parked fetches of a state after a change of its logs, if there are enough bytes now; or let them
        take their turn."""
        if state in self._unsettled:
            return
        if self.take_turns is None or self._is_time(state.to_look_up(self.topics), now):
            self._settle(state, now)
        else:
            self._unsettled[state] = None
            self.take_turns(_Settling(self, state))

    def settle_in_turn(self, state: FetchState, now: float) -> None:
        """Answer the parked fetches of a state when it is their turn."""
        del self._unsettled[state]
        self._settle(state, now)

    def _is_time(self, partitions: int, now: float) -> bool:
        """Return True if parked fetches may look at so many partitions in this tick, and count them."""
        if now != self._tick:
            self._tick, self._looked = now, 0
        looked = self._looked + max(partitions, 1)
        if looked > AT_ONCE:
            return False
        self._looked = looked
        return True

    def _settle(self, state: FetchState, now: float) -> None:
        if not state.waiters:
            return
        try:
            state.look_up(self.topics)
            for waiter in list(state.waiters.values()):
                # Without room for an answer before, its connection may just have ended.
                enough = self._enough(waiter.min_bytes, waiter.max_bytes)
                if waiter.live and state.is_ready(self.node_id, enough):
                    self._reply(waiter, now)
        except Exception as error:
            # Another client's request has changed the log: it must not fail for the fetches that wait.
            for exchange in list(state.waiters):
                self.drop(exchange)
                self.outbox.failed(error, "a parked Fetch", exchange=exchange)

    def let_go(self, state: FetchState) -> None:
        """Forget a state without a session if no fetch is parked on it."""
        if state.session is None and not state.waiters and not state.in_turns:
            state.unlisten()
            self._forget(state)

    def _begun(self, request: FetchRequest, *, by_topic_id: bool, with_leaders: bool) -> FetchState:
        """Return the state of a full fetch; the session in the request ends."""
        old = self.sessions.get(request.session_id)
        if old is not None:
            self.sessions.remove(old)
        state = FetchState(self, request, by_topic_id=by_topic_id, with_leaders=with_leaders)
        if request.session_epoch == INITIAL_EPOCH:
            state.epoch = next_epoch(INITIAL_EPOCH)
        return state

    def _continued(self, request: FetchRequest, now: float, *, by_topic_id: bool) -> FetchState | FetchResponse:
        """Return the state of a session after the changes in the request, or an error response if the request does not
        fit it."""
        session = self.sessions.get(request.session_id)
        if session is None:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        state = session.state
        if state.epoch != request.session_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if state.by_topic_id != by_topic_id:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if request.topics or request.forgotten_topics_data:
            state.add(request.topics)
            state.forget(request.forgotten_topics_data)
        if not state.parts:
            self.sessions.remove(session)
            return FetchResponse()
        state.epoch = next_epoch(state.epoch)
        state.is_full = False
        if state.read_committed != (request.isolation_level == READ_COMMITTED):
            state.change_isolation_level()
        if not self.sessions.touch(session, now):
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return state

    def _enough(self, min_bytes: int, max_bytes: int) -> int:
        return min(min_bytes, max_bytes, self._most_bytes)

    def _park(self, state: FetchState, request: FetchRequest, exchange: object, now: float) -> Parked:
        waiter = ParkedFetch(exchange, state, request)
        self._waiting[exchange] = state.waiters[exchange] = waiter
        heappush(self.deadlines, (now + request.max_wait_ms / 1000, next(self._order), waiter))
        if len(self.deadlines) > 2 * len(self._waiting) + 1000:
            self.deadlines = [each for each in self.deadlines if each[2].live]
            heapify(self.deadlines)
        return PARKED

    def _remember(self, state: FetchState, request: FetchRequest) -> None:
        """Remember a request without a session by its object. The oldest are forgotten."""
        if state.epoch == FINAL_EPOCH and state.request is None:
            state.request = request
            self._remembered[id(request)] = state
            self._remembered_size += len(state.parts) + state.surplus
            while self._remembered_size > REMEMBERED_SIZE:
                oldest = next(iter(self._remembered.values()))
                self._forget(oldest)
                self.let_go(oldest)

    def _forget(self, state: FetchState) -> None:
        if state.request is not None:
            del self._remembered[id(state.request)]
            self._remembered_size -= len(state.parts) + state.surplus
            state.request = None

    def _reply(self, waiter: ParkedFetch, now: float) -> None:
        """Answer a parked fetch with the records that there are now, or when it is its turn."""
        state, exchange = waiter.state, waiter.exchange
        waiter.end()
        del self._waiting[exchange], state.waiters[exchange]
        try:
            if self.take_turns is not None and not self._is_time(state.to_answer, now):
                self._begin_turns(exchange, self._begin(state, waiter.max_bytes, waiter.epoch), self.take_turns)
                return
            response = self._at_hand(state, waiter.epoch)
            if response is None:
                response = self._response(exchange, self._begin(state, waiter.max_bytes, waiter.epoch), now)
            if response is not None:
                self.outbox.reply_at_once(exchange, response)
        except Exception as error:
            self.outbox.failed(error, "a parked Fetch", exchange=exchange)
        if state.request is None or not state.clean:
            self.let_go(state)

    def _at_hand(self, state: FetchState, epoch: int) -> FetchResponse | None:
        """Return the answer to a parked fetch that needs no look at a partition: a later one of its session has come,
        or there is nothing to read as before."""
        if epoch != state.epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if state.clean and state.revision == self.topics.revision:
            return state.empty
        return None

    def _response(
        self, exchange: object, answer: FetchAnswer, now: float, most: int | None = None
    ) -> FetchResponse | None:
        """Return the answer to a parked fetch, or None if there are more than `most` partitions to look at."""
        state = answer.state
        state.look_up(self.topics)
        if self._read(exchange, answer, most):
            return None
        response = self._finish(answer, now)
        if state.clean and (state.epoch == FINAL_EPOCH or not (state.is_full or response.responses)):
            state.empty = response
        return response

    def _begin(self, state: FetchState, max_bytes: int, epoch: int) -> FetchAnswer:
        return FetchAnswer(self.node_id, state, min(max_bytes, self._most_bytes), epoch)

    def _answer(self, state: FetchState, exchange: object, max_bytes: int, now: float) -> FetchResponse | Parked:
        """Return the answer, or begin to make it in turns."""
        answer = self._begin(state, max_bytes, state.epoch)
        # A full fetch has named its partitions, and a huge one has turns of its own: one at a time is decoded.
        if state.to_answer > AT_ONCE and self.take_turns is not None and not state.is_full:
            self._begin_turns(exchange, answer, self.take_turns)
            return PARKED
        self._read(exchange, answer)
        return self._finish(answer, now)

    def _read(self, exchange: object, answer: FetchAnswer, most: int | None = None) -> bool:
        """Read more of an answer, see `FetchAnswer.read`. Other answers are made before it is encoded, so it is counted
        now."""
        is_more = answer.read(self._most_bytes if self.room is None else self.room(), most)
        if answer.bytes > LONG:
            # To copy so many bytes takes as long as to look at many partitions.
            self._looked = AT_ONCE
            if self.hold is not None:
                self.hold(exchange, answer.bytes)
        return is_more

    def _begin_turns(self, exchange: object, answer: FetchAnswer, take_turns: Callable[[Turns], None]) -> None:
        self._in_turns[exchange] = answer
        answer.state.in_turns += 1
        take_turns(_InTurns(self, exchange, answer))

    def _end_turns(self, exchange: object) -> bool:
        """Forget an answer in turns; return False if there is none."""
        answer = self._in_turns.pop(exchange, None)
        if answer is None:
            return False
        state = answer.state
        state.in_turns -= 1
        if state.request is None or not state.clean:
            self.let_go(state)
        return True

    def go_on(self, exchange: object, answer: FetchAnswer, now: float) -> bool:
        """Read more of an answer that is made in turns; return False once it leaves, or its connection has ended."""
        if self._in_turns.get(exchange) is not answer:
            return False
        state = answer.state
        response = self._at_hand(state, answer.epoch)
        if response is None:
            response = self._response(exchange, answer, now, IN_A_TURN)
        elif answer.bytes and self.hold is not None:
            self.hold(exchange, 0)
        if response is None:
            return True
        self.outbox.reply_at_once(exchange, response)
        self._end_turns(exchange)
        return False

    def broken(self, exchange: object, error: Exception) -> None:
        """Fail a fetch that is answered in turns: a turn has raised."""
        if self._end_turns(exchange):
            self.outbox.failed(error, "a Fetch in turns", exchange=exchange)

    def _finish(self, answer: FetchAnswer, now: float) -> FetchResponse:
        """Return the answer after all its partitions; a full fetch opens the session."""
        state = answer.state
        session_id = NO_SESSION
        if state.epoch != FINAL_EPOCH:
            if state.is_full and state.session is None:
                state.session = self.sessions.create(state, now)
            if state.session is not None:
                session_id = state.session.id
        return answer.response(session_id, self.topics.nodes)
