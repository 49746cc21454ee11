"""Fetch: what a consumer gets, when it has to wait for it, and what wakes it.

Decides which partitions answer with what, whether a fetch waits, and how sessions make answers small. Does not know
versions, connections or the clock. Sources: KIP-74 (limits), KIP-227 (sessions), KIP-320 (epochs), KIP-516 (topic ids),
KIP-951 (new leaders); what is answered when is Kafka's KafkaApis, ReplicaManager and DelayedFetch.

A held fetch with nothing to say is the commonest request of all, so it must cost no more the more partitions it has.
Hence the `Watch`: the partitions of a session, or of a request whose decoded object the server hands in again because
the bytes were the same. A watch that found nothing to read is `clean`, and stays registered with its logs, which tell
it when they change. As long as nothing does, the next fetch of a clean watch is parked, and in the end answered with
the same response object as before, without a look at any partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from apis.call import PARKED, Parked
from apis.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from apis.wire.errors import ErrorCode
from shim.broker.batches import LEADER_EPOCH
from shim.broker.log import PartitionLog
from shim.broker.sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Session, Sessions, next_epoch
from shim.broker.topics import Partition, Topics
from shim.groups.outbox import Outbox

READ_COMMITTED: Final = 1
REMEMBERED_REQUESTS: Final = 10_000
"""How many requests without a session are remembered as watches."""

_UNKNOWN: Final = -1
_NO_ABORTS: Final[list[AbortedTransaction]] = []

Key = tuple[str | bytes, int]
"""A partition as the client names it: by topic name, from version 13 on by topic id, and index."""


class Wanted:
    """One partition that a client fetches: from where, how much, and in a session what it was told last.

    `partition` is None, and `error` says why, where it is nothing that could be read.
    """

    __slots__ = (
        "error",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "offset",
        "partition",
        "told_end",
        "told_start",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, asked: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = asked.partition
        self.partition: Partition | None = None
        self.error = 0
        self.told_end = self.told_start = _UNKNOWN
        self.update(asked)

    def update(self, asked: FetchPartition) -> None:
        self.offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def refusal(self, node_id: int) -> int:
        """The error of reading here from this node, 0 for none."""
        partition = self.partition
        if partition is None:
            return self.error
        if partition.leader != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.leader_epoch > LEADER_EPOCH:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self.last_fetched_epoch > LEADER_EPOCH or not partition.log.has(self.offset):
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return 0


class Waiter:
    """A parked fetch. `epoch` is the one its session had then; `live` turns False when it is answered or dropped."""

    __slots__ = ("epoch", "live", "max_bytes", "min_bytes", "token", "watch")

    def __init__(self, token: object, watch: Watch, request: FetchRequest) -> None:
        self.token = token
        self.watch = watch
        self.min_bytes = request.min_bytes
        self.max_bytes = request.max_bytes
        self.epoch = watch.epoch
        self.live = True


class Watch:
    """The partitions of a session or of one request, and the fetches of them that are parked.

    `generation` is that of the topics when the partitions were looked up. `epoch` is the session's. `request` is the
    remembered request of a watch without a session.
    """

    __slots__ = (
        "by_topic_id",
        "clean",
        "empty",
        "epoch",
        "generation",
        "is_full",
        "leaders_told",
        "logs",
        "owner",
        "parts",
        "read_committed",
        "request",
        "session",
        "waiters",
    )

    def __init__(self, owner: Fetches, request: FetchRequest, *, by_topic_id: bool, leaders_told: bool) -> None:
        self.owner = owner
        self.request: FetchRequest | None = None
        self.session: Session | None = None
        self.epoch = FINAL_EPOCH
        self.is_full = True
        self.by_topic_id = by_topic_id
        self.leaders_told = leaders_told
        self.read_committed = request.isolation_level == READ_COMMITTED
        self.parts: dict[Key, Wanted] = {}
        self.generation = -1
        self.clean = False
        self.empty: FetchResponse | None = None
        self.logs: list[PartitionLog] = []
        self.waiters: dict[object, Waiter] = {}
        self.want(request)

    def want(self, request: FetchRequest) -> None:
        """Add the partitions that a request names, or change what is wanted of them."""
        for topic in request.topics:
            name: str | bytes = topic.topic_id if self.by_topic_id else topic.topic
            for asked in topic.partitions:
                known = self.parts.get((name, asked.partition))
                if known is None:
                    self.parts[name, asked.partition] = Wanted(topic.topic, topic.topic_id, asked)
                    self.generation = -1
                else:
                    known.update(asked)
                self.clean = False

    def forget(self, topics: Iterable[ForgottenTopic]) -> None:
        """Leave out the partitions that a session has no more use for."""
        for topic in topics:
            name: str | bytes = topic.topic_id if self.by_topic_id else topic.topic
            for index in topic.partitions:
                if self.parts.pop((name, index), None) is not None:
                    self.generation = -1
                    self.clean = False

    def changed(self) -> None:
        """A log has changed."""
        self.clean = False
        if self.waiters:
            self.owner.topics.woken[self] = None
        elif self.session is None:
            self.owner.let_go(self)

    def settle(self, now: float) -> None:
        self.owner.settle(self, now)

    def end_session(self) -> None:
        """The session is no more; what is parked is still answered."""
        self.session = None
        self.owner.let_go(self)

    def listen(self) -> None:
        """Be told of every change of the logs."""
        self.unlisten()
        self.logs = [each.partition.log for each in self.parts.values() if each.partition is not None]
        for log in self.logs:
            log.watchers.add(self)

    def unlisten(self) -> None:
        for log in self.logs:
            log.watchers.discard(self)
        self.logs = []


class Fetches:
    """The Fetch rule of one broker, its sessions, and its parked fetches with their deadlines."""

    def __init__(self, node_id: int, topics: Topics, outbox: Outbox, new_id: Callable[[], bytes]) -> None:
        self.node_id = node_id
        self.topics = topics
        self.outbox = outbox
        self.sessions = Sessions(topics.settings.number("max.incremental.fetch.session.cache.slots"), new_id)
        self._remembered: dict[int, Watch] = {}
        self._waiting: dict[object, Waiter] = {}
        self._deadlines: list[tuple[float, int, Waiter]] = []
        self._order = count()
        self._most_bytes = topics.settings.number("fetch.max.bytes")

    def fetch(
        self, request: FetchRequest, token: object, now: float, *, by_topic_id: bool, leaders_told: bool
    ) -> FetchResponse | Parked:
        """Answer or park one Fetch. `by_topic_id`: v13+; `leaders_told`: v16+ (KIP-951)."""
        watch = self._remembered.get(id(request))
        if watch is not None:
            if watch.clean and watch.generation == self.topics.generation:
                return self._park(watch, request, token, now)
        elif request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION and (old := self.sessions.get(request.session_id)) is not None:
                self.sessions.remove(old)
            watch = Watch(self, request, by_topic_id=by_topic_id, leaders_told=leaders_told)
            if request.session_epoch == INITIAL_EPOCH:
                watch.epoch = next_epoch(INITIAL_EPOCH)
        else:
            session = self.sessions.get(request.session_id)
            if session is None:
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            watch = session.watch
            if watch.epoch != request.session_epoch:
                return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            if watch.by_topic_id != by_topic_id:
                return FetchResponse(error_code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
            if request.topics or request.forgotten_topics_data:
                watch.want(request)
                watch.forget(request.forgotten_topics_data)
            if not watch.parts:
                self.sessions.remove(session)
                return FetchResponse()
            watch.epoch = next_epoch(watch.epoch)
            watch.is_full = False
            watch.read_committed = request.isolation_level == READ_COMMITTED
            self.sessions.touch(session, now)
            if watch.clean and watch.generation == self.topics.generation:
                return self._park(watch, request, token, now)
        self._look_up(watch)
        if request.max_wait_ms <= 0 or self._ready(watch, request.min_bytes, request.max_bytes):
            return self._answer(watch, request.max_bytes, now)
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
        self._look_up(watch)
        for waiter in list(watch.waiters.values()):
            if self._ready(watch, waiter.min_bytes, waiter.max_bytes):
                self._reply(waiter, now)

    def let_go(self, watch: Watch) -> None:
        """Forget a watch that belongs to no session, once nothing of it is parked."""
        if watch.session is None and not watch.waiters:
            watch.unlisten()
            if watch.request is not None:
                self._remembered.pop(id(watch.request), None)
                watch.request = None

    def _park(self, watch: Watch, request: FetchRequest, token: object, now: float) -> Parked:
        if not watch.clean:
            self._make_clean(watch, request)
        waiter = Waiter(token, watch, request)
        self._waiting[token] = watch.waiters[token] = waiter
        heappush(self._deadlines, (now + request.max_wait_ms / 1000, next(self._order), waiter))
        if len(self._deadlines) > 2 * len(self._waiting) + 1000:
            self._deadlines = [each for each in self._deadlines if each[2].live]
            heapify(self._deadlines)
        return PARKED

    def _make_clean(self, watch: Watch, request: FetchRequest) -> None:
        """From now on the watch hears of every change; until the first there is nothing more to look at."""
        watch.listen()
        watch.empty = None
        watch.clean = not any(
            each.partition is not None and each.partition.log.readable(each.offset) for each in watch.parts.values()
        )
        if watch.epoch == FINAL_EPOCH and watch.request is None:
            watch.request = request
            self._remembered[id(request)] = watch
            if len(self._remembered) > REMEMBERED_REQUESTS:
                oldest = self._remembered.pop(next(iter(self._remembered)))
                oldest.request = None
                self.let_go(oldest)

    def _reply(self, waiter: Waiter, now: float) -> None:
        waiter.live = False
        watch = waiter.watch
        del self._waiting[waiter.token], watch.waiters[waiter.token]
        if waiter.epoch != watch.epoch:
            response = FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        elif not watch.clean or watch.generation != self.topics.generation:
            self._look_up(watch)
            response = self._answer(watch, waiter.max_bytes, now)
        elif watch.empty is None:
            response = self._answer(watch, waiter.max_bytes, now)
            if watch.epoch == FINAL_EPOCH or not (watch.is_full or response.responses):
                watch.empty = response
        else:
            response = watch.empty
        if watch.request is None or not watch.clean:
            self.let_go(watch)
        self.outbox.replies.append((waiter.token, response, 0))

    def _look_up(self, watch: Watch) -> None:
        """Find the partitions of a watch among the topics as they are now."""
        if watch.generation == self.topics.generation:
            return
        for wanted in watch.parts.values():
            topic = self.topics.with_id(wanted.topic_id) if watch.by_topic_id else self.topics.named(wanted.topic)
            wanted.partition = topic.partition(wanted.index) if topic is not None else None
            if topic is None and watch.by_topic_id:
                wanted.error = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                wanted.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        watch.generation = self.topics.generation
        watch.clean = False
        if watch.waiters:
            watch.listen()

    def _ready(self, watch: Watch, min_bytes: int, max_bytes: int) -> bool:
        """Whether a fetch is answered now: enough to read, nothing that could be read, or an error in reading.

        A partition that does not exist is no reason by itself, in Kafka neither: its error waits with the others.
        """
        found = 0
        enough = min(min_bytes, max_bytes, self._most_bytes)
        has_partition = False
        for wanted in watch.parts.values():
            partition = wanted.partition
            if partition is None:
                continue
            has_partition = True
            if wanted.refusal(self.node_id):
                return True
            if wanted.offset < partition.log.end_offset:
                found += min(partition.log.readable(wanted.offset), wanted.max_bytes)
        return found >= enough or not has_partition

    def _answer(self, watch: Watch, max_bytes: int, now: float) -> FetchResponse:
        """Read all partitions, and say of a session's only what is new."""
        left = min(max_bytes, self._most_bytes)
        first_whole = True
        answered: list[tuple[Wanted, PartitionData]] = []
        for wanted in watch.parts.values():
            data = self._read(wanted, watch, left, first_whole=first_whole)
            if data.records:
                left = max(0, left - len(data.records))
                first_whole = False
            if watch.is_full or _is_news(wanted, data):
                answered.append((wanted, data))
        session_id = self._told(watch, answered, now)
        response = FetchResponse(session_id=session_id, responses=_by_topic(answered))
        if watch.leaders_told:
            response.node_endpoints = self._new_leaders(data for _, data in answered)
        return response

    def _read(self, wanted: Wanted, watch: Watch, left: int, *, first_whole: bool) -> PartitionData:
        partition = wanted.partition
        error = wanted.refusal(self.node_id)
        if partition is None or error:
            data = PartitionData(
                partition_index=wanted.index,
                error_code=error,
                high_watermark=_UNKNOWN,
                aborted_transactions=_NO_ABORTS if partition is None else None,
                records=b"",
            )
            if partition is not None and watch.leaders_told and error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                data.current_leader = LeaderIdAndEpoch(partition.leader, LEADER_EPOCH)
            return data
        log = partition.log
        data = PartitionData(
            partition_index=wanted.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=_NO_ABORTS if watch.read_committed else None,
            records=b"",
        )
        if wanted.offset < log.end_offset:
            data.records = log.read(wanted.offset, min(wanted.max_bytes, left), first_whole=first_whole)
        return data

    def _told(self, watch: Watch, answered: list[tuple[Wanted, PartitionData]], now: float) -> int:
        """Note what a session's client knows after this answer, and open the session it asked for; its id, or 0."""
        if watch.epoch == FINAL_EPOCH:
            return NO_SESSION
        if watch.is_full and watch.session is None:
            watch.session = self.sessions.create(watch, now)
        for wanted, data in answered:
            wanted.told_end = _UNKNOWN if data.error_code else data.high_watermark
            wanted.told_start = data.log_start_offset
            if data.records and watch.session is not None:
                # A partition that had its turn goes last, so that the limit of the answer starves nobody.
                key: Key = (wanted.topic_id if watch.by_topic_id else wanted.topic, wanted.index)
                watch.parts[key] = watch.parts.pop(key)
        return watch.session.id if watch.session is not None else NO_SESSION

    def _new_leaders(self, answered: Iterable[PartitionData]) -> list[NodeEndpoint]:
        leaders = {data.current_leader.leader_id for data in answered if data.error_code}
        return [NodeEndpoint(*self.topics.nodes[each]) for each in sorted(leaders & self.topics.nodes.keys())]


def _is_news(wanted: Wanted, data: PartitionData) -> bool:
    return bool(
        data.records
        or data.error_code
        or data.high_watermark != wanted.told_end
        or data.log_start_offset != wanted.told_start
    )


def _by_topic(answered: list[tuple[Wanted, PartitionData]]) -> list[FetchableTopicResponse]:
    topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    for wanted, data in answered:
        topic = topics.get((wanted.topic, wanted.topic_id))
        if topic is None:
            topic = topics[wanted.topic, wanted.topic_id] = FetchableTopicResponse(wanted.topic, wanted.topic_id)
        topic.partitions.append(data)
    return list(topics.values())
