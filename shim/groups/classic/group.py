"""A classic group: what is stored of it, the book-keeping over its members, and what a record does to it.

Decides who is a member, which protocols the group supports and selects, and who a request may speak for. It does not
know requests, answers, timers firing or where records go: the rules that move a group from state to state are in the
modules beside this one, and which rule applies is in `states.py`.

Hard state is what the group's newest record says: protocol type, generation, protocol, leader, members and their
assignments. `apply` makes it so, whether the record was just written or is read back after a restart. Within a round
the group is ahead of its record, and a restart takes it back: `add`, `remove`, `replace` and `update` change members,
leader and protocol type; `elect_leader` the leader; `next_generation` generation and protocol; a rebalance empties
assignments. Nothing else changes any of it. All other state (parked requests, pending ids, counts, the round) is soft
and is rebuilt by the members' next requests.

Source: semantics 2.1, 2.2, 2.5, 2.8; KIP-345, KIP-394.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, NamedTuple, TypeVar

from kafka_shim.apis.consumer_protocol import ConsumerProtocolSubscription
from kafka_shim.apis.join_group import JoinGroupResponseMember
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic.member import Member, Protocols
from kafka_shim.groups.classic.states import COUNTED, ERRORS, RULES, TRANSITIONS, Counted, Rule, State, Trigger
from kafka_shim.groups.classic.timers import TimerKind
from kafka_shim.groups.classic.voting import elected
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import GroupMetadataValue, GroupOptionsValue, MemberMetadata

_K = TypeVar("_K")

CONSUMER: Final = "consumer"
_NOT_STORED: Final = -1


class Round:
    """One join round: from a rebalance's start to the answer of the leader's SyncGroup.

    `initial_remaining` is for how many seconds newcomers may still keep the initial round open (semantics 2.4).
    """

    __slots__ = ("cause", "dropped", "initial_remaining", "joined", "rule", "started", "trigger")

    def __init__(self, cause: Cause, trigger: str, rule: Rule, started: float) -> None:
        self.cause = cause
        self.trigger = trigger
        self.rule = rule
        self.started = started
        self.joined = started
        self.dropped: list[str] = []
        self.initial_remaining = 0.0


class GroupOptions(NamedTuple):
    """Options of a group that was created before its first member; Kafka has no such groups.

    An ephemeral one is deleted when its last member is gone. Nobody in it may be silent for longer than the bound,
    whatever the session timeout of its JoinGroup.
    """

    ephemeral: bool
    heartbeat_bound_ms: int | None


def trigger_of_commit(generation: int) -> Trigger:
    """Whether an OffsetCommit is a member's."""
    return Trigger.COMMIT if generation >= 0 else Trigger.COMMIT_OUTSIDE


def trigger_of_commit_in_transaction(member_id: str, group_instance_id: str | None, generation: int) -> Trigger:
    """What a TxnOffsetCommit says of the group's members."""
    if generation >= 0:
        return Trigger.TXN_COMMIT
    return Trigger.TXN_COMMIT_OUTSIDE if member_id or group_instance_id is not None else Trigger.TXN_COMMIT_NOBODY


class ClassicGroup:
    """One group of the classic protocol, at first Empty and in generation 0 (semantics 2.1)."""

    type: ClassVar[str] = "classic"

    __slots__ = (
        "generation",
        "group_id",
        "heartbeat_error",
        "join_timer",
        "leader",
        "members",
        "new_member_added",
        "parked_joins",
        "partition",
        "pending",
        "pending_sync",
        "preferences",
        "previous_state",
        "protocol",
        "protocol_type",
        "round",
        "state",
        "state_timestamp",
        "static",
        "subscribed_topics",
        "supporters",
        "sync_timer",
        "options",
    )

    def __init__(self, group_id: str, partition: int) -> None:
        self.group_id = group_id
        self.partition = partition
        self.state = State.EMPTY
        self.previous_state = State.DEAD
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
        """Ids handed out with error 79 whose owner has not come back yet."""
        self.pending_sync: set[str] = set()
        self.parked_joins = 0
        self.supporters: dict[str, int] = {}
        """How many members offer a protocol, by its name."""
        self.preferences: dict[tuple[str, ...], int] = {}
        """How many members offer these protocols in this order."""
        self.subscribed_topics: frozenset[str] | None = frozenset()
        """Union of the members' subscriptions; None if one cannot be read."""
        self.new_member_added = False
        self.join_timer = Timer(TimerKind.JOIN, partition, group_id)
        self.sync_timer = Timer(TimerKind.SYNC, partition, group_id)
        self.round: Round | None = None
        self.options: GroupOptions | None = None

    def __repr__(self) -> str:
        return f"<ClassicGroup {self.group_id!r} {self.state} {self.generation}>"

    # Who a request may speak for

    def check_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether `member_id` is a member and, unless the instance id is None, the one behind it: NONE, 25 or 82."""
        if group_instance_id is not None:
            owner = self.static.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def has_room(self, member_id: str, max_size: int) -> bool:
        """Whether group.max.size leaves room for somebody, or somebody who is counted already (KIP-389)."""
        counted, member = COUNTED[self.state], self.members.get(member_id)
        if counted is Counted.PARKED_JOINS:
            return self.parked_joins < max_size or (member is not None and member.join_exchange is not None)
        return counted is Counted.NOTHING or len(self.members) < max_size or member is not None

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool = True
    ) -> ErrorCode:
        """Whether a plain OffsetCommit is accepted: NONE, 15, 22, 25, 27 or 82 (semantics 3.1)."""
        return self._check_speaker(
            RULES[trigger_of_commit(generation)][self.state],
            member_id,
            group_instance_id,
            generation,
        )

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Whether a TxnOffsetCommit is accepted: NONE, 15, 22, 25 or 82 (semantics 3.2)."""
        trigger = trigger_of_commit_in_transaction(member_id, group_instance_id, generation)
        rule = RULES[trigger][self.state]
        if trigger is Trigger.TXN_COMMIT_NOBODY:
            return ERRORS[rule]
        return self._check_speaker(rule, member_id, group_instance_id, generation)

    def _check_speaker(self, rule: Rule, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """The error of a rule, or of a guard that comes before it; in an Empty or Dead group the rule says it all."""
        if self.state is not State.EMPTY and self.state is not State.DEAD:
            error = self.check_member(member_id, group_instance_id)
            if error:
                return error
            if generation != self.generation:
                return ErrorCode.ILLEGAL_GENERATION
        return ERRORS[rule]

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Everybody may fetch (semantics 3.3)."""
        return ErrorCode.NONE

    @property
    def size(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def is_simple(self) -> bool:
        """Whether it has only offsets: nobody was ever in it, and nobody was handed an id."""
        return self.protocol_type is None and self.state is State.EMPTY and not self.pending

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """Take in a member; the first one decides protocol type and leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._bound_session(member)
        if member.group_instance_id is not None:
            self.static[member.group_instance_id] = member.member_id
        self._count(member, 1)

    def remove(self, member_id: str) -> Member:
        """Take a member out; if it led, the member that has been in the group longest leads now."""
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
        """Give a static member's place, assignment and leadership to a new member id."""
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
        """Take over what a member's newest JoinGroup says."""
        self.offer(member, protocols)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self._bound_session(member)

    def offer(self, member: Member, protocols: Protocols) -> None:
        """Let these be the protocols that a member offers."""
        if protocols != member.protocols:
            self._count(member, -1)
            member.protocols = protocols
            self._count(member, 1)

    def park_join(self, member: Member, exchange: object, now: float) -> object | None:
        """Park a JoinGroup; returns the exchange of the parked one it replaces, if any."""
        superseded = member.join_exchange
        if superseded is None:
            self.parked_joins += 1
        member.join_exchange = exchange
        member.joined_at = now
        return superseded

    def unpark_join(self, member: Member) -> object | None:
        """The exchange of the member's parked JoinGroup, which is parked no more."""
        exchange = member.join_exchange
        if exchange is not None:
            self.parked_joins -= 1
            member.join_exchange = None
        return exchange

    @property
    def all_joined(self) -> bool:
        """Whether every member's JoinGroup is parked and no pending id is awaited."""
        return self.parked_joins == len(self.members) and not self.pending

    @property
    def rebalance_timeout(self) -> float:
        """The longest rebalance timeout of the members, in seconds; 0 if there are none."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0) / 1000

    def elect_leader(self) -> bool:
        """Make sure that the leader's JoinGroup is parked; False if nobody's is."""
        if self.leader is None or not self.parked_joins:
            return False
        leader = self.members.get(self.leader)
        if leader is None or leader.join_exchange is None:
            self.leader = next(m.member_id for m in self.members.values() if m.join_exchange is not None)
        return True

    # Protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody with these protocols can be a member (semantics 2.2).

        A group that all members have left, in PreparingRebalance for the sake of a pending id, takes any protocol.
        """
        if self.state is State.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(self.supporters.get(name, 0) == everybody for name in names)

    def select_protocol(self) -> str:
        """The protocol that wins the members' vote."""
        everybody = len(self.members)
        candidates = {name for name, count in self.supporters.items() if count == everybody}
        assert self.leader is not None
        return elected(self.preferences, candidates, [name for name, _ in self.members[self.leader].protocols])

    def refresh_subscriptions(self) -> None:
        """Work out `subscribed_topics` from the selected protocol's metadata (semantics 3.4)."""
        if self.protocol_type != CONSUMER or self.protocol is None:
            self.subscribed_topics = frozenset()
            return
        topics: set[str] = set()
        try:
            for metadata in {member.metadata_for(self.protocol) for member in self.members.values()}:
                topics.update(subscribed_topics(metadata))
        except DecodeError:
            self.subscribed_topics = None
        else:
            self.subscribed_topics = frozenset(topics)

    def is_subscribed(self, topic: str) -> bool:
        """Whether offsets of the topic are in use; True also when that cannot be read."""
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        """From when the retention of an offset counts, in milliseconds of Unix time; None if it does not expire.

        Offsets of topics for which `is_subscribed` holds do not expire either. Source: semantics 3.4.
        """
        if self.protocol_type is None:
            return commit_timestamp
        if self.state is State.EMPTY:
            return commit_timestamp if self.state_timestamp == _NOT_STORED else self.state_timestamp
        if self.protocol_type == CONSUMER and self.state is State.STABLE and self.subscribed_topics is not None:
            return commit_timestamp
        return None

    # States

    def enter(self, state: State) -> None:
        """Change state. Raises ValueError for a change that `TRANSITIONS` does not have."""
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"{self.group_id!r} cannot go from {self.state} to {state}")
        self._set_state(state)

    def check_transition(self, state: State) -> None:
        """Raises ValueError if no record may be written that would make it so; one read back may."""
        if state is not self.state and state not in TRANSITIONS[self.state]:
            raise ValueError(f"{self.group_id!r} cannot go from {self.state} to {state}")

    @property
    def in_initial_round(self) -> bool:
        """Whether the round under way began when the group was Empty."""
        return self.state is State.PREPARING_REBALANCE and self.previous_state is State.EMPTY

    def next_generation(self) -> None:
        """Begin the next generation, with the members there are; without any, only a record can make it Empty."""
        self.generation += 1
        if self.members:
            self.protocol = self.select_protocol()
            self.refresh_subscriptions()
            self.enter(State.COMPLETING_REBALANCE)
        else:
            self.protocol = None

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """The list for the leader: every member with its metadata for the selected protocol."""
        protocol = self.protocol
        return [
            JoinGroupResponseMember(member.member_id, member.group_instance_id, member.metadata_for(protocol))
            for member in self.members.values()
        ]

    # Records

    def to_record(self, assignments: dict[str, bytes], state_timestamp: int) -> GroupMetadataValue:
        """The group's record if its members had these assignments; members left out get none."""
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
        """Make the group what the record says: Stable if it names members, else Empty (semantics 5.3).

        Members that are there already keep their soft state; it is they whom a record just written names.
        """
        self.protocol_type = value.protocol_type or None
        self.generation = value.generation
        self.protocol = value.protocol
        self.leader = value.leader
        self.state_timestamp = value.current_state_timestamp
        named = {stored.member_id for stored in value.members}
        for member_id in [member_id for member_id in self.members if member_id not in named]:
            self.remove(member_id)
        for stored in value.members:
            member = self.members.get(stored.member_id)
            if member is None:
                member = self._restore(stored, value.protocol)
            member.assignment = stored.assignment
        self.leader = value.leader
        state = state_of(value)
        if state is not self.state:
            self._set_state(state)
        self.refresh_subscriptions()

    def apply_options(self, value: GroupOptionsValue) -> None:
        """Let the options that the record says hold from now on."""
        bound_ms = None if value.heartbeat_bound_ms == -1 else value.heartbeat_bound_ms
        self.options = GroupOptions(value.ephemeral, bound_ms)
        for member in self.members.values():
            self._bound_session(member)

    @property
    def is_ephemeral(self) -> bool:
        """Whether it goes with its last member."""
        return self.options is not None and self.options.ephemeral

    @property
    def is_disposable(self) -> bool:
        """Whether it goes once it has no offsets: it is Empty, and nobody is to come."""
        return self.state is State.EMPTY and not self.is_precreated

    @property
    def is_precreated(self) -> bool:
        """Whether it was created before its first member, who has not come yet."""
        return self.options is not None and self.generation == 0

    def _bound_session(self, member: Member) -> None:
        timeout_ms = member.session_timeout_ms
        if self.options is not None and self.options.heartbeat_bound_ms is not None:
            timeout_ms = min(timeout_ms, self.options.heartbeat_bound_ms)
        member.session_timeout = timeout_ms / 1000

    def _set_state(self, state: State) -> None:
        self.previous_state = self.state
        self.state = state
        self.heartbeat_error = int(ERRORS[RULES[Trigger.HEARTBEAT][state]])

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
        names = tuple(name for name, _ in member.protocols)
        _add_to(self.preferences, names, change)
        for name in dict.fromkeys(names):
            _add_to(self.supporters, name, change)


def _add_to(counts: dict[_K, int], key: _K, change: int) -> None:
    count = counts.get(key, 0) + change
    if count:
        counts[key] = count
    else:
        del counts[key]


def state_of(value: GroupMetadataValue) -> State:
    """The state a group's record says it is in."""
    return State.STABLE if value.members else State.EMPTY


def subscribed_topics(metadata: bytes) -> Sequence[str]:
    """Topics of a consumer's subscription, of which any version begins like version 0. Raises DecodeError."""
    return ConsumerProtocolSubscription.decoder(0)(metadata, 2)[0].topics
