"""What a client fetches, remembered: the partitions of a fetch session or of one request, and who waits for them.

Decides what is wrong with reading a partition, whether there is enough to read, and what of it is news to a session.
Does not know how an answer is made (`fetches.py`), nor how sessions come and go (`fetch_sessions.py`).
Sources: KIP-227, KIP-320; when a fetch is ready is Kafka's DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import LEADER_EPOCH
from kafka_shim.broker.fetch_sessions import FINAL_EPOCH, FetchSession
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.topics import Partition, Topics

READ_COMMITTED: Final = 1
UNKNOWN: Final = -1

Key = tuple[str | bytes, int]
"""A partition as the client names it: by topic name, from version 13 on by topic id, and index."""


class FetchedPartition:
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
        self.told_end = self.told_start = UNKNOWN
        self.update(asked)

    def update(self, asked: FetchPartition) -> None:
        """Take over what a session's client wants from now on."""
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

    def is_old_news(self, node_id: int, *, committed: bool) -> bool:
        """Whether a session's client would learn nothing: no records, no error, no bound of the log it was not told."""
        if self.partition is None or self.refusal(node_id):
            return False
        log = self.partition.log
        is_read = self.offset >= log.readable_end(committed=committed)
        return is_read and self.told_end == log.end_offset and self.told_start == log.start_offset


class Owner(Protocol):
    """Who makes the answers of a state."""

    topics: Topics

    def settle(self, state: FetchState, now: float) -> None: ...

    def let_go(self, state: FetchState) -> None: ...


class ParkedFetch:
    """A parked fetch. `epoch` is the one its session had then; `live` turns False when it is answered or dropped."""

    __slots__ = ("epoch", "live", "max_bytes", "min_bytes", "token", "state")

    def __init__(self, token: object, state: FetchState, request: FetchRequest) -> None:
        self.token = token
        self.state = state
        self.min_bytes = request.min_bytes
        self.max_bytes = request.max_bytes
        self.epoch = state.epoch
        self.live = True


class FetchState:
    """The partitions of a session or of one request, and the fetches of them that are parked.

    `generation` is that of the topics when the partitions were looked up. `clean` says that there was nothing to read
    and no log has changed since; `empty` is the answer that a clean state gives again and again, once there was one.
    `epoch` is the session's, -1 without one; `is_full` until the session has been told of every partition once.
    `request` is the remembered request of a state without a session.
    """

    __slots__ = (
        "by_topic_id",
        "clean",
        "empty",
        "epoch",
        "generation",
        "is_full",
        "leaders_told",
        "parts",
        "read_committed",
        "request",
        "session",
        "waiters",
        "_logs",
        "_owner",
    )

    def __init__(self, owner: Owner, request: FetchRequest, *, by_topic_id: bool, leaders_told: bool) -> None:
        self.request: FetchRequest | None = None
        self.session: FetchSession[FetchState] | None = None
        self.epoch = FINAL_EPOCH
        self.is_full = True
        self.by_topic_id = by_topic_id
        self.leaders_told = leaders_told
        self.read_committed = request.isolation_level == READ_COMMITTED
        self.parts: dict[Key, FetchedPartition] = {}
        self.generation = -1
        self.clean = False
        self.empty: FetchResponse | None = None
        self.waiters: dict[object, ParkedFetch] = {}
        self._owner = owner
        self._logs: list[PartitionLog] = []
        self.want(request.topics)

    def want(self, topics: Iterable[FetchTopic]) -> None:
        """Add the partitions that a request names, or change what is wanted of them."""
        for topic in topics:
            name: str | bytes = topic.topic_id if self.by_topic_id else topic.topic
            for asked in topic.partitions:
                known = self.parts.get((name, asked.partition))
                if known is None:
                    self.parts[name, asked.partition] = FetchedPartition(topic.topic, topic.topic_id, asked)
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

    def put_last(self, wanted: FetchedPartition) -> None:
        """A partition that had its turn goes last, so that the limit of an answer starves nobody."""
        key: Key = (wanted.topic_id if self.by_topic_id else wanted.topic, wanted.index)
        self.parts[key] = self.parts.pop(key)

    def look_up(self, topics: Topics) -> None:
        """Find the partitions among the topics as they are now."""
        if self.generation == topics.generation:
            return
        for wanted in self.parts.values():
            topic = topics.with_id(wanted.topic_id) if self.by_topic_id else topics.named(wanted.topic)
            wanted.partition = topic.partition(wanted.index) if topic is not None else None
            if topic is None and self.by_topic_id:
                wanted.error = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                wanted.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.generation = topics.generation
        self.clean = False
        if self.waiters:
            self.listen()

    def is_ready(self, node_id: int, enough: int) -> bool:
        """Whether a fetch is answered now: `enough` bytes to read, nothing that could be read, or an error in reading.

        A partition that does not exist is no reason by itself, in Kafka neither: its error waits with the others.
        """
        found = 0
        has_partition = False
        for wanted in self.parts.values():
            partition = wanted.partition
            if partition is None:
                continue
            has_partition = True
            if wanted.refusal(node_id):
                return True
            if wanted.offset < partition.log.readable_end(committed=self.read_committed):
                found += min(partition.log.readable(wanted.offset, committed=self.read_committed), wanted.max_bytes)
                if found >= enough:
                    return True
        return found >= enough or not has_partition

    def listen(self) -> None:
        """Hear of every change of the logs from now on, and see whether the state is clean."""
        self.unlisten()
        self._logs = [each.partition.log for each in self.parts.values() if each.partition is not None]
        for log in self._logs:
            log.watchers.add(self)
        self.empty = None
        self.clean = not any(
            each.partition is not None and each.offset < each.partition.log.readable_end(committed=self.read_committed)
            for each in self.parts.values()
        )

    def unlisten(self) -> None:
        """Hear no more of the logs."""
        for log in self._logs:
            log.watchers.discard(self)
        self._logs = []
        self.clean = False

    def changed(self) -> None:
        """A log has changed."""
        self.clean = False
        if self.waiters:
            self._owner.topics.woken[self] = None
        elif self.session is None:
            self._owner.let_go(self)

    def settle(self, now: float) -> None:
        """All changes of the logs are made."""
        self._owner.settle(self, now)

    def end_session(self) -> None:
        """The session is no more; what is parked is still answered."""
        self.session = None
        self._owner.let_go(self)
