"""State of a classic group: stored fields, counts over its members, and the effect of its records.

`states.py` selects the rule for each request or timer; the other modules of this folder carry the rules out.

Hard state is the content of the group's newest record: protocol type, generation, protocol, leader, members and their
assignments. `apply` installs it, from a record just written or read after a restart. During a round the group is ahead
of its record, and a restart undoes the round: `add`, `remove`, `replace` and `update` change members, leader and
protocol type; `elect_leader` the leader; `next_generation` generation and protocol; a rebalance empties assignments.
Nothing else changes hard state. All other state (parked requests, pending ids, counts, the round) is soft: the members'
next requests rebuild it.

Source: semantics 2.1, 2.2, 2.5, 2.8; KIP-345, KIP-394.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

from kafka_shim.apis.join_group import JoinGroupResponseMember
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic.member import Member, Protocols
from kafka_shim.groups.classic.states import (
    COUNTED,
    ERRORS,
    RULES,
    TRANSITIONS,
    Counted,
    Rule,
    State,
    TimerKind,
    Trigger,
)
from kafka_shim.groups.classic.subscriptions import CONSUMER, NO_TOPICS, Subscriptions, Topics
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.partition import java_bucket
from kafka_shim.persistence.records import GroupMetadataValue, GroupOptionsValue, MemberMetadata
from kafka_shim.trace.causes import Cause

_NOT_STORED: Final = -1
_LEAST_BUCKETS: Final = 16


@dataclass(slots=True)
class Round:
    """Join round: from the start of a rebalance to the answer of the leader's SyncGroup.

    `joined` is the time of the answers to the members. `initial_remaining` is the number of seconds for which new
    members may still prolong the initial round (semantics 2.4).
    """

    cause: Cause
    trigger: str
    rule: Rule
    started: float
    joined: float = 0.0
    dropped: list[str] = field(default_factory=list)
    initial_remaining: float = 0.0


class GroupOptions(NamedTuple):
    """Options of a group that was created before its first member; Kafka has no such groups.

    An ephemeral group is deleted with its last member. The heartbeat bound limits the session timeouts of all members.
    """

    ephemeral: bool
    heartbeat_bound_ms: int | None


def trigger_of_commit(generation: int) -> Trigger:
    """Return the trigger of an OffsetCommit: by a member, or without a generation."""
    return Trigger.COMMIT if generation >= 0 else Trigger.COMMIT_OUTSIDE


def trigger_of_commit_in_transaction(member_id: str, group_instance_id: str | None, generation: int) -> Trigger:
    """Return the trigger of a TxnOffsetCommit: by a member, without a generation, or without any member fields."""
    if generation >= 0:
        return Trigger.TXN_COMMIT
    return Trigger.TXN_COMMIT_OUTSIDE if member_id or group_instance_id is not None else Trigger.TXN_COMMIT_NO_MEMBER


class ClassicGroup:
    """Group of the classic protocol, initially Empty and in generation 0 (semantics 2.1)."""

    type: ClassVar[str] = "classic"

    __slots__ = (
        "generation",
        "group_id",
        "heartbeat_error",
        "in_initial_round",
        "join_timer",
        "leader",
        "members",
        "new_member_added",
        "parked_joins",
        "partition",
        "pending",
        "pending_sync",
        "preferences",
        "protocol",
        "protocol_type",
        "round",
        "state",
        "state_timestamp",
        "static",
        "subscribed_topics",
        "subscriptions",
        "supporters",
        "sync_timer",
        "options",
    )

    def __init__(self, group_id: str, partition: int) -> None:
        self.group_id = group_id
        self.partition = partition
        self.state = State.EMPTY
        self.in_initial_round = False
        """True if the round under way began when the group was Empty."""
        self.heartbeat_error = int(ErrorCode.UNKNOWN_MEMBER_ID)
        self.state_timestamp = _NOT_STORED
        """Milliseconds of Unix time at which the state of the newest record was entered, -1 if unknown."""
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        """Member id by group instance id."""
        self.pending: dict[str, Timer] = {}
        """Ids given with MEMBER_ID_REQUIRED (79) that have not joined yet."""
        self.pending_sync: set[str] = set()
        self.parked_joins = 0
        self.supporters: dict[str, int] = {}
        """Number of members that offer a protocol, by its name."""
        self.preferences: dict[tuple[str, ...], int] = {}
        """Number of members that offer these protocols in this order."""
        self.subscriptions = Subscriptions(self.members)
        self.subscribed_topics: Topics | None = NO_TOPICS
        """Union of the members' subscriptions in the selected protocol (semantics 3.4); None if one cannot be read."""
        self.new_member_added = False
        self.join_timer = Timer(TimerKind.JOIN, partition, group_id)
        self.sync_timer = Timer(TimerKind.SYNC, partition, group_id)
        self.round: Round | None = None
        self.options: GroupOptions | None = None

    def __repr__(self) -> str:
        return f"<ClassicGroup {self.group_id!r} {self.state} {self.generation}>"

    # Checks of the sender

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Check that `member_id` is a member, and has the instance id unless that is None: NONE, 25 or 82."""
        if group_instance_id is not None:
            owner = self.static.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def has_room(self, member_id: str, max_size: int) -> bool:
        """Return True if group.max.size allows this member, or counts it already (KIP-389)."""
        counted, member = COUNTED[self.state], self.members.get(member_id)
        if counted is Counted.PARKED_JOINS:
            return self.parked_joins < max_size or (member is not None and member.join_exchange is not None)
        return counted is Counted.NOTHING or len(self.members) < max_size or member is not None

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool = True
    ) -> ErrorCode:
        """Check a plain OffsetCommit: NONE, 15, 22, 25, 27 or 82 (semantics 3.1)."""
        return self._check_speaker(
            RULES[trigger_of_commit(generation)][self.state],
            member_id,
            group_instance_id,
            generation,
        )

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Check a TxnOffsetCommit: NONE, 15, 22, 25 or 82 (semantics 3.2)."""
        trigger = trigger_of_commit_in_transaction(member_id, group_instance_id, generation)
        rule = RULES[trigger][self.state]
        if trigger is Trigger.TXN_COMMIT_NO_MEMBER:
            return ERRORS[rule]
        return self._check_speaker(rule, member_id, group_instance_id, generation)

    def _check_speaker(self, rule: Rule, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Return the error of the member checks, which an Empty or Dead group skips, or else of the rule."""
        if self.state is not State.EMPTY and self.state is not State.DEAD:
            error = self.check_member(member_id, group_instance_id)
            if error:
                return error
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        return ERRORS[rule]

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Accept every fetch (semantics 3.3)."""
        return ErrorCode.NONE

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.members)

    @property
    def weight(self) -> int:
        return len(self.members)

    def timer_weight(self, timer: Timer) -> int:
        # The end of a round answers every member; that of a session is quick.
        return 0 if timer.member_id else 16 * len(self.members)

    @property
    def is_simple(self) -> bool:
        """True if the group has offsets alone: it never had a member or a pending id."""
        return self.protocol_type is None and self.state is State.EMPTY and not self.pending

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one sets protocol type and leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if self.options is not None:
            self._bound_session(member, self.options)
        if member.group_instance_id is not None:
            self.static[member.group_instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member_id: str) -> Member:
        """Remove a member; if it was the leader, the member that joined first becomes the leader."""
        member = self.members.pop(member_id)
        self._count(member, -1)
        if member.join_exchange is not None:
            self.parked_joins -= 1
            member.join_exchange = None
        if member.group_instance_id is not None:
            del self.static[member.group_instance_id]
        self.pending_sync.discard(member_id)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def replace(self, old: Member, member_id: str, session_timer: Timer) -> Member:
        """Replace a static member: the new id inherits its assignment and leadership."""
        leads = self.leader == old.member_id
        # Kafka would go on waiting for the old id's SyncGroup, which can only come from the new one.
        owes_sync = old.member_id in self.pending_sync
        self.remove(old.member_id)
        new = Member(
            member_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            old.rebalance_timeout_ms,
            old.session_timeout_ms,
            old.protocols,
            session_timer,
        )
        new.assignment = old.assignment
        self.add(new, self.protocol_type or "")
        if leads:
            self.leader = member_id
        if owes_sync:
            self.pending_sync.add(member_id)
        return new

    def update(self, member: Member, protocols: Protocols, rebalance_timeout_ms: int, session_timeout_ms: int) -> None:
        """Update a member from its newest JoinGroup."""
        self.offer(member, protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        member.session_timeout = session_timeout_ms / 1000
        if self.options is not None:
            self._bound_session(member, self.options)

    def offer(self, member: Member, protocols: Protocols) -> None:
        """Set the protocols that a member offers."""
        if protocols != member.protocols:
            self._count(member, -1)
            member.protocols = protocols
            self._count(member, 1)

    def park_join(self, member: Member, exchange: object, now: float) -> object | None:
        """Park a JoinGroup; return the exchange of the parked one that it replaces, if any."""
        if self.protocol_type == CONSUMER:
            self.subscriptions.read(member.protocols)
        superseded = member.join_exchange
        if superseded is None:
            self.parked_joins += 1
        member.join_exchange = exchange
        member.joined_at = now
        return superseded

    def unpark_join(self, member: Member) -> object | None:
        """Unpark the member's JoinGroup and return its exchange."""
        exchange = member.join_exchange
        if exchange is not None:
            self.parked_joins -= 1
            member.join_exchange = None
        return exchange

    @property
    def all_joined(self) -> bool:
        """True if every member's JoinGroup is parked and there is no pending id."""
        return self.parked_joins == len(self.members) and not self.pending

    @property
    def rebalance_timeout(self) -> float:
        """Longest rebalance timeout of the members, in seconds; 0 if there are none."""
        return max([member.rebalance_timeout_ms for member in self.members.values()], default=0) / 1000

    def elect_leader(self) -> bool:
        """Elect a leader with a parked JoinGroup; return False if there is none."""
        if self.leader is None or not self.parked_joins:
            return False
        leader = self.members.get(self.leader)
        if leader is None or leader.join_exchange is None:
            self.leader = next(m.member_id for m in self.members.values() if m.join_exchange is not None)
        return True

    # Protocols

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Return True if a member with these protocols could join (semantics 2.2).

        A group that all members have left, in PreparingRebalance because of a pending id, accepts any protocol.
        """
        if self.state is State.EMPTY:
            return bool(protocol_type and names)
        members = len(self.members)
        return protocol_type == self.protocol_type and members in [self.supporters.get(name, 0) for name in names]

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer, of those that all members offer (semantics 2.5).

        Among protocols with equal votes the first in the order of Java's HashMap wins, in which Kafka counts votes.
        That depends on their names, and for names in one bucket on the order of the votes; members have random ids in
        Kafka, so there the first protocol of the leader wins.
        """
        members = len(self.members)
        candidates = {name for name, count in self.supporters.items() if count == members}
        votes: dict[str, int] = {}
        for names, count in self.preferences.items():
            name = next(filter(candidates.__contains__, names))
            votes[name] = votes.get(name, 0) + count
        most = max(votes.values())
        winners = [name for name, count in votes.items() if count == most]
        if len(winners) == 1:
            return winners[0]
        buckets = _LEAST_BUCKETS
        while len(votes) > buckets * 3 // 4:
            buckets *= 2
        assert self.leader is not None
        of_leader = [name for name, _ in self.members[self.leader].protocols]
        return min(winners, key=lambda name: (java_bucket(name, buckets), of_leader.index(name)))

    def is_subscribed(self, topic: str) -> bool:
        """Return True if members subscribe to the topic, or if their subscriptions cannot be decoded."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        """Return the start of an offset's retention in milliseconds of Unix time; None if it does not expire.

        Offsets of topics for which `is_subscribed` is True do not expire either. Source: semantics 3.4.
        """
        if self.protocol_type is None:
            return commit_timestamp
        if self.state is State.EMPTY:
            return commit_timestamp if self.state_timestamp == _NOT_STORED else self.state_timestamp
        if self.protocol_type == CONSUMER and self.state is State.STABLE and self.subscribed_topics is not None:
            return commit_timestamp
        return None

    # States

    def enter(self, state: State, *, is_replayed: bool = False) -> None:
        """Change state. Raises ValueError unless `TRANSITIONS` has the change, or a record is replayed."""
        if state not in TRANSITIONS[self.state] and not is_replayed:
            raise ValueError(f"{self.group_id!r} cannot go from {self.state} to {state}")
        self.in_initial_round = state is State.PREPARING_REBALANCE and self.state is State.EMPTY
        self.state = state
        self.heartbeat_error = int(ERRORS[RULES[Trigger.HEARTBEAT][state]])

    def check_transition(self, state: State) -> None:
        """Check a change of state by a new record; a record read after a restart needs no check. Raises ValueError."""
        if state is not self.state and state not in TRANSITIONS[self.state]:
            raise ValueError(f"{self.group_id!r} cannot go from {self.state} to {state}")

    def next_generation(self) -> None:
        """Begin the next generation with the current members; without members only a record can make the group
        Empty."""
        self.generation += 1
        if self.members:
            self.protocol = self.select_protocol()
            self.subscribed_topics = self.subscriptions.union(self.protocol_type, self.protocol)
            self.enter(State.COMPLETING_REBALANCE)
        else:
            self.protocol = None

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """Return the list for the leader: every member with its metadata for the selected protocol."""
        protocol = self.protocol
        return [
            JoinGroupResponseMember(member.member_id, member.group_instance_id, member.metadata_for(protocol))
            for member in self.members.values()
        ]

    # Records

    def to_record(self, assignments: dict[str, bytes], state_timestamp: int) -> GroupMetadataValue:
        """Return the group's record with these assignments; members not in `assignments` get none."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=state_timestamp,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata_for(self.protocol),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in self.members.values()
            ],
        )

    def apply(self, value: GroupMetadataValue) -> None:
        """Install a record: the group is Stable if it has members, else Empty (semantics 5.3).

        Existing members keep their soft state.
        """
        self.protocol_type = value.protocol_type or None
        self.generation = value.generation
        self.protocol = value.protocol
        self.leader = value.leader
        self.state_timestamp = value.current_state_timestamp
        stored_ids = {stored.member_id for stored in value.members}
        for member_id in [member_id for member_id in self.members if member_id not in stored_ids]:
            self.remove(member_id)
        for stored in value.members:
            member = self.members.get(stored.member_id)
            if member is None:
                member = self._restore(stored, value.protocol)
            member.assignment = stored.assignment
        self.leader = value.leader
        state = state_of(value)
        if state is not self.state:
            self.enter(state, is_replayed=True)
        self.subscribed_topics = self.subscriptions.union(self.protocol_type, self.protocol)

    def apply_options(self, value: GroupOptionsValue) -> None:
        """Set the options in the record."""
        bound_ms = None if value.heartbeat_bound_ms == -1 else value.heartbeat_bound_ms
        self.options = GroupOptions(value.ephemeral, bound_ms)
        for member in self.members.values():
            self._bound_session(member, self.options)

    @property
    def is_ephemeral(self) -> bool:
        """True if the group is deleted with its last member."""
        return self.options is not None and self.options.ephemeral

    @property
    def is_disposable(self) -> bool:
        """True if the group can be deleted once it has no offsets: it is Empty, and not created before its first
        member."""
        return self.state is State.EMPTY and not self.is_precreated

    @property
    def is_precreated(self) -> bool:
        """True if the group was created before its first member, and that has not joined yet."""
        return self.options is not None and self.generation == 0

    def _bound_session(self, member: Member, options: GroupOptions) -> None:
        if options.heartbeat_bound_ms is not None:
            member.session_timeout = min(member.session_timeout_ms, options.heartbeat_bound_ms) / 1000

    def _restore(self, stored: MemberMetadata, protocol: str | None) -> Member:
        member = Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout if stored.rebalance_timeout == -1 else stored.rebalance_timeout,
            stored.session_timeout,
            ((protocol or "", stored.subscription),),
            Timer(TimerKind.SESSION, self.partition, self.group_id, stored.member_id),
        )
        self.add(member, self.protocol_type or "")
        return member

    def _count(self, member: Member, change: int) -> None:
        names = tuple([name for name, _ in member.protocols])
        changed: list[tuple[dict[Any, int], Any]] = [(self.preferences, names)]
        changed += [(self.supporters, name) for name in dict.fromkeys(names)]
        for counts, key in changed:
            counts[key] = counts.get(key, 0) + change
            if not counts[key]:
                del counts[key]


def state_of(value: GroupMetadataValue) -> State:
    """Return the state in a group's record."""
    return State.STABLE if value.members else State.EMPTY
