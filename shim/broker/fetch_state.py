"""The partitions of a fetch session or of one request, and the fetches that are parked on them.

Tells the error of a read, whether there are enough bytes, and the news for a session; `fetches.py` makes the answer.
Sources: KIP-227, KIP-320; the condition for an answer is that of Kafka's DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import LEADER_EPOCH
from kafka_shim.broker.fetch_sessions import FINAL_EPOCH, FetchSession
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.topics import MAX_NAME_LENGTH, Partition, Topics

READ_COMMITTED: Final = 1
UNKNOWN: Final = -1

_LONG_NAME: Final = MAX_NAME_LENGTH + 1
"""Each so many characters of a name take the memory of another partition."""

Key = tuple[str | bytes, int]
"""A partition as the client names it: by topic name, from version 13 on by topic id, and index."""


class FetchedPartition:
    """One partition that a client fetches: its offset and limits, and the bounds of the log in the last answer of a
    session.

    If it cannot be read, `partition` is None and `error` is the reason.
    """

    __slots__ = (
        "error",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "offset",
        "partition",
        "sent_high_watermark",
        "sent_log_start",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, source: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = source.partition
        self.partition: Partition | None = None
        self.error = 0
        self.sent_high_watermark = self.sent_log_start = UNKNOWN
        self.update(source)

    def update(self, source: FetchPartition) -> None:
        """Take over offset and limits from a later request of the session."""
        self.offset = source.fetch_offset
        self.max_bytes = source.partition_max_bytes
        self.leader_epoch = source.current_leader_epoch
        self.last_fetched_epoch = source.last_fetched_epoch

    def refusal(self, node_id: int) -> int:
        """Return the error of a read from this node, 0 for none."""
        partition = self.partition
        if partition is None:
            return self.error
        if partition.leader != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if partition.begin_log is not None and (error := partition.begin_log()):
            return error
        if self.leader_epoch > LEADER_EPOCH:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if self.last_fetched_epoch > LEADER_EPOCH or not partition.log.has(self.offset):
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return 0

    def is_old_news(self, node_id: int, *, committed: bool) -> bool:
        """Return True if an answer would have no news for a session: no records, no error, the same bounds of the
        log."""
        if self.partition is None or self.refusal(node_id):
            return False
        log = self.partition.log
        is_read = self.offset >= log.readable_end(committed=committed)
        return is_read and self.sent_high_watermark == log.end_offset and self.sent_log_start == log.start_offset


class Owner(Protocol):
    """The part that makes the answers of a state."""

    topics: Topics

    def settle(self, state: FetchState, now: float) -> None: ...

    def let_go(self, state: FetchState) -> None: ...


class ParkedFetch:
    """A parked fetch. `epoch` is that of its session when it was parked; `live` turns False at its answer or
    removal."""

    __slots__ = ("epoch", "live", "max_bytes", "min_bytes", "exchange", "state")

    def __init__(self, exchange: object, state: FetchState, request: FetchRequest) -> None:
        self.exchange = exchange
        self.state = state
        self.min_bytes = request.min_bytes
        self.max_bytes = request.max_bytes
        self.epoch = state.epoch
        self.live = True


class FetchState:
    """The partitions of a session or of one request, and their parked fetches.

    `revision` is that of the topics when the partitions were looked up. `clean` means that there was nothing to read
    and no log has changed since; `empty` is the answer that a clean state repeats, None before the first one. `epoch`
    is the session's, -1 without one; `is_full` until an answer had every partition once. `request` is the remembered
    request of a state without a session. `surplus` is counted beside the number of partitions, for long names.

    Another client's Produce must not look at all partitions of a parked fetch, so their readable bytes are counted.
    While `_is_counted`, all logs are watched, `_unread` has the bytes of each partition with any, `_unread_bytes` is
    their sum, and `_changed` has the partitions to count again.
    """

    __slots__ = (
        "by_topic_id",
        "clean",
        "empty",
        "epoch",
        "revision",
        "is_full",
        "with_leaders",
        "parts",
        "read_committed",
        "request",
        "session",
        "surplus",
        "waiters",
        "_changed",
        "_is_counted",
        "_logs",
        "_owner",
        "_unread",
        "_unread_bytes",
    )

    def __init__(self, owner: Owner, request: FetchRequest, *, by_topic_id: bool, with_leaders: bool) -> None:
        self.request: FetchRequest | None = None
        self.session: FetchSession[FetchState] | None = None
        self.epoch = FINAL_EPOCH
        self.is_full = True
        self.by_topic_id = by_topic_id
        self.with_leaders = with_leaders
        self.read_committed = request.isolation_level == READ_COMMITTED
        self.parts: dict[Key, FetchedPartition] = {}
        self.surplus = 0
        self.revision = -1
        self.clean = False
        self.empty: FetchResponse | None = None
        self.waiters: dict[object, ParkedFetch] = {}
        self._owner = owner
        self._logs: list[PartitionLog] = []
        self._is_counted = False
        self._changed: dict[FetchedPartition, None] = {}
        self._unread: dict[FetchedPartition, int] = {}
        self._unread_bytes = 0
        self.add(request.topics)

    def add(self, topics: Iterable[FetchTopic]) -> None:
        """Add the partitions of a request, or change their offsets and limits."""
        for topic in topics:
            name: str | bytes = topic.topic_id if self.by_topic_id else topic.topic
            surplus = len(topic.topic) // _LONG_NAME
            for source in topic.partitions:
                part = self.parts.get((name, source.partition))
                if part is None:
                    self.parts[name, source.partition] = FetchedPartition(topic.topic, topic.topic_id, source)
                    if surplus:
                        self.surplus += surplus
                    self.revision = -1
                else:
                    part.update(source)
                    self._changed[part] = None
                self.clean = False

    def forget(self, topics: Iterable[ForgottenTopic]) -> None:
        """Remove partitions from a session."""
        for topic in topics:
            name: str | bytes = topic.topic_id if self.by_topic_id else topic.topic
            for index in topic.partitions:
                if self.parts.pop((name, index), None) is not None:
                    self.surplus -= len(topic.topic) // _LONG_NAME
                    self.revision = -1
                    self.clean = False

    def put_last(self, part: FetchedPartition) -> None:
        """Move a partition that had its turn to the end, so that the limit of an answer starves no partition."""
        key: Key = (part.topic_id if self.by_topic_id else part.topic, part.index)
        self.parts[key] = self.parts.pop(key)

    def look_up(self, topics: Topics) -> None:
        """Find the partitions among the topics as they are now."""
        if self.revision == topics.revision:
            return
        for part in self.parts.values():
            topic = topics.with_id(part.topic_id) if self.by_topic_id else topics.named(part.topic)
            part.partition = topic.partition(part.index) if topic is not None else None
            if topic is None and self.by_topic_id:
                part.error = ErrorCode.UNKNOWN_TOPIC_ID
            else:
                part.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.revision = topics.revision
        self.clean = self._is_counted = False
        if self.waiters:
            self.listen()
            # There may be other leaders, too.
            self._changed, self.clean = dict.fromkeys(self.parts.values()), False

    def is_ready(self, node_id: int, enough: int) -> bool:
        """Return True if a fetch is to be answered now: there are `enough` bytes, no partition can be read, or one has
        an error.

        A partition that does not exist is no reason by itself, as in Kafka: its error waits with the others.
        """
        if self._is_counted:
            # The first read of a log begins it, and so changes it.
            for part in list(self._changed):
                if part.partition is not None:
                    if part.refusal(node_id):
                        return True
                    self._count(part, part.partition.log)
                self._changed.pop(part, None)
            return self._unread_bytes >= enough or not self._logs
        readable = 0
        has_partition = False
        for part in self.parts.values():
            partition = part.partition
            if partition is None:
                continue
            has_partition = True
            if part.refusal(node_id):
                return True
            if part.offset < partition.log.readable_end(committed=self.read_committed):
                readable += min(partition.log.readable(part.offset, committed=self.read_committed), part.max_bytes)
                if readable >= enough:
                    return True
        return readable >= enough or not has_partition

    def _count(self, part: FetchedPartition, log: PartitionLog) -> None:
        readable = log.readable(part.offset, committed=self.read_committed)
        if part in self._unread:
            self._unread_bytes -= self._unread.pop(part)
        if readable:
            self._unread[part] = counted = min(readable, part.max_bytes)
            self._unread_bytes += counted

    def listen(self) -> None:
        """Watch the logs for changes from now on, and compute `clean`."""
        if not self._is_counted:
            self.unlisten()
            for part in self.parts.values():
                if part.partition is not None:
                    log = part.partition.log
                    self._logs.append(log)
                    log.watchers[self] = part
                    if part.offset < log.readable_end(committed=self.read_committed):
                        self._count(part, log)
            self._is_counted = True
        self.empty = None
        self.clean = not (self._unread or self._changed)

    def unlisten(self) -> None:
        """Stop watching the logs."""
        for log in self._logs:
            log.watchers.pop(self, None)
        self._logs = []
        self._changed, self._unread, self._unread_bytes = {}, {}, 0
        self.clean = self._is_counted = False

    def changed(self, name: FetchedPartition) -> None:
        """Note that the log of a partition has changed."""
        self.clean = False
        self._changed[name] = None
        if self.waiters:
            self._owner.topics.woken[self] = None
        elif self.session is None:
            self._owner.let_go(self)

    def settle(self, now: float) -> None:
        """Answer parked fetches after all changes of the logs."""
        self._owner.settle(self, now)

    def end_session(self) -> None:
        """End the session; parked fetches are still answered."""
        self.session = None
        self._owner.let_go(self)
