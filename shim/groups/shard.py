"""Shard: one partition of `__consumer_offsets`, with its groups, offsets and transactional ids.

Only `replay` changes hard state: rules call `write`, which makes the record durable with the current batch and replays
it at once; a load replays the records of the store.

Source: semantics 5.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol
from weakref import ReferenceType, WeakKeyDictionary, ref

from kafka_shim.apis.releases import DEFAULT_RULES, Rules
from kafka_shim.apis.wire import Message
from kafka_shim.groups.assignors.registry import Assignors
from kafka_shim.groups.committed_offsets import CommittedOffsets
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import GroupComputation, Row, TopicRights
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.pending_offsets import PendingOffsets
from kafka_shim.groups.timers import NEVER, ShardTimer, Timer, Timers
from kafka_shim.groups.transactional_ids import Transaction
from kafka_shim.persistence.batch import batch_size
from kafka_shim.persistence.own_types import type_of
from kafka_shim.persistence.records import (
    OffsetCommitKey,
    OffsetCommitValues,
    PendingOffsetKey,
    TransactionKey,
    TransactionValue,
    encode_key,
    encode_value,
)
from kafka_shim.trace.causes import Cause


class TopicCatalogue(Protocol):
    """Topics of the cluster, as far as groups need them."""

    max_batch_bytes: int
    """Limit for a batch of records of `__consumer_offsets`: its `max.message.bytes`."""

    def names(self) -> list[str]:
        """Return the names of all topics."""

    def partitions_of(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 if it does not exist."""

    def topic_id(self, topic: str) -> bytes | None:
        """Return the id of a topic, 16 bytes, or None."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic id, or None."""


class NoTopics:
    """Cluster without topics."""

    max_batch_bytes = 1_048_588

    def names(self) -> list[str]:
        return []

    def partitions_of(self, topic: str) -> int:
        return 0

    def topic_id(self, topic: str) -> bytes | None:
        return None

    def topic_name(self, topic_id: bytes) -> str | None:
        return None


@dataclass(slots=True)
class Counters:
    """Totals of a node's groups since its start, for the metrics under Kafka's names (semantics 6.1).

    `rebalances` counts rebalances by cause; `new_epochs` counts new epochs by type of group, except those of members
    that left; `marker_retries` counts markers of transactions that were sent again, by partition.
    """

    completed_rebalances: int = 0
    new_epochs: Counter[str] = field(default_factory=Counter)
    marker_retries: int = 0
    offset_commits: int = 0
    offset_deletions: int = 0
    offset_expirations: int = 0
    rebalances: dict[Cause, int] = field(default_factory=lambda: dict.fromkeys(Cause, 0))


class Kind(NamedTuple):
    """Kind of group. `docs/kinds.md` tells how to add one.

    `name` is the type of its groups, as ListGroups spells it; `make(group_id, shard)` makes one. `records` are the key
    classes of the records that its groups replay; `own_records` are more of them, which only this kind knows, with the
    classes of their values (`persistence/own_types.py`). `rules` has the rule for each class of request: `rule(shard,
    request, ...)` for a request about one group, `rule(shard, group_id)` for a description. `checks` has
    `check(request, parts)` by class of request: it runs before the lookup of the group and raises `Refusal`.
    `row_of(group, request, member_id_required=...)` returns the row of the table that selects the rule, for display, or
    None if no table does; the group may be None or of another kind. `precreate(shard, group_id, ephemeral,
    heartbeat_bound_ms, now)` creates a group before its first member.
    """

    name: str
    states: type[StrEnum]
    make: Callable[..., Group]
    records: Sequence[type] = ()
    rules: Mapping[type, Callable[..., Any]] = {}
    own_records: Mapping[type, type[Message]] = {}
    checks: Mapping[type, Callable[[Any, NodeParts], None]] = {}
    row_of: Callable[..., Row | None] = lambda group, request, *, member_id_required: None
    precreate: Callable[[Shard, str, bool, int | None, float], None] | None = None


class Kinds:
    """Kinds of groups of a coordinator, in order: lookup by record, by request, and by group.

    Without a group, the first kind with a rule for a request answers it. The first kind is that of a group that a
    commit creates and that has offsets alone.
    """

    def __init__(self, *kinds: Kind) -> None:
        self.simple = kinds[0]
        self.by_name = {kind.name: kind for kind in kinds}
        """Kinds by type."""
        self.by_record = {record: kind for kind in kinds for record in (*kind.records, *kind.own_records)}
        """Kind that replays a record, by class of its key."""
        self.own_types = {type_of(key): (key, value) for kind in kinds for key, value in kind.own_records.items()}
        """Classes of key and value by record type, for types that only a kind knows."""
        self.checks = {request: check for kind in kinds for request, check in kind.checks.items()}
        """Checks before the lookup of the group, by class of request."""
        self.precreate = next(kind.precreate for kind in kinds if kind.precreate is not None)
        self._defaults = {request: kind for kind in reversed(kinds) for request in kind.rules}
        defaults = {request: kind.rules[request] for request, kind in self._defaults.items()}
        self.rules: dict[tuple[type, str | None], Callable[..., Any]] = {
            (request, None if kind is None else kind.name): rule
            for kind in (None, *kinds)
            for request, rule in (defaults if kind is None else {**defaults, **kind.rules}).items()
        }
        """Rule by class of request and type of the group, None without a group: that of the group's kind, else of the
        first kind with one. In the second case the rule may find a group of another kind."""

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.by_name.values())

    def row_of(self, request: Any, group: Group | None, *, member_id_required: bool) -> Row | None:
        """Return the row of the table that selects the rule for a request now; None if no table does.

        `member_id_required`: a version of JoinGroup with MEMBER_ID_REQUIRED (v4+, KIP-394).
        """
        default = self._defaults.get(type(request))
        own = None if group is None else self.by_name[group.type]
        kind = default if own is None or (default is not None and type(request) not in own.rules) else own
        return None if kind is None else kind.row_of(group, request, member_id_required=member_id_required)


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """Parts that all shards of a node share.

    `new_id` returns a unique part for a member id. `wall_offset` is the difference between Unix time and monotonic
    `now`, in seconds. `rules` are those of the release that the node poses as. `assignors` are for KIP-848 groups;
    `group_settings` returns the settings of a single group (resource GROUP) by its id. `groups` are all groups by id.
    `topic_rights` are None without ACLs.
    """

    config: GroupConfig
    outbox: Outbox
    timers: Timers
    new_id: Callable[[], str]
    wall_offset: float = 0.0
    rules: Rules = DEFAULT_RULES
    topics: TopicCatalogue = field(default_factory=NoTopics)
    assignors: Assignors = field(default_factory=Assignors)
    group_settings: Callable[[str], Mapping[str, str]] = lambda group_id: {}
    counters: Counters = field(default_factory=Counters)
    groups: dict[str, Group] = field(default_factory=dict)
    topic_rights: TopicRights | None = None


@dataclass(slots=True)
class ExpiryPass:
    """Pass of the expiry of offsets under way: the groups that it has not ended, the last one first, and the topics of
    that one; None before the pass has reached it."""

    groups: list[str]
    topics: list[str] | None = None


class Shard:
    """Groups and offsets of one partition, of these kinds. `batch` is the newest batch with a record of it."""

    def __init__(self, partition: int, parts: NodeParts, kinds: Kinds) -> None:
        self.partition = partition
        self.batch = 0
        self.config = parts.config
        self.rules = parts.rules
        self.topic_rights = parts.topic_rights
        self.outbox = parts.outbox
        self.timers = parts.timers
        self.arm, self.cancel = parts.timers.arm, parts.timers.cancel
        self.counters = parts.counters
        self.topics = parts.topics
        self.assignors = parts.assignors
        self.group_settings = parts.group_settings
        self.new_id = parts.new_id
        self.groups: dict[str, Group] = {}
        self.computations: dict[str, GroupComputation] = {}
        """Computations in other threads, by group id; requests about the group wait for them."""
        self.computed: GroupComputation | None = None
        """Computation that has just ended, while the first request that waited for it is served."""
        self.offsets = CommittedOffsets()
        self.pending = PendingOffsets()
        self.transactions: dict[str, Transaction] = {}
        self.expiry_timer = Timer(ShardTimer.OFFSET_EXPIRY, partition)
        self.expiry_pass: ExpiryPass | None = None
        self.unknown_records = 0
        self.index = parts.groups
        """Groups of all shards of the node."""
        self.kinds = kinds
        self._wall_offset = parts.wall_offset
        self._topic_names: list[str] = []
        self._shared: WeakKeyDictionary[frozenset[str], ReferenceType[frozenset[str]]] = WeakKeyDictionary()
        self._timestamps: tuple[float, tuple[int, ...]] = NEVER, ()

    def topic_names(self) -> list[str]:
        """Return the names of all topics, read-only: the same list until they change, since many groups keep it."""
        names = self.topics.names()
        if names != self._topic_names:
            self._topic_names = names
        return self._topic_names

    def shared(self, topics: frozenset[str]) -> frozenset[str]:
        """Return the set of topics that equals this one, or this one: groups and patterns keep each set once."""
        return self._shared.setdefault(topics, ref(topics))() or topics

    def wall_ms(self, now: float) -> int:
        """Return milliseconds of Unix time at monotonic `now`."""
        return int((now + self._wall_offset) * 1000)

    def timestamps(self, now: float, count: int) -> tuple[int, ...]:
        """Return `wall_ms` once per record for records written together; commits of one moment share the tuple."""
        cached_at, cached = self._timestamps
        if cached_at != now or len(cached) != count:
            cached = (int((now + self._wall_offset) * 1000),) * count
            self._timestamps = now, cached
        return cached

    def monotonic(self, wall_ms: int) -> float:
        """Return monotonic seconds at a millisecond of Unix time."""
        return wall_ms / 1000 - self._wall_offset

    # Records

    def resign(self) -> None:
        """Release the partition: drop computations, and let refusals leave at once, since they need no durable
        record."""
        self.batch = 0
        computations, self.computations = self.computations, {}
        for computation in computations.values():
            computation.abandon()

    def topic_changed(self, topic: str, now: float) -> None:
        """Tell every group about a topic that was created, has grown, or was deleted."""
        for group in list(self.groups.values()):
            group.topic_changed(topic, now)
        for computation in self.computations.values():
            computation.topic_changed(topic, now)

    def has_room_for(self, records: Sequence[tuple[Any, Any]]) -> bool:
        """Return True if `__consumer_offsets` accepts these records in one batch.

        If not, the caller answers UNKNOWN_SERVER_ERROR (-1), to which Kafka maps MESSAGE_TOO_LARGE (semantics 2.10).
        This encodes the records to get their size; where that is too slow, compare an upper bound first.
        """
        encoded = ((encode_key(key), None if value is None else encode_value(key, value)) for key, value in records)
        return batch_size(encoded) <= self.topics.max_batch_bytes

    def write(self, key: Any, value: Any) -> None:
        """Make a record durable with the current batch and apply it."""
        self.outbox.write(self, key, value)
        self.replay(key, value)

    def write_commit(self, values: OffsetCommitValues) -> None:
        """Make the offsets of one commit of an existing group durable with the current batch, and apply them."""
        self.outbox.write(self, None, values)
        self.offsets.replay_commit(values)

    def replay(self, key: Any, value: Any) -> None:
        """Apply a record; `value` None is a tombstone. Records of unknown types are counted and skipped.

        Raises ValueError for a record of one kind of group if a group of another kind has the id.
        """
        record = type(key)
        if record is OffsetCommitKey:
            self.offsets.replay(key, value)
            if value is not None and key.group not in self.groups:
                self.make_simple(key.group)
        elif (kind := self.kinds.by_record.get(record)) is not None:
            group = self.groups.get(key.group)
            if group is None or group.type != kind.name:
                if value is None:
                    return
                if group is not None:
                    if not group.is_simple:
                        raise ValueError(f"Group {key.group!r} has records of {group.type} and of {kind.name} groups.")
                    self.drop(key.group)
                group = kind.make(key.group, self)
                self.groups[key.group] = self.index[key.group] = group
            group.replay(key, value)
        elif record is PendingOffsetKey:
            self.pending.replay(key, value)
            if value is not None and key.group not in self.groups:
                self.make_simple(key.group)
        elif record is TransactionKey:
            self._replay_transaction(key, value)
        else:
            self.unknown_records += 1

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
        """Create a group that has offsets alone and no record."""
        group = self.kinds.simple.make(group_id, self)
        self.groups[group_id] = self.index[group_id] = group
        return group

    def drop(self, group_id: str) -> None:
        """Drop a group and its timers, if it exists."""
        group = self.groups.pop(group_id, None)
        if group is not None:
            del self.index[group_id]
            group.release()
