"""The interface of a group: the methods and the descriptions that every kind of group has (a `typing.Protocol`).

A shard uses groups only through these methods. `kinds.py` lists the kinds; `docs/kinds.md` tells how to add one. A
group belongs to one shard from its creation until it is dropped. `now` is monotonic seconds; errors are Kafka's, NONE
(0) for none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.timers import Timer

CLASSIC: Final = "classic"
"""Type of the groups that a group of another kind may replace."""


class GroupSummary(Protocol):
    """Summary of a group, for lists of groups."""

    @property
    def type(self) -> str:
        """Kind of group, as ListGroups spells it: `classic`, `consumer`."""

    @property
    def group_id(self) -> str: ...

    @property
    def partition(self) -> int:
        """Partition of `__consumer_offsets` with its records."""

    @property
    def state(self) -> StrEnum:
        """State, in Kafka's spelling on the wire."""

    @property
    def generation(self) -> int:
        """Generation, or group epoch."""

    @property
    def protocol_type(self) -> str | None:
        """Protocol type in ListGroups; None for a group that has offsets alone."""

    @property
    def protocol(self) -> str | None:
        """Assignor in use; None if there is none."""

    @property
    def leader(self) -> str | None:
        """Member id of the leader; None if there is none."""

    @property
    def size(self) -> int:
        """Number of members."""


class Group(GroupSummary, Protocol):
    """Group. Only `replay` changes its hard state, for new records and after a restart."""

    @property
    def weight(self) -> int:
        """Number of members, of their topics and of their partitions in a description, roughly."""

    def timer_weight(self, timer: Timer) -> int:
        """Return the cost of the rule of a due timer, in microseconds, roughly."""

    @property
    def is_simple(self) -> bool:
        """True if the group has offsets alone and no record: a record of another kind may replace it."""

    # Load and unload

    def activate(self, now: float) -> None:
        """Begin to coordinate a loaded group: arm timers, and check for changed topics and limits."""

    def resign(self) -> None:
        """Stop coordinating: answer parked requests with NOT_COORDINATOR (16) and drop the group from its shard."""

    def release(self) -> None:
        """Cancel every timer of a dropped group."""

    def replay(self, key: Any, value: Any) -> None:
        """Apply a record of this kind; None as a value is a tombstone, which may drop the group."""

    def fire(self, timer: Timer, now: float) -> None:
        """Run the rule of a due timer of this group."""

    def topic_changed(self, topic: str, now: float) -> None:
        """Note a topic that was created, has grown, or was deleted; its offsets are deleted before."""

    # Members

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        """Handle a Heartbeat (12): return its error, 0 for none. An accepted one renews the session."""

    def renew(self, member_id: str, now: float) -> None:
        """Note a commit of this member: it renews the session, if this kind wants that."""

    def expel(self, now: float) -> list[Expelled]:
        """Remove every member; later requests of each are answered UNKNOWN_MEMBER_ID (25)."""

    # Checks

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool
    ) -> ErrorCode:
        """Check a plain OffsetCommit. `generation` is the member epoch if the kind has one.

        `member_epochs`: the version of the request has member epochs (v9+, KIP-848).
        """

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Check a TxnOffsetCommit."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check an OffsetFetch; before v9 `member_id` is None and `member_epoch` -1 (KIP-848)."""

    def check_delete(self) -> ErrorCode:
        """Check a DeleteGroups: NONE, NON_EMPTY_GROUP (68) or GROUP_ID_NOT_FOUND (69)."""

    def check_delete_offsets(self) -> ErrorCode:
        """Check an OffsetDelete of topics without subscribers: NONE, 68 or 69."""

    # Offsets

    def is_subscribed(self, topic: str) -> bool:
        """Return True if members subscribe to the topic, or if their subscriptions cannot be decoded."""

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        """Return the start of an offset's retention in milliseconds of Unix time; None if it does not expire."""

    @property
    def is_disposable(self) -> bool:
        """True if the group can be deleted once it has no offsets: it is Empty, and expects no member."""

    def erase(self) -> None:
        """Write the tombstones of all its records except offsets; their replay drops the group."""

    # Description

    def describe(self) -> GroupDescription:
        """Describe the group for the console, HTTP and tests; the rules of the kind answer the APIs."""

    def describe_members(self, *, subscriptions: bool = True) -> Iterator[MemberDescription]:
        """Yield the description of each present member at the moment at which it is yielded; without `subscriptions`
        that part is None, which spares most of the time."""


@runtime_checkable
class Attached(Protocol):
    """Group with something beside its records that has to go before the group; optional for a kind."""

    def let_go(self) -> bool:
        """Remove it from an Empty group; return False if there is nothing."""


@runtime_checkable
class LateCommits(Protocol):
    """Group that accepts commits sent before its member epoch grew; optional for a kind."""

    def allows_late_commit(self, member_id: str, member_epoch: int, partitions: Iterable[tuple[str, int]]) -> bool:
        """Return True if a commit of these partitions is accepted in spite of its old member epoch."""


class Expelled(NamedTuple):
    """Member that `Group.expel` removed.

    `exchange` is its parked request, to be answered now, or None; `silence_ends` is the end of its session in monotonic
    seconds; `rebalance_timeout` is in seconds.
    """

    member_id: str
    group_instance_id: str | None
    exchange: object | None
    silence_ends: float
    rebalance_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Subscription of a member. `regex` is for KIP-848, `user_data_bytes` for the classic protocol."""

    topics: list[str]
    regex: str | None = None
    owned_partitions: dict[str, list[int]] = field(default_factory=dict)
    generation: int = -1
    rack: str | None = None
    user_data_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """Description of a member by its coordinator.

    `protocols` are the assignors that it offers, the preferred one first. `parked` is its request that waits for an
    answer, `join` or `sync`. `subscription` and `assignment` (partitions by topic) are None if they cannot be decoded.
    `has_assignment`: it has the assignment of the current generation.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: list[str]
    parked: str | None
    subscription: Subscription | None
    assignment: dict[str, list[int]] | None
    has_assignment: bool


@dataclass(frozen=True, slots=True)
class TopologyNode:
    """Node of the topology of a streams application. `type` is `source`, `processor` or `sink`; `subtopology` is empty
    for a node of a global store."""

    subtopology: str
    name: str
    type: str
    topics: list[str]
    stores: list[str]
    successors: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """Description of a group by its coordinator.

    `protocol` is the assignor in use. `cause`, `trigger` and `dropped` belong to the rebalance under way or the last
    one; `cause` is None if there was none here. `pending_members` are ids that were given and have not joined yet.
    `ephemeral` and `heartbeat_bound_ms` belong to a group that was created before its first member. `topology` has the
    nodes that a streams application has described.

    In a group with epochs `generation` is the group epoch, and `assignment_epoch` that of the last assignment, None in
    others. Below the group epoch, the next assignment waits until `assignment_due_ms` at least, Unix time (KIP-1263);
    None if nothing waits for the interval.
    """

    type: str
    group_id: str
    state: str
    protocol_type: str
    protocol: str | None
    generation: int
    leader: str | None
    cause: str | None = None
    trigger: str = ""
    dropped: list[str] = field(default_factory=list)
    pending_members: list[str] = field(default_factory=list)
    ephemeral: bool = False
    heartbeat_bound_ms: int | None = None
    topology: list[TopologyNode] = field(default_factory=list)
    assignment_epoch: int | None = None
    assignment_due_ms: int | None = None


@lru_cache(maxsize=1)
def in_order(names: frozenset[str]) -> list[str]:
    """Return names in order, read-only: members with one subscription, one after the other, share the list."""
    return sorted(names)


OFFSET_KINDS: Final = ("classic", "consumer")
"""Kinds of groups with an offset for each partition of a member."""


def owned_partitions(group: Group) -> set[tuple[str, int]]:
    """Return topic and partition of all that members own; none for a kind of group without offsets for each partition
    of a member.
    """
    if group.type not in OFFSET_KINDS:
        return set()
    owned = (each.assignment or {} for each in group.describe_members(subscriptions=False))
    return {(name, index) for each in owned for name, indexes in each.items() for index in indexes}
