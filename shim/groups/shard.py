"""One partition of `__consumer_offsets`: its groups and their offsets, and what a record does to them.

Decides which object a record changes. `replay` is the only way hard state changes: rules call `write`, which makes the
record durable with the current batch and replays it at once; a store read at start is replayed by the same code. The
shard knows no kind of group, no request, nor whether this node has the partition: that is `service.py`.

Source: semantics 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from kafka_shim.groups import events
from kafka_shim.groups.assignors.registry import Assignors
from kafka_shim.groups.committed_offsets import CommittedOffsets
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.counters import Counters
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import GroupComputation
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.pending_offsets import PendingOffsets
from kafka_shim.groups.rows import Row
from kafka_shim.groups.share.persister import SharePersister
from kafka_shim.groups.timers import NEVER, ShardTimer, Timer, Timers
from kafka_shim.groups.transactional_ids import Transaction
from kafka_shim.persistence.records import (
    OffsetCommitKey,
    OffsetCommitValues,
    PendingOffsetKey,
    TransactionKey,
    TransactionValue,
)
from kafka_shim.persistence.sizes import batch_size


class TopicCatalogue(Protocol):
    """The topics of the cluster, as far as groups look at them."""

    def names(self) -> list[str]:
        """Every topic."""

    def partitions_of(self, topic: str) -> int:
        """How many partitions the topic has; 0 if it does not exist."""

    def topic_id(self, topic: str) -> bytes | None:
        """The id of a topic, 16 bytes, or None."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic id, or None."""

    def max_batch_bytes(self) -> int:
        """How large a batch of records of `__consumer_offsets` may be: its `max.message.bytes`."""


class NoTopics:
    """A cluster without topics."""

    def names(self) -> list[str]:
        return []

    def partitions_of(self, topic: str) -> int:
        return 0

    def topic_id(self, topic: str) -> bytes | None:
        return None

    def topic_name(self, topic_id: bytes) -> str | None:
        return None

    def max_batch_bytes(self) -> int:
        return 1_048_588


class Kind(NamedTuple):
    """A kind of group. `docs/kinds.md` says how one is added.

    `name` is the type of its groups, as ListGroups spells it. `records` are the classes of keys whose records are
    replayed by groups of this kind. `rules` has, by class of request, the rule that answers it:
    `rule(shard, request, ...)` for a request about one group, `rule(shard, group_id)` for one that describes groups.
    `row_of(group, request, member_id_required=...)` is the row of a table that decides about a request, for people to
    see, and None if no table does; the group is None where there is none yet, and may be of another kind.
    """

    name: str
    states: type[StrEnum]
    make: Callable[[str, Shard], Group]
    records: Sequence[type]
    rules: Mapping[type, Callable[..., Any]]
    row_of: Callable[..., Row | None] = lambda group, request, *, member_id_required: None


class NodeParts(NamedTuple):
    """What all shards of a node share.

    `groups` is every group of them, by id. `makers` has the kind that replays a record, by class of its key; `simple`
    is the kind of a group that has only offsets. `assignors` are those of KIP-848 groups. `group_settings` has what was
    set for a single group (resource GROUP), by its id. `share_states` say how far share groups have come. `new_id`
    makes the part of a member id that is nobody else's. `wall_offset` is what makes Unix time, in seconds, of monotonic
    `now`.
    """

    config: GroupConfig
    outbox: Outbox
    timers: Timers
    counters: Counters
    topics: TopicCatalogue
    groups: dict[str, Group]
    kinds: Mapping[type, Kind]
    simple: Kind
    assignors: Assignors
    group_settings: Callable[[str], Mapping[str, str]]
    share_states: SharePersister
    new_id: Callable[[], str]
    wall_offset: float


class Shard:
    """Groups and offsets of one partition. `batch` is the number of the newest batch that has a record of it."""

    def __init__(self, partition: int, parts: NodeParts) -> None:
        self.partition = partition
        self.batch = 0
        self.config = parts.config
        self.outbox = parts.outbox
        self.timers = parts.timers
        self.counters = parts.counters
        self.topics = parts.topics
        self.assignors = parts.assignors
        self.group_settings = parts.group_settings
        self.share_states = parts.share_states
        self.new_id = parts.new_id
        self.groups: dict[str, Group] = {}
        self.computations: dict[str, GroupComputation] = {}
        """By group id, what is computed elsewhere while requests about the group wait for it."""
        self.computed: GroupComputation | None = None
        """The one of them that has just ended, while the first request that waited for it is served."""
        self.offsets = CommittedOffsets()
        self.pending = PendingOffsets()
        self.transactions: dict[str, Transaction] = {}
        self.expiry_timer = Timer(ShardTimer.OFFSET_EXPIRY, partition)
        self.unknown_records = 0
        self._index = parts.groups
        self._kinds = parts.kinds
        self._simple = parts.simple
        self._wall_offset = parts.wall_offset
        self._timestamps: tuple[float, tuple[int, ...]] = NEVER, ()

    def wall_ms(self, now: float) -> int:
        """Milliseconds of Unix time at monotonic `now`."""
        return int((now + self._wall_offset) * 1000)

    def timestamps(self, now: float, count: int) -> tuple[int, ...]:
        """`wall_ms` for each of so many records that are written together; commits of one moment have one tuple."""
        made_at, made = self._timestamps
        if made_at != now or len(made) != count:
            made = (self.wall_ms(now),) * count
            self._timestamps = now, made
        return made

    def monotonic(self, wall_ms: int) -> float:
        """Monotonic seconds at a millisecond of Unix time."""
        return wall_ms / 1000 - self._wall_offset

    # Records

    def resign(self) -> None:
        """The partition is this node's no more: a refusal shows nothing that would have to be durable first."""
        self.batch = 0
        computations, self.computations = self.computations, {}
        for computation in computations.values():
            computation.abandon()

    def topic_changed(self, topic: str, now: float) -> None:
        """A topic was created, has grown, or is gone: every group hears of it."""
        for group in list(self.groups.values()):
            group.topic_changed(topic, now)
        for computation in self.computations.values():
            computation.topic_changed(topic, now)

    def has_room_for(self, records: Sequence[tuple[Any, Any]]) -> bool:
        """Whether `__consumer_offsets` has room for records that go together.

        Whoever finds none answers UNKNOWN_SERVER_ERROR (-1), which is what Kafka makes of MESSAGE_TOO_LARGE
        (semantics 2.10). The size is worked out by encoding them: where that costs too much, ask with an upper bound of
        the size before.
        """
        return batch_size(records) <= self.topics.max_batch_bytes()

    def write(self, key: Any, value: Any) -> None:
        """Make a record durable with the current batch and let it take effect."""
        self.outbox.write(self, key, value)
        self.replay(key, value)

    def write_commit(self, values: OffsetCommitValues) -> None:
        """Make the offsets of one commit, of a group that is there, durable with the current batch and let them take
        effect."""
        self.outbox.write(self, None, values)
        self.offsets.replay_commit(values)

    def replay(self, key: Any, value: Any) -> None:
        """Let a record take effect; `value` None is a tombstone. Records of unknown types are counted and skipped.

        Raises ValueError for a record of one kind of group where there is a group of another.
        """
        record = type(key)
        if record is OffsetCommitKey:
            self.offsets.replay(key, value)
            if value is not None and key.group not in self.groups:
                self.make_simple(key.group)
        elif (kind := self._kinds.get(record)) is not None:
            self._replay_group(kind, key, value)
        elif record is PendingOffsetKey:
            self.pending.replay(key, value)
            if value is not None and key.group not in self.groups:
                self.make_simple(key.group)
        elif record is TransactionKey:
            self._replay_transaction(key, value)
        else:
            self.unknown_records += 1

    def _replay_group(self, kind: Kind, key: Any, value: Any) -> None:
        group = self.groups.get(key.group)
        if group is None or group.type != kind.name:
            if value is None:
                return
            if group is not None:
                if not group.is_simple:
                    raise ValueError(f"Group {key.group!r} has records of {group.type} and of {kind.name} groups.")
                self.drop(key.group)
            group = self._make(kind, key.group)
        group.replay(key, value)

    def _replay_transaction(self, key: TransactionKey, value: TransactionValue | None) -> None:
        transaction = self.transactions.get(key.transactional_id)
        if value is None:
            if transaction is not None:
                self.cancel(transaction.timer)
                del self.transactions[key.transactional_id]
            return
        if transaction is None:
            transaction = self.transactions[key.transactional_id] = Transaction(key.transactional_id, self.partition)
        transaction.apply(value)

    # Groups

    def make_simple(self, group_id: str) -> Group:
        """A new group that has only offsets, and no record."""
        return self._make(self._simple, group_id)

    def _make(self, kind: Kind, group_id: str) -> Group:
        group = kind.make(group_id, self)
        self.adopt(group_id, group)
        return group

    def new_group(self, record: type, group_id: str) -> Group:
        """A group of the kind that replays records with this class of key. It is not among the groups before
        `adopt`."""
        return self._kinds[record].make(group_id, self)

    def adopt(self, group_id: str, group: Group) -> None:
        """A group is here from now on, in the state that it has. Its records are the caller's."""
        self.groups[group_id] = self._index[group_id] = group

    def drop(self, group_id: str) -> None:
        """Forget a group and its timers; nothing happens if it is not there."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            del self._index[group_id]
            group.release()

    # Timers

    def arm(self, timer: Timer, deadline: float) -> None:
        """Let a timer fire at `deadline`, in monotonic seconds."""
        self.timers.arm(timer, deadline)
        if self.outbox.tracing:
            events.timer(self.outbox, timer, "armed", deadline)

    def cancel(self, timer: Timer) -> None:
        """Let a timer not fire; nothing happens if it is not armed."""
        if timer.deadline != NEVER:
            if self.outbox.tracing:
                events.timer(self.outbox, timer, "cancelled", timer.deadline)
            self.timers.cancel(timer)
