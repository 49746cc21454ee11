"""Fetch: what a consumer gets, when it has to wait for it, and what wakes it.

Decides which partitions answer with what, and whether a fetch waits. Does not know versions, connections or the clock.
Sources: KIP-74 (limits), KIP-227 (sessions), KIP-516 (topic ids), KIP-951 (new leaders); what is answered when is
Kafka's KafkaApis and ReplicaManager.

A held fetch with nothing to say is the commonest request of all, so it must cost no more the more partitions it has.
Hence the `Watch`: the partitions of a session, or of a request whose decoded object the server hands in again because
the bytes were the same. A watch that found nothing to read is clean, and stays registered with its logs, which tell it
when they change. As long as nothing does, the next fetch of a clean watch is parked, and in the end answered with the
same response object as before, without a look at any partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from kafka_shim.apis.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import LEADER_EPOCH
from kafka_shim.broker.sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Sessions, next_epoch
from kafka_shim.broker.topics import Topics
from kafka_shim.broker.watches import READ_COMMITTED, UNKNOWN, Waiter, Wanted, Watch
from kafka_shim.groups.interface import PARKED, Parked
from kafka_shim.groups.outbox import Outbox

REMEMBERED_PARTITIONS: Final = 200_000
"""Of how many partitions, all told, requests without a session are remembered."""

_NO_ABORTS: Final[list[AbortedTransaction]] = []


class Fetches:
    """The Fetch rule of one broker, its sessions, and its parked fetches with their deadlines."""

    def __init__(self, node_id: int, topics: Topics, outbox: Outbox, new_id: Callable[[], bytes]) -> None:
        self.node_id = node_id
        self.topics = topics
        self.outbox = outbox
        self.sessions = Sessions(topics.settings.number("max.incremental.fetch.session.cache.slots"), new_id)
        self._most_bytes = topics.settings.number("fetch.max.bytes")
        self._remembered: dict[int, Watch] = {}
        self._remembered_partitions = 0
        self._waiting: dict[object, Waiter] = {}
        self._deadlines: list[tuple[float, int, Waiter]] = []
        self._order = count()

    def fetch(
        self, request: FetchRequest, token: object, now: float, *, by_topic_id: bool, leaders_told: bool
    ) -> FetchResponse | Parked:
        """Answer or park one Fetch. `by_topic_id`: v13+; `leaders_told`: v16+ (KIP-951)."""
        watch = self._remembered.get(id(request))
        if watch is None:
            if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
                watch = self._begun(request, by_topic_id=by_topic_id, leaders_told=leaders_told)
            else:
                continued = self._continued(request, now, by_topic_id=by_topic_id)
                if isinstance(continued, FetchResponse):
                    return continued
                watch = continued
        may_wait = request.max_wait_ms > 0 and request.min_bytes > 0
        if may_wait and watch.clean and watch.generation == self.topics.generation:
            return self._park(watch, request, token, now)
        watch.look_up(self.topics)
        if not may_wait or watch.is_ready(self.node_id, self._enough(request.min_bytes, request.max_bytes)):
            return self._answer(watch, request.max_bytes, now)
        if not watch.clean:
            watch.listen()
            self._remember(watch, request)
        return self._park(watch, request, token, now)

    def next_deadline(self) -> float | None:
        """When the next parked fetch must be answered, monotonic seconds."""
        deadlines = self._deadlines
        while deadlines and not deadlines[0][2].live:
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def expire(self, now: float) -> None:
        """Answer the parked fetches whose time is over."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            waiter = heappop(deadlines)[2]
            if waiter.live:
                self._reply(waiter, now)

    def drop(self, token: object) -> None:
        """The connection of a parked fetch is gone."""
        waiter = self._waiting.pop(token, None)
        if waiter is not None:
            waiter.live = False
            del waiter.watch.waiters[token]
            self.let_go(waiter.watch)

    def settle(self, watch: Watch, now: float) -> None:
        """Answer the parked fetches of a watch whose logs have changed, if what they wait for is there."""
        watch.look_up(self.topics)
        for waiter in list(watch.waiters.values()):
            if watch.is_ready(self.node_id, self._enough(waiter.min_bytes, waiter.max_bytes)):
                self._reply(waiter, now)

    def let_go(self, watch: Watch) -> None:
        """Forget a watch that belongs to no session, once nothing of it is parked."""
        if watch.session is None and not watch.waiters:
            watch.unlisten()
            self._forget(watch)

    def _begun(self, request: FetchRequest, *, by_topic_id: bool, leaders_told: bool) -> Watch:
        """The watch of a full fetch; the session it belonged to before is over."""
        old = self.sessions.get(request.session_id)
        if old is not None:
            self.sessions.remove(old)
        watch = Watch(self, request, by_topic_id=by_topic_id, leaders_told=leaders_told)
        if request.session_epoch == INITIAL_EPOCH:
            watch.epoch = next_epoch(INITIAL_EPOCH)
        return watch

    def _continued(self, request: FetchRequest, now: float, *, by_topic_id: bool) -> Watch | FetchResponse:
        """The watch of a session with what the request changes in it, or the answer to one that does not fit it."""
        session = self.sessions.get(request.session_id)
        if session is None:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        watch = session.watch
        if watch.epoch != request.session_epoch:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if watch.by_topic_id != by_topic_id:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if request.topics or request.forgotten_topics_data:
            watch.want(request.topics)
            watch.forget(request.forgotten_topics_data)
        if not watch.parts:
            self.sessions.remove(session)
            return FetchResponse()
        watch.epoch = next_epoch(watch.epoch)
        watch.is_full = False
        if watch.read_committed != (request.isolation_level == READ_COMMITTED):
            watch.read_committed = not watch.read_committed
            watch.clean = False
        self.sessions.touch(session, now)
        return watch

    def _enough(self, min_bytes: int, max_bytes: int) -> int:
        return min(min_bytes, max_bytes, self._most_bytes)

    def _park(self, watch: Watch, request: FetchRequest, token: object, now: float) -> Parked:
        waiter = Waiter(token, watch, request)
        self._waiting[token] = watch.waiters[token] = waiter
        heappush(self._deadlines, (now + request.max_wait_ms / 1000, next(self._order), waiter))
        if len(self._deadlines) > 2 * len(self._waiting) + 1000:
            self._deadlines = [each for each in self._deadlines if each[2].live]
            heapify(self._deadlines)
        return PARKED

    def _remember(self, watch: Watch, request: FetchRequest) -> None:
        """Know the request again, if it has no session to be known by. Those remembered for longest are forgotten."""
        if watch.epoch == FINAL_EPOCH and watch.request is None:
            watch.request = request
            self._remembered[id(request)] = watch
            self._remembered_partitions += len(watch.parts)
            while self._remembered_partitions > REMEMBERED_PARTITIONS:
                oldest = next(iter(self._remembered.values()))
                self._forget(oldest)
                self.let_go(oldest)

    def _forget(self, watch: Watch) -> None:
        if watch.request is not None:
            del self._remembered[id(watch.request)]
            self._remembered_partitions -= len(watch.parts)
            watch.request = None

    def _reply(self, waiter: Waiter, now: float) -> None:
        """Answer a parked fetch with what there is now."""
        waiter.live = False
        watch = waiter.watch
        del self._waiting[waiter.token], watch.waiters[waiter.token]
        if waiter.epoch != watch.epoch:
            response = FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        elif watch.empty is not None and watch.clean and watch.generation == self.topics.generation:
            response = watch.empty
        else:
            watch.look_up(self.topics)
            response = self._answer(watch, waiter.max_bytes, now)
            if watch.clean and (watch.epoch == FINAL_EPOCH or not (watch.is_full or response.responses)):
                watch.empty = response
        if watch.request is None or not watch.clean:
            self.let_go(watch)
        self.outbox.reply_at_once(waiter.token, response)

    def _answer(self, watch: Watch, max_bytes: int, now: float) -> FetchResponse:
        """Read all partitions, and say of a session's only what is new."""
        left = min(max_bytes, self._most_bytes)
        first_whole = True
        answered: list[tuple[Wanted, PartitionData]] = []
        for wanted in watch.parts.values():
            if not watch.is_full and wanted.is_old_news(self.node_id, committed=watch.read_committed):
                continue
            data = self._read(wanted, watch, left, first_whole=first_whole)
            if data.records:
                left = max(0, left - len(data.records))
                first_whole = False
            answered.append((wanted, data))
        session_id = self._told(watch, answered, now)
        response = FetchResponse(session_id=session_id, responses=_by_topic(answered))
        if watch.leaders_told:
            leaders = {data.current_leader.leader_id for _, data in answered if data.error_code}
            response.node_endpoints = [
                NodeEndpoint(*self.topics.nodes[each]) for each in sorted(leaders & self.topics.nodes.keys())
            ]
        return response

    def _read(self, wanted: Wanted, watch: Watch, left: int, *, first_whole: bool) -> PartitionData:
        partition = wanted.partition
        error = wanted.refusal(self.node_id)
        if partition is None or error:
            data = PartitionData(
                partition_index=wanted.index,
                error_code=error,
                high_watermark=UNKNOWN,
                aborted_transactions=_NO_ABORTS if partition is None else None,
                records=b"",
            )
            if partition is not None and watch.leaders_told and error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                data.current_leader = LeaderIdAndEpoch(partition.leader, LEADER_EPOCH)
            return data
        log = partition.log
        records = log.read(
            wanted.offset, min(wanted.max_bytes, left), first_whole=first_whole, committed=watch.read_committed
        )
        aborted: list[AbortedTransaction] | None = None
        if watch.read_committed:
            found = log.aborted(wanted.offset, records)
            aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in found] or _NO_ABORTS
        return PartitionData(
            partition_index=wanted.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=aborted,
            records=records,
        )

    def _told(self, watch: Watch, answered: Iterable[tuple[Wanted, PartitionData]], now: float) -> int:
        """Note what a session's client knows after this answer, and open the session it asked for; its id, or 0."""
        if watch.epoch == FINAL_EPOCH:
            return NO_SESSION
        if watch.is_full and watch.session is None:
            watch.session = self.sessions.create(watch, now)
        if watch.session is None:
            return NO_SESSION
        for wanted, data in answered:
            wanted.told_end = UNKNOWN if data.error_code else data.high_watermark
            wanted.told_start = data.log_start_offset
            if data.records:
                watch.put_last(wanted)
        return watch.session.id


def _by_topic(answered: Iterable[tuple[Wanted, PartitionData]]) -> list[FetchableTopicResponse]:
    topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    for wanted, data in answered:
        topic = topics.get((wanted.topic, wanted.topic_id))
        if topic is None:
            topic = topics[wanted.topic, wanted.topic_id] = FetchableTopicResponse(wanted.topic, wanted.topic_id)
        topic.partitions.append(data)
    return list(topics.values())
