"""Fetch: reads records for a consumer, or parks its request until there are enough.

Sources: KIP-74 (limits), KIP-227 (sessions), KIP-516 (topic ids), KIP-951 (new leaders); the conditions of an answer
are those of Kafka's KafkaApis and ReplicaManager.

A fetch that waits and gets no records is the most frequent request of all, so its cost must not grow with the number of
partitions. Hence the `FetchState`: the partitions of a session, or of a request of which the server passes the decoded
object in again because the bytes were the same. A state without anything to read is clean, and watches its logs for
changes. Until one changes, the next fetch of a clean state is parked, and in the end answered with the same response
object as before, without a look at any partition. The state of a session also knows which partitions may have news;
where they are many, the answer is made in turns (`fetch_answers.py`).
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
"""Partitions with possible news that an answer looks at without a pause."""
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
            self._remember(state, request)
        return self._park(state, request, exchange, now)

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
            waiter.live = False
            del waiter.state.waiters[exchange]
            self.let_go(waiter.state)
        self._in_turns.pop(exchange, None)

    def settle(self, state: FetchState, now: float) -> None:
        """Answer the parked fetches of a state after a change of its logs, if there are enough bytes now."""
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
        if state.session is None and not state.waiters:
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
        """Answer a parked fetch with the records that there are now."""
        waiter.live = False
        state = waiter.state
        del self._waiting[waiter.exchange], state.waiters[waiter.exchange]
        try:
            response = self._response(waiter, state, now)
        except Exception as error:
            self.outbox.failed(error, "a parked Fetch", exchange=waiter.exchange)
        else:
            if response is not PARKED:
                self.outbox.reply_at_once(waiter.exchange, response)
        if state.request is None or not state.clean:
            self.let_go(state)

    def _response(self, waiter: ParkedFetch, state: FetchState, now: float) -> FetchResponse | Parked:
        if waiter.epoch != state.epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if state.empty is not None and state.clean and state.revision == self.topics.revision:
            return state.empty
        state.look_up(self.topics)
        response = self._answer(state, waiter.exchange, waiter.max_bytes, now)
        if isinstance(response, Parked):
            return response
        if state.clean and (state.epoch == FINAL_EPOCH or not (state.is_full or response.responses)):
            state.empty = response
        return response

    def _answer(self, state: FetchState, exchange: object, max_bytes: int, now: float) -> FetchResponse | Parked:
        """Return the answer, or begin to make it in turns."""
        answer = FetchAnswer(self.node_id, state, min(max_bytes, self._most_bytes))
        # A full fetch has named its partitions, and a huge one has turns of its own: one at a time is decoded.
        if answer.size > AT_ONCE and self.take_turns is not None and not state.is_full:
            self._in_turns[exchange] = answer
            self.take_turns(_InTurns(self, exchange, answer))
            return PARKED
        self._read(exchange, answer)
        return self._finish(answer, now)

    def _read(self, exchange: object, answer: FetchAnswer, most: int | None = None) -> bool:
        """Read more of an answer, see `FetchAnswer.read`. Other answers are made before it is encoded, so it is counted
        now."""
        is_more = answer.read(self._most_bytes if self.room is None else self.room(), most)
        if answer.bytes > LONG and self.hold is not None:
            self.hold(exchange, answer.bytes)
        return is_more

    def go_on(self, exchange: object, answer: FetchAnswer, now: float) -> bool:
        """Read more of an answer that is made in turns; return False once it leaves, or its connection has ended."""
        if self._in_turns.get(exchange) is not answer:
            return False
        if answer.is_overtaken:
            response = FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            if self.hold is not None:
                self.hold(exchange, 0)
        elif self._read(exchange, answer, IN_A_TURN):
            return True
        else:
            response = self._finish(answer, now)
        # Without room its connection may just have ended.
        self._in_turns.pop(exchange, None)
        self.outbox.reply_at_once(exchange, response)
        self.let_go(answer.state)
        return False

    def broken(self, exchange: object, error: Exception) -> None:
        """Fail a fetch that is answered in turns: a turn has raised."""
        answer = self._in_turns.pop(exchange, None)
        if answer is not None:
            self.outbox.failed(error, "a Fetch in turns", exchange=exchange)
            self.let_go(answer.state)

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
