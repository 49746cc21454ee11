"""What every kind of group can do: the protocol `Group`, and what it shows of itself.

Decides nothing. A shard calls these methods and knows no more of a group; the kinds that implement them are listed in
`kinds.py`, and `docs/kinds.md` says how one is added. A group lives in one shard, from its creation until it is
dropped, and has it at hand: no method takes one. `now` is monotonic seconds; errors are Kafka's, NONE (0) for none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.timers import Timer


class GroupSummary(Protocol):
    """What every list of groups shows."""

    @property
    def type(self) -> str:
        """The kind of group, as ListGroups spells it: `classic`, `consumer`."""

    @property
    def group_id(self) -> str: ...

    @property
    def partition(self) -> int:
        """The partition of `__consumer_offsets` it lives in."""

    @property
    def state(self) -> StrEnum:
        """Its state, in Kafka's spelling on the wire."""

    @property
    def generation(self) -> int:
        """The generation, or the group epoch."""

    @property
    def protocol_type(self) -> str | None:
        """As ListGroups shows it; None for a group that has only offsets."""

    @property
    def protocol(self) -> str | None:
        """The assignor in use; None if there is none."""

    @property
    def leader(self) -> str | None:
        """Member id of the leader, where there is one."""

    @property
    def size(self) -> int:
        """How many members it has."""


class Group(GroupSummary, Protocol):
    """One group. Its hard state changes in `replay` alone, whether a record was just written or is read back."""

    @property
    def is_simple(self) -> bool:
        """Whether it has only offsets, and no record of its own: a record of another kind may take its place."""

    # Life

    def activate(self, now: float) -> None:
        """Begin to coordinate a group that was just loaded: arm timers, and see whether the world has changed."""

    def resign(self) -> None:
        """Stop coordinating: answer what is parked with NOT_COORDINATOR (16) and drop the group from its shard."""

    def release(self) -> None:
        """Cancel every timer: the group has just been dropped."""

    def replay(self, key: Any, value: Any) -> None:
        """Let a record of this kind take effect; None as a value is a tombstone, which may drop the group."""

    def fire(self, timer: Timer, now: float) -> None:
        """Run the rule of a timer of this group, which is due."""

    def topic_changed(self, topic: str, now: float) -> None:
        """A topic was created, has grown, or was deleted; the offsets in a deleted one are gone already."""

    # Members

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        """The error of the answer to a Heartbeat (12), 0 for none. Accepted ones renew the session."""

    def renew(self, member_id: str, now: float) -> None:
        """The offsets of this member were just committed: a sign of life, if this kind takes it for one."""

    def expel(self, now: float) -> list[Expelled]:
        """Remove every member: each is answered UNKNOWN_MEMBER_ID (25) from now on, and may begin anew."""

    # Who may

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool
    ) -> ErrorCode:
        """Whether a plain OffsetCommit is accepted. `generation` is the member epoch where there is one;
        `member_epochs`: the version of the request knows them (v9+, KIP-848)."""

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Whether a TxnOffsetCommit is accepted."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Whether an OffsetFetch is answered; before v9 `member_id` is None and `member_epoch` -1 (KIP-848)."""

    def check_delete(self) -> ErrorCode:
        """Whether DeleteGroups may delete it: NONE, NON_EMPTY_GROUP (68) or GROUP_ID_NOT_FOUND (69)."""

    def check_delete_offsets(self) -> ErrorCode:
        """Whether OffsetDelete may delete offsets of topics nobody subscribes to: NONE, 68 or 69."""

    # Offsets

    def is_subscribed(self, topic: str) -> bool:
        """Whether offsets of the topic are in use; True also when that cannot be read."""

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        """From when the retention of an offset counts, in milliseconds of Unix time; None if it does not expire."""

    @property
    def is_disposable(self) -> bool:
        """Whether it goes once it has no offsets: it is Empty, and nobody is to come."""

    def erase(self) -> None:
        """Write the tombstones of all its records, but for offsets; replaying them drops the group."""

    # What is shown

    def describe(self) -> GroupDescription:
        """The group for people and tests; what the APIs answer is for the rules of the kind."""


@runtime_checkable
class LateCommits(Protocol):
    """A group that lets commits in that were under way while a member epoch grew; a kind need not."""

    def allows_late_commit(self, member_id: str, member_epoch: int, partitions: Iterable[tuple[str, int]]) -> bool:
        """Whether a commit to these topics and partitions, which was refused for its member epoch, is accepted all the
        same."""


class Expelled(NamedTuple):
    """A member that was removed by `Group.expel`.

    `exchange` is the request it had parked, which is answered now, or None; `silence_ends` is when its session would
    have run out, monotonic seconds; `rebalance_timeout` is in seconds.
    """

    member_id: str
    group_instance_id: str | None
    exchange: object | None
    silence_ends: float
    rebalance_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member subscribes to. `regex` is KIP-848's, `user_data_bytes` the classic protocol's."""

    topics: list[str]
    regex: str | None = None
    owned_partitions: dict[str, list[int]] = field(default_factory=dict)
    generation: int = -1
    rack: str | None = None
    user_data_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member as its coordinator has it.

    `protocols` are the assignors it offers, best first. `parked` is the request it waits for an answer to, `join` or
    `sync`. `subscription` and `assignment` (partitions by topic) are None where they cannot be read. `has_assignment`:
    it has got that of the current generation.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as its coordinator has it.

    `protocol` is the assignor in use. `cause`, `trigger` and `dropped` are of the rebalance under way or the last one,
    `cause` None if there was none here. `pending_members` are ids that were handed out and not used yet. `ephemeral`
    and `heartbeat_bound_ms` are of a group that was created before its first member came.
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
    members: list[MemberDescription] = field(default_factory=list)
    pending_members: list[str] = field(default_factory=list)
    ephemeral: bool = False
    heartbeat_bound_ms: int | None = None
