"""Base of groups with epochs: the part that consumer, share and streams groups have in common.

It holds members, epochs, targets, sessions and other timers, removes members, decides when a target assignment is
computed, checks the epochs of commits and fetches, and describes the group. A kind adds its own state, the effect of
its records, and its rules. After Kafka's `ModernGroup` (semantics 4.1, 4.7, 5.3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events as group_events
from kafka_shim.groups.epochs import events
from kafka_shim.groups.epochs.member import LEAVE, EpochMember
from kafka_shim.groups.epochs.records import Record, RecordClasses, Target, target
from kafka_shim.groups.group import Expelled, GroupDescription, MemberDescription, Subscription
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import NEVER, Timer
from kafka_shim.trace.causes import Cause

NO_TARGET: Final = -1
"""Target epoch after its tombstone."""
NEVER_COMPUTED: Final = 0
"""Time of a target assignment after that the next one does not wait."""


class ReplayError(ValueError):
    """Record that contradicts earlier records: Kafka refuses to load the partition (semantics 5.3)."""


class TimerKind(StrEnum):
    """Kind of a timer of any group with epochs; a kind of group declares its own in addition."""

    SESSION = "session"
    REBALANCE = "rebalance"
    """A member has to revoke a part of its assignment, at the epoch at which the timer was armed."""


class Setting(NamedTuple):
    """Setting of a kind of groups: its name for a single group, and its attribute in `GroupConfig`."""

    name: str
    attribute: str

    @classmethod
    def of(cls, kind: str, name: str) -> Setting:
        """Return the setting with Kafka's name `group.KIND.NAME`."""
        return cls(f"{kind}.{name}", f"group_{kind}_{name.replace('.', '_')}")


_M = TypeVar("_M", bound=EpochMember)
_A = TypeVar("_A")


class EpochGroup(ABC, Generic[_M, _A]):
    """Group with epochs, of members `_M` with assignments `_A`; implements `Group` as far as its kinds are alike.

    `group_epoch` grows when a new assignment is needed; `target_epoch` is the group epoch of the last computed one, and
    `targets` has it by member; `target_computed_ms` is its time, in milliseconds of Unix time, if the next one has to
    wait for the assignment interval. `metadata_stale`: the next heartbeat has to compare the topics with those that the
    group knows. `cause` and `trigger` belong to the last group epoch, None if none began here. `rebalance_epochs` has
    the member epoch at which each rebalance timer was armed.
    """

    __slots__ = (
        "cause",
        "group_epoch",
        "group_id",
        "members",
        "metadata_hash",
        "metadata_stale",
        "partition",
        "rebalance_epochs",
        "sessions",
        "shard",
        "target_computed_ms",
        "target_epoch",
        "targets",
        "timers",
        "trigger",
    )

    type: ClassVar[str]
    record_classes: ClassVar[RecordClasses]
    member_timers: ClassVar[tuple[StrEnum, ...]] = (TimerKind.REBALANCE,)
    """Kinds of the timers of one member, beside its session."""

    _assignment_interval_ms: ClassVar[Setting]
    _session_timeout_ms: ClassVar[Setting]
    _heartbeat_interval_ms: ClassVar[Setting]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "type" not in vars(cls):
            return
        cls._assignment_interval_ms = Setting.of(cls.type, "assignment.interval.ms")
        cls._session_timeout_ms = Setting.of(cls.type, "session.timeout.ms")
        cls._heartbeat_interval_ms = Setting.of(cls.type, "heartbeat.interval.ms")

    def __init__(self, group_id: str, shard: Shard) -> None:
        self.group_id = group_id
        self.partition = shard.partition
        self.shard = shard
        # Epoch before the first change.
        self.group_epoch = self.target_epoch = int(shard.rules.first_epoch_two)
        self.metadata_hash = 0
        self.target_computed_ms = NEVER_COMPUTED
        self.metadata_stale = True
        self.cause: Cause | None = None
        self.trigger = ""
        self.members: dict[str, _M] = {}
        self.targets: dict[str, _A] = {}
        self.sessions: dict[str, Timer] = {}
        """Session timers by member id."""
        self.timers: dict[tuple[StrEnum, str], Timer] = {}
        """All other timers, by kind and member."""
        self.rebalance_epochs: dict[str, int] = {}

    # Derived values

    @property
    @abstractmethod
    def state(self) -> StrEnum: ...

    @property
    @abstractmethod
    def protocol(self) -> str:
        """Assignor in use."""

    @property
    def protocol_type(self) -> str:
        return self.type

    @property
    def generation(self) -> int:
        return self.group_epoch

    @property
    def leader(self) -> str | None:
        """None: the coordinator assigns."""
        return None

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def weight(self) -> int:
        return self.size

    def timer_weight(self, timer: Timer) -> int:
        return len(self.members) // 8

    @property
    def is_simple(self) -> bool:
        return False

    @property
    def is_reconciled(self) -> bool:
        """True if every member has its whole target assignment."""
        target_epoch = self.target_epoch
        return all(member.is_reconciled_to(target_epoch) for member in self.members.values())

    # Target assignment

    def is_target_due(self, group_epoch: int, now: float) -> bool:
        """Return True if a new target assignment has to be computed at this group epoch.

        The first heartbeat after the assignment interval computes it (KIP-1263). Until then the group goes on with its
        last one: members join and reconcile at the target epoch.
        """
        if group_epoch <= self.target_epoch:
            return False
        if self.target_computed_ms == NEVER_COMPUTED:
            return True
        due_ms = self._due_ms
        return due_ms is None or self.shard.wall_ms(now) >= due_ms

    def wait_for_target_ms(self, now: float) -> int | None:
        """Return the milliseconds that the assignment of the group epoch has to wait; None if it is due or computed."""
        due_ms = self._due_ms
        if due_ms is None or self.group_epoch <= self.target_epoch:
            return None
        left_ms = due_ms - self.shard.wall_ms(now)
        return left_ms if left_ms > 0 else None

    @property
    def _due_ms(self) -> int | None:
        """Unix time of the end of the assignment interval; None if there is none, or no assignment was computed.

        Without an interval no clock counts: a coordinator with a clock ahead may have computed the last assignment.
        """
        interval_ms = self.setting(self._assignment_interval_ms)
        if not interval_ms or self.target_computed_ms == NEVER_COMPUTED:
            return None
        return self.target_computed_ms + interval_ms

    def new_target(self, epoch: int, assigned: Mapping[str, _A]) -> Target[_A]:
        """Return the target assignment that gives these assignments to all members."""
        return target(self.record_classes, self.group_id, epoch, self.protocol, assigned, self.targets)

    def records_of_target(self, new: Target[_A], now: float) -> list[Record]:
        """Return the records of a target assignment that was computed at `now`."""
        computed_ms = self.shard.wall_ms(now) if self.shard.rules.batched_assignments else NEVER_COMPUTED
        classes = self.record_classes
        return [*new.records, (classes.target_epoch(self.group_id), classes.target_epoch_value(new.epoch, computed_ms))]

    @abstractmethod
    def by_topic(self, assignment: _A) -> dict[str, list[int]]:
        """Return an assignment by topic, for people and the trace."""

    @abstractmethod
    def trace_step(self, member: _M) -> None:
        """Report a step of a member towards its target assignment to the trace, which has a listener."""

    # Settings: of this group alone (resource GROUP), or of all

    def setting(self, setting: Setting) -> int:
        """Return the value of a setting for this group."""
        shard = self.shard
        own = shard.group_settings(self.group_id)
        if own and setting.name in own:
            return int(own[setting.name])
        value: int = getattr(shard.config, setting.attribute)
        return value

    def text(self, setting: Setting) -> str:
        """Return the value of a setting that is text for this group."""
        own = self.shard.group_settings(self.group_id).get(setting.name)
        value: str = getattr(self.shard.config, setting.attribute) if own is None else own
        return value

    @property
    def heartbeat_interval_ms(self) -> int:
        return self.setting(self._heartbeat_interval_ms)

    def session_timeout(self, member: _M) -> float:
        """Return the session timeout of a member in seconds."""
        return self.setting(self._session_timeout_ms) / 1000

    # Load and unload

    def activate(self, now: float) -> None:
        """Restart the timers after a load: a full session for every member, a full rebalance timeout for each that has
        to revoke. The next heartbeat notices topics that changed in between."""
        if self.shard.outbox.listening:
            group_events.group(self.shard.outbox, self, "loaded")
        for member in self.members.values():
            self.renew_session(member, now)
            if member.is_revoking:
                self.arm_rebalance(member, now)

    def resign(self) -> None:
        self.shard.drop(self.group_id)
        if self.shard.outbox.listening:
            group_events.group(self.shard.outbox, self, "unloaded")

    def release(self) -> None:
        for timer in (*self.sessions.values(), *self.timers.values()):
            self.shard.cancel(timer)

    # Timers

    def timer(self, kind: StrEnum, member_id: str = "") -> Timer:
        """Return another timer; create it at its first use."""
        timer = self.timers.get((kind, member_id))
        if timer is None:
            timer = self.timers[kind, member_id] = Timer(kind, self.partition, self.group_id, member_id)
        return timer

    def renew_session(self, member: _M, now: float, timeout: float | None = None) -> None:
        """Restart the member's session at `now`; `timeout` is in seconds, that of the member if None."""
        deadline = now + (self.session_timeout(member) if timeout is None else timeout)
        member_id = member.member_id
        session = self.sessions.get(member_id)
        if session is None:
            session = self.sessions[member_id] = Timer(TimerKind.SESSION, self.partition, self.group_id, member_id)
        if session.queued <= deadline:
            session.deadline = deadline
        else:
            self.shard.arm(session, deadline)

    def arm_rebalance(self, member: _M, now: float) -> None:
        """Arm the timer for the revocation of an assignment: the member's rebalance timeout."""
        self.rebalance_epochs[member.member_id] = member.epoch
        self.arm(TimerKind.REBALANCE, member.member_id, now + member.rebalance_timeout_ms / 1000)

    def arm(self, kind: StrEnum, member_id: str, deadline: float) -> None:
        """Arm a timer; an armed one gets the new deadline."""
        self.shard.arm(self.timer(kind, member_id), deadline)

    def arm_if_idle(self, kind: StrEnum, member_id: str, deadline: float) -> None:
        """Arm a timer unless it is armed already."""
        timer = self.timer(kind, member_id)
        if timer.deadline == NEVER:
            self.shard.arm(timer, deadline)

    def cancel(self, kind: StrEnum, member_id: str) -> None:
        """Cancel a timer; does nothing if it is not armed."""
        timer = self.timers.get((kind, member_id))
        if timer is not None:
            self.shard.cancel(timer)

    def forget_timers(self, member_id: str) -> None:
        """Cancel and drop the timers of a removed member."""
        others = [self.timers.pop((kind, member_id), None) for kind in self.member_timers]
        for timer in (self.sessions.pop(member_id, None), *others):
            if timer is not None:
                self.shard.cancel(timer)
        self.rebalance_epochs.pop(member_id, None)

    def fire(self, timer: Timer, now: float) -> None:
        """Remove a member after its session, or one that did not revoke its assignment in time.

        With another epoch than at the start of its rebalance timeout, it has revoked.
        """
        member = self.members[timer.member_id]
        if timer.kind is TimerKind.SESSION:
            self.fence([member], Cause.SESSION_EXPIRED, "expired", now)
        elif member.epoch == self.rebalance_epochs.get(member.member_id):
            self.fence([member], Cause.REBALANCE_TIMEOUT, "removed", now)

    # Members

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        """Refuse a classic Heartbeat (12): UNKNOWN_MEMBER_ID (25)."""
        return ErrorCode.UNKNOWN_MEMBER_ID

    def renew(self, member_id: str, now: float) -> None:
        """Ignored: only a heartbeat renews the session, a commit does not."""

    def expel(self, now: float) -> list[Expelled]:
        members = list(self.members.values())
        expelled = [
            Expelled(
                member.member_id,
                member.instance_id,
                None,
                self.sessions[member.member_id].deadline,
                max(member.rebalance_timeout_ms, 0) / 1000,
            )
            for member in members
        ]
        self.fence(members, Cause.ADMIN_REMOVED, "removed", now)
        return expelled

    def fence(self, members: Sequence[_M], cause: Cause, change: str, now: float) -> None:
        """Remove members with one new group epoch; each learns it by the error of its next request.

        The next heartbeat computes the new target assignment. `change` is for the trace.
        """
        if not members:
            return
        shard = self.shard
        before = self.state if shard.outbox.listening else None
        written: list[Record] = []
        for member in members:
            written += self.record_classes.member_tombstones(self.group_id, member.member_id)
        written += self.records_of_departure(members)
        if len(members) == len(self.members) and shard.rules.reset_of_empty_groups:
            written.append(self.record_classes.target_epoch_record(self.group_id, self.group_epoch + 1))
        for key, value in written:
            shard.write(key, value)
        for member in members:
            self.forget_timers(member.member_id)
        self.note_new_epoch(cause, members[0].member_id)
        if before is not None:
            for member in members:
                events.member(self, member, change)
            events.epoch(self, now)
            events.state(self, before)

    @abstractmethod
    def records_of_departure(self, members: Sequence[_M]) -> Iterable[Record]:
        """Return the records that follow the tombstones of these members, the last one with the next group epoch."""

    def note_new_epoch(self, cause: Cause, trigger: str) -> None:
        """Note the cause of a new group epoch, and count it. `trigger` is the member that caused it, "" if none did."""
        self.cause, self.trigger = cause, trigger
        self.shard.counters.rebalances[cause] += 1

    # Checks

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool
    ) -> ErrorCode:
        """Check a commit: NONE, UNKNOWN_MEMBER_ID (25), UNSUPPORTED_VERSION (35) for a member with an epoch in a
        version below 9, ILLEGAL_GENERATION (22) or STALE_MEMBER_EPOCH (113)."""
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member.is_classic and not member_epochs:
            return ErrorCode.UNSUPPORTED_VERSION
        return _check_epoch(member, generation)

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        """Check a commit in a transaction: NONE, UNKNOWN_MEMBER_ID (25), ILLEGAL_GENERATION (22) or STALE_MEMBER_EPOCH
        (113).

        A producer may leave out its member.
        """
        if generation < 0 and not self.members:
            return ErrorCode.NONE
        if generation == -1 and not member_id and group_instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return _check_epoch(member, generation)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check a fetch: NONE, UNKNOWN_MEMBER_ID (25), ILLEGAL_GENERATION (22) or STALE_MEMBER_EPOCH (113)."""
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = None if member_id is None else self.members.get(member_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _check_epoch(member, member_epoch)

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.NONE

    # Offsets

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    @property
    def is_disposable(self) -> bool:
        return not self.members

    # Records

    def check_member_deletion(self, member: _M) -> None:
        """Raise `ReplayError` unless the tombstones of the member's assignments came first."""
        if member.epoch != LEAVE:
            raise ReplayError(f"Member {member.member_id!r} was deleted before its current assignment.")
        if member.member_id in self.targets:
            raise ReplayError(f"Member {member.member_id!r} was deleted before its target assignment.")

    def replay(self, key: Any, value: Any) -> None:
        """Apply a record of this group. Raises `ReplayError`."""
        classes, record = self.record_classes, type(key)
        if record is classes.current_assignment:
            self.replay_current(key.member_id, value)
        elif record is classes.member:
            self.replay_member(key.member_id, value)
        elif record is classes.target_assignment:
            self.replay_target(key.member_id, value)
        elif record is classes.target_epoch:
            if value is not None:
                self.target_epoch, self.target_computed_ms = value.assignment_epoch, value.assignment_timestamp
            elif self.targets:
                raise ReplayError(f"The target epoch of {self.group_id!r} was deleted before its target assignments.")
            else:
                self.target_epoch, self.target_computed_ms = NO_TARGET, NEVER_COMPUTED
        elif record is not classes.group:
            self.replay_other(key, value)
        elif value is not None:
            self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash
        else:
            self.check_deletion()
            self.shard.drop(self.group_id)

    @abstractmethod
    def replay_current(self, member_id: str, value: Any) -> None:
        """Apply the record of a member's current assignment."""

    @abstractmethod
    def replay_member(self, member_id: str, value: Any) -> None:
        """Apply the record of a member."""

    def replay_target(self, member_id: str, value: Any) -> None:
        """Apply the record of a member's target assignment."""
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = self.record_classes.target_from(value)

    @abstractmethod
    def replay_other(self, key: Any, value: Any) -> None:
        """Apply a record that only this kind of group has: one of `RecordClasses.others`."""

    def check_deletion(self) -> None:
        """Raise `ReplayError` unless the tombstones of members and targets came first."""
        if self.members or self.targets or self.target_epoch != NO_TARGET:
            raise ReplayError(
                f"Group {self.group_id!r} was deleted while it had {len(self.members)} members and {len(self.targets)}"
                f" target assignments at epoch {self.target_epoch}."
            )

    def erase(self) -> None:
        for key, value in self.tombstones():
            self.shard.write(key, value)

    @abstractmethod
    def tombstones(self) -> list[Record]:
        """Return the tombstones of all its records."""

    # Description

    def describe(self) -> GroupDescription:
        """Describe the group for the console, HTTP and tests."""
        return GroupDescription(
            type=self.type,
            group_id=self.group_id,
            state=self.state.value,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            generation=self.group_epoch,
            leader=self.leader,
            cause=None if self.cause is None else self.cause.value,
            trigger=self.trigger,
            assignment_epoch=self.target_epoch,
            assignment_due_ms=self._due_ms if self.group_epoch > self.target_epoch else None,
        )

    def describe_members(self, *, subscriptions: bool = True) -> Iterator[MemberDescription]:
        """Describe each member; see `Group`."""
        return (self._describe_member(member, subscriptions) for member in list(self.members.values()))

    def _describe_member(self, member: _M, subscriptions: bool) -> MemberDescription:
        return MemberDescription(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=round(self.session_timeout(member) * 1000),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            protocols=self.assignors_of(member),
            parked=None,
            subscription=self.subscription_of(member) if subscriptions else None,
            assignment=self.assignment_of(member),
            has_assignment=member.is_reconciled_to(self.target_epoch),
        )

    def assignors_of(self, member: _M) -> list[str]:
        """Return the assignors that the member names."""
        return []

    @abstractmethod
    def subscription_of(self, member: _M) -> Subscription:
        """Describe the member's subscription."""

    @abstractmethod
    def assignment_of(self, member: _M) -> dict[str, list[int]]:
        """Return the member's assignment, by topic."""


def _check_epoch(member: EpochMember, epoch: int) -> ErrorCode:
    """Compare the epoch with the member's; for a classic member it is the generation."""
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
