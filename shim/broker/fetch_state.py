"""The partitions of a fetch session or of one request, and the fetches that are parked on them.

Tells the error of a read, whether there are enough bytes, and which partitions of a session may have news;
`fetch_answers.py` makes the answer. Sources: KIP-227, KIP-320; the condition for an answer is that of Kafka's
DelayedFetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, Protocol

from kafka_shim.apis.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
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

_place: Final = attrgetter("place")


class FetchedPartition:
    """One partition that a client fetches: its offset and limits, and the bounds of the log in the last answer of a
    session.

    If it cannot be read, `partition` is None and `error` is the reason. `place` orders the partitions of an answer.
    `log` is the one that is watched for changes, if any.
    """

    __slots__ = (
        "error",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "log",
        "max_bytes",
        "offset",
        "partition",
        "place",
        "sent_high_watermark",
        "sent_log_start",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, source: FetchPartition, place: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = source.partition
        self.place = place
        self.partition: Partition | None = None
        self.log: PartitionLog | None = None
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

    def answered(self, data: PartitionData) -> bool:
        """Note the bounds in the answer to a session; return True if they are news, or there are records or an
        error."""
        high_watermark = UNKNOWN if data.error_code else data.high_watermark
        is_news = (
            self.sent_high_watermark != high_watermark
            or self.sent_log_start != data.log_start_offset
            or bool(data.records or data.error_code)
        )
        self.sent_high_watermark, self.sent_log_start = high_watermark, data.log_start_offset
        return is_news


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

    def end(self) -> None:
        """Note the answer or the end of the connection. Its deadline, perhaps in weeks, keeps the object alone."""
        self.live = False
        del self.exchange, self.state


class FetchState:
    """The partitions of a session or of one request, and their parked fetches.

    `revision` is that of the topics when the partitions were looked up. `clean` means that there was nothing to read
    and no log has changed since; `empty` is the answer that a clean state repeats, None before the first one. `epoch`
    is the session's, -1 without one; `is_full` until an answer had every partition once. `request` is the remembered
    request of a state without a session. `surplus` is counted beside the number of partitions, for long names.
    `in_turns` counts the answers that are made in turns.

    Neither another client's Produce nor a short request may look at all partitions. So while `_is_counted`, all logs,
    `_watched` in number, are watched, `_unread` has the bytes of each partition with any, `_unread_bytes` is their sum,
    `_changed` has the partitions to count again, `_unstable` those with an open transaction, and `_unknown` those
    without a log. While `_is_followed`, from a session's second fetch on, `_news` has all partitions that may be part
    of the next answer.
    """

    __slots__ = (
        "by_topic_id",
        "clean",
        "empty",
        "epoch",
        "in_turns",
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
        "_is_followed",
        "_news",
        "_owner",
        "_places",
        "_unknown",
        "_unread",
        "_unread_bytes",
        "_unstable",
        "_watched",
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
        self.in_turns = 0
        self._owner = owner
        self._places = 0
        self._watched = 0
        self._is_counted = self._is_followed = False
        self._changed: dict[FetchedPartition, None] = {}
        self._unknown: dict[FetchedPartition, None] = {}
        self._unstable: dict[FetchedPartition, None] = {}
        self._news: dict[FetchedPartition, None] = {}
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
                    self._places += 1
                    part = FetchedPartition(topic.topic, topic.topic_id, source, self._places)
                    self.parts[name, source.partition] = part
                    if surplus:
                        self.surplus += surplus
                    self.revision = -1
                    if self._is_counted:
                        self._unknown[part] = None
                else:
                    part.update(source)
                if self._is_counted:
                    self._note(part)
        self.clean = False

    def forget(self, topics: Iterable[ForgottenTopic]) -> None:
        """Remove partitions from a session."""
        for topic in topics:
            name: str | bytes = topic.topic_id if self.by_topic_id else topic.topic
            for index in topic.partitions:
                part = self.parts.pop((name, index), None)
                if part is not None:
                    self.surplus -= len(topic.topic) // _LONG_NAME
                    self._unwatch(part)
                    for group in (self._changed, self._unknown, self._news):
                        group.pop(part, None)
        self.clean = False

    def change_isolation_level(self) -> None:
        """Read committed records alone, or all again: open transactions make the difference."""
        self.read_committed = not self.read_committed
        self.clean = False
        self._changed |= self._unstable
        if self._is_followed:
            self._news |= self._changed

    def put_last(self, part: FetchedPartition) -> None:
        """Move a partition that had its turn to the end, so that the limit of an answer starves no partition."""
        self._places += 1
        part.place = self._places

    def to_look_up(self, topics: Topics) -> int:
        """Return the number of partitions that `look_up` and `is_ready` have to look at."""
        if not self._is_counted:
            return len(self.parts)
        return len(self._changed) + (0 if self.revision == topics.revision else len(self._unknown))

    def look_up(self, topics: Topics) -> None:
        """Find the partitions among the topics as they are now."""
        if self.revision == topics.revision:
            return
        self.revision = topics.revision
        if not self._is_counted:
            for part in self.parts.values():
                self._find(part, topics)
            return
        # A log tells when its topic goes, so the other partitions are the same as before.
        for part in self._unknown | self._changed:
            before = part.partition, part.error
            self._find(part, topics)
            if before != (part.partition, part.error):
                self._unwatch(part)
                self._watch(part)
                self._note(part)
                self.clean = False

    def _find(self, part: FetchedPartition, topics: Topics) -> None:
        topic = topics.with_id(part.topic_id) if self.by_topic_id else topics.named(part.topic)
        part.partition = topic.partition(part.index) if topic is not None else None
        if topic is None and self.by_topic_id:
            part.error = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            part.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def follow(self) -> None:
        """Note from now on which partitions of a session may have news; at first all of them may."""
        if self._is_followed:
            return
        if not self._is_counted:
            self._watch_all()
            self._changed = {part: None for part in self.parts.values() if part.log is not None}
        self._is_followed = True
        self._news = dict.fromkeys(self.parts.values())

    @property
    def to_answer(self) -> int:
        """Return the number of partitions that may be part of the next answer."""
        return len(self.parts if self.is_full or not self._is_followed else self._news)

    def candidates(self) -> Sequence[FetchedPartition]:
        """Return the partitions that may be part of the next answer, in its order."""
        if self.is_full or not self._is_followed:
            return list(self.parts.values())
        in_order = sorted(self._news, key=_place)
        self._news = dict.fromkeys(in_order)
        return in_order

    def is_news(self, part: FetchedPartition, node_id: int) -> bool:
        """Return False if a partition need not be part of the answer; then it is no candidate until it changes."""
        if not part.is_old_news(node_id, committed=self.read_committed):
            return True
        self._news.pop(part, None)
        return False

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
            if not self._changed:
                # An empty dict keeps the memory of its largest size.
                self._changed.clear()
            return self._unread_bytes >= enough or not self._watched
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
        if log.transactions.first_unstable() is not None:
            self._unstable[part] = None
        elif self._unstable:
            self._unstable.pop(part, None)

    def listen(self) -> None:
        """Watch the logs for changes from now on, and compute `clean`."""
        if not self._is_counted:
            self._watch_all()
            for part in self.parts.values():
                if part.log is not None and part.offset < part.log.end_offset:
                    self._count(part, part.log)
        self.empty = None
        self.clean = not (self._unread or self._changed)

    def _watch_all(self) -> None:
        self.unlisten()
        for part in self.parts.values():
            self._watch(part)
        self._is_counted = True

    def _watch(self, part: FetchedPartition) -> None:
        if part.partition is None:
            self._unknown[part] = None
        else:
            self._unknown.pop(part, None)
            part.log = part.partition.log
            part.log.watchers[self] = part
            self._watched += 1

    def _unwatch(self, part: FetchedPartition) -> None:
        if part.log is not None:
            part.log.watchers.pop(self, None)
            part.log = None
            self._watched -= 1
            self._unread_bytes -= self._unread.pop(part, 0)
            self._unstable.pop(part, None)

    def unlisten(self) -> None:
        """Stop watching the logs."""
        if self._watched:
            for part in self.parts.values():
                if part.log is not None:
                    part.log.watchers.pop(self, None)
                    part.log = None
        self._watched, self._unread = 0, {}
        self._changed, self._news, self._unknown, self._unstable = {}, {}, {}, {}
        self._unread_bytes = 0
        self.clean = self._is_counted = self._is_followed = False

    def _note(self, part: FetchedPartition) -> None:
        self._changed[part] = None
        if self._is_followed:
            self._news[part] = None

    def changed(self, name: FetchedPartition) -> None:
        """Note that the log of a partition has changed."""
        self.clean = False
        self._changed[name] = None
        if self._is_followed:
            self._news[name] = None
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
