"""Consumer group (KIP-848): members, epochs and assignments, built from records, with its timers and flags.

Only `replay` changes the hard state, and `target.install`, which has the effect of a replay. It also keeps values
derived from the records: the state of the group, the owner of each partition, the number of members that choose an
assignor. A load rebuilds timers and flags. The rules are in the other modules of this folder; a group calls those of
`ConsumerRules`. After Kafka's `ModernGroup` and `ConsumerGroup` (semantics 4.1, 4.7, 5.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from math import inf
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer import records
from kafka_shim.groups.consumer.member import Member, Reader, ResolvedRegex, Specs, Subscriptions, TopicIds, Views
from kafka_shim.groups.consumer.states import GroupState, MemberState, TimerKind
from kafka_shim.groups.epochs.group import ReplayError
from kafka_shim.groups.epochs.group import TimerKind as SharedTimer
from kafka_shim.groups.epochs.member import LEAVE, by_topic_name, from_records
from kafka_shim.groups.epochs.records import Record
from kafka_shim.groups.epochs.revoking import RevokingGroup
from kafka_shim.groups.group import Subscription, in_order
from kafka_shim.groups.interface import Refusal
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kafka_shim.trace.causes import Cause

NO_NUMBERS: Final[frozenset[int]] = frozenset()
_TRY_AGAIN_S: Final = 0.5
"""Seconds until a timer fires again after its rule failed: as in Kafka's `CoordinatorTimer`."""


class SteadyPeriod:
    """Period without changes of a group. It ends at `until` (monotonic seconds) or at the first change. Compare with
    `is`.

    `deadline` is the session deadline for heartbeats received at `now`; the members of a tick share it to save cache
    misses of the processor.
    """

    __slots__ = ("deadline", "now", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        self.now = self.deadline = -inf


class ConsumerRules(NamedTuple):
    """Rules that a group calls and that know more than the group.

    `downgrade(group, members, change, now)` converts the group to a classic one if these members leave and it has to,
    and returns True if it did. `heartbeat` serves a Heartbeat of the classic protocol. `timers` has the rules of
    further timers of a group.
    """

    downgrade: Callable[[ConsumerGroup, Sequence[Member], str, float], bool]
    heartbeat: Callable[[ConsumerGroup, str, str | None, int, float], ErrorCode]
    timers: Mapping[StrEnum, Callable[[Any, float], None]]


class ConsumerGroup(RevokingGroup[Member, Partitions]):
    """State of a consumer group; implements `Group`.

    `target_owners` are the target assignments by partition. `owners` is the member that
    is assigned a partition or has yet to revoke it. `patterns_stale`: the patterns need to be resolved again;
    `resolves`: another thread resolves them now. `steady_period` is None after a change, until a heartbeat finds the
    group unchanged. `specs` are the members in the form that assignors take. `revision` grows with every change of an
    input of the target assignment. `draft` is the `Draft` of a group that is not in the shard yet, else None.
    """

    __slots__ = (
        "choosing_members",
        "classic_members",
        "draft",
        "has_partition_metadata",
        "owners",
        "patterns_stale",
        "resolver",
        "resolves",
        "revision",
        "rules",
        "specs",
        "steady_period",
        "subscriptions",
        "target_extensions",
        "target_owners",
    )

    type = "consumer"
    record_classes = records.CLASSES
    member_timers = (SharedTimer.REBALANCE, TimerKind.JOIN, TimerKind.SYNC)

    def __init__(self, group_id: str, shard: Shard, rules: ConsumerRules) -> None:
        super().__init__(group_id, shard)
        self.rules = rules
        self.static_members = {}
        self.target_extensions: dict[str, bytes] = {}
        """Data of an extension about target assignments, by member id."""
        self.target_owners: dict[bytes, dict[int, str]] = {}
        self.owners: dict[bytes, dict[int, str]] = {}
        rights = shard.topic_rights
        self.subscriptions = Subscriptions(views=Views(rights) if rights is not None and rights.of_members else None)
        self.choosing_members = 0
        """Number of members that name a server assignor."""
        self.classic_members = 0
        """Number of members that use the classic protocol."""
        self.has_partition_metadata = False
        """True if the group has a record of type 4, which Kafka before 4.1 wrote and 4.2 deletes."""
        self.patterns_stale = True
        self.resolver: Reader | None = None
        """The sender of the heartbeat that had the patterns resolved."""
        self.steady_period: SteadyPeriod | None = None
        ids = TopicIds(shard.topics, self.subscriptions)
        self.specs = Specs(self.members, self.targets, self.subscriptions, shard.topics, ids)
        self.resolves = False
        self.revision = 0
        self.draft: Any = None

    # Derived values

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.group_epoch > self.target_epoch:
            return GroupState.ASSIGNING
        return GroupState.STABLE if self.is_reconciled else GroupState.RECONCILING

    def target_of(self, member_id: str, instance_id: str | None) -> Partitions:
        """Return the target assignment of a member, or of the static member that it replaces."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.targets.get(member_id, NO_PARTITIONS)

    def supports_classic_protocol(self, names: set[str]) -> bool:
        """Return True if one of these protocols is common to all members that use the classic protocol."""
        shared = [
            {protocol.name for protocol in member.classic.supported_protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        return bool(names.intersection(*shared)) if shared else bool(names)

    @property
    def protocol(self) -> str:
        """Assignor that most members name."""
        return self.shard.assignors.choose(member.server_assignor for member in self.members.values())

    @property
    def epoch_to_join(self) -> int:
        """Epoch below that a member of the classic protocol has to join again: that of the assignment it would get."""
        return self.target_epoch if self.shard.rules.rejoin_at_assignment_epoch else self.group_epoch

    @property
    def is_crowded(self) -> bool:
        """True if the group has more members than `group.consumer.max.size`, for example after that was lowered."""
        return len(self.members) > self.shard.config.group_consumer_max_size

    @property
    def weight(self) -> int:
        topics = sum(self.subscriptions.names.values())
        return len(self.members) + topics + sum(map(len, self.target_owners.values()))

    def timer_weight(self, timer: Timer) -> int:
        return super().timer_weight(timer) + len(self.subscriptions.names)

    @property
    def is_in_shard(self) -> bool:
        """True if the first record of the group is written and the group is not dropped since."""
        current: object = self.shard.groups.get(self.group_id)
        return current is self

    def session_timeout(self, member: Member) -> float:
        if member.classic is not None:
            return member.classic.session_timeout_ms / 1000
        return self.setting(self._session_timeout_ms) / 1000

    def waits_for(self, member: Member) -> list[str]:
        """Return the members that own partitions of this one's target."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return []
        target = self.targets.get(member.member_id, NO_PARTITIONS)
        owners = (
            self.owners.get(topic, {}).get(number)
            for topic, aim in target.items()
            for number in aim - member.assigned.get(topic, frozenset())
        )
        return sorted({owner for owner in owners if owner is not None})

    def assignors_of(self, member: Member) -> list[str]:
        return [] if member.server_assignor is None else [member.server_assignor]

    def subscription_of(self, member: Member) -> Subscription:
        return Subscription(
            topics=in_order(member.topic_names), regex=member.regex, generation=member.epoch, rack=member.rack_id
        )

    def assignment_of(self, member: Member) -> dict[str, list[int]]:
        return self.by_topic(member.assigned)

    def by_topic(self, assignment: Partitions) -> dict[str, list[int]]:
        return by_topic_name(self.shard.topics, assignment)

    def is_subscribed(self, topic: str) -> bool:
        return self.subscriptions.includes(topic)

    # Commits

    def allows_late_commit(self, member_id: str, member_epoch: int, partitions: Iterable[tuple[str, int]]) -> bool:
        """Return True if a commit with an older epoch concerns only partitions that the member had at that epoch
        already, and still has or must revoke (KIP-1251)."""
        member = self.members.get(member_id)
        if member is None or member_epoch > member.epoch or not self.shard.rules.partition_assignment_epochs:
            return False
        topic_id = self.shard.topics.topic_id
        return all(member.has_since(member_epoch, topic_id(topic) or b"", number) for topic, number in partitions)

    # Topics, timers, members

    def topic_changed(self, topic: str, now: float) -> None:
        """Have the next heartbeat check the topics of the group, and its patterns unless the topic was deleted.

        Kafka resolves patterns again only for new topics.
        """
        self.steady_period = None
        self.patterns_stale |= self.shard.topics.topic_id(topic) is not None
        self.specs.topics_changed()
        if self.subscriptions.includes(topic):
            self.metadata_stale = True
            self.revision += 1

    def release(self) -> None:
        self.steady_period = None
        super().release()

    def fire(self, timer: Timer, now: float) -> None:
        rule = self.rules.timers.get(timer.kind)
        if rule is not None:
            rule(self, now)
            return
        try:
            if timer.kind is TimerKind.JOIN:
                self.fence([self.members[timer.member_id]], Cause.REBALANCE_TIMEOUT, "removed", now)
            elif timer.kind is TimerKind.SYNC:
                self.fence([self.members[timer.member_id]], Cause.PENDING_SYNC_EXPIRED, "removed", now)
            else:
                super().fire(timer, now)
        except Refusal:
            self.shard.arm(timer, now + _TRY_AGAIN_S)

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        return self.rules.heartbeat(self, member_id, group_instance_id, generation, now)

    def fence(self, members: Sequence[Member], cause: Cause, change: str, now: float) -> None:
        """Remove members, as all groups with epochs do; or become a classic group without them.

        Raises `Refusal`: -1, if the group should become a classic one and cannot.
        """
        if members and not self.rules.downgrade(self, members, change, now):
            super().fence(members, cause, change, now)

    def records_of_departure(self, members: Sequence[Member]) -> list[Record]:
        group_id, patterns = self.group_id, Counter(member.regex for member in members if member.regex is not None)
        written = [
            records.regex_tombstone(group_id, pattern)
            for pattern, count in patterns.items()
            if self.subscriptions.patterns[pattern] == count
        ]
        new_hash = self.specs.metadata_hash(without=members)
        return [*written, records.epoch(group_id, self.group_epoch + 1, new_hash)]

    def inherited_target(self, old_id: str, new_id: str) -> Record:
        extension = self.target_extensions.get(old_id, b"")
        return records.target_assignment(self.group_id, new_id, self.target_of(old_id, None), extension)

    def tombstones(self) -> list[Record]:
        patterns = (records.regex_tombstone(self.group_id, pattern) for pattern in self.subscriptions.resolved)
        others = [*patterns, records.partition_metadata_tombstone(self.group_id)]
        return self.record_classes.group_tombstones(self.group_id, self.members, others)

    # Records

    def replay(self, key: Any, value: Any) -> None:
        self.steady_period = None
        super().replay(key, value)
        if type(key) is not ConsumerGroupCurrentMemberAssignmentKey:
            self.revision += 1
            self.specs.replayed(key, value)

    def replay_other(self, key: Any, value: Any) -> None:
        if type(key) is ConsumerGroupRegularExpressionKey:
            self._replay_regex(key.regular_expression, value)
        else:
            assert type(key) is ConsumerGroupPartitionMetadataKey
            self.has_partition_metadata = value is not None

    def replay_member(self, member_id: str, value: ConsumerGroupMemberMetadataValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            names = frozenset(value.subscribed_topic_names)
            self._put(
                replace(
                    member or Member(member_id),
                    instance_id=value.instance_id,
                    rack_id=value.rack_id,
                    rebalance_timeout_ms=value.rebalance_timeout_ms,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    topic_names=self.subscriptions.shared.get(names, names),
                    topic_regex=value.subscribed_topic_regex,
                    server_assignor=value.server_assignor,
                    classic=value.classic_member_metadata,
                    extension=value.extension,
                )
            )
        elif member is not None:
            self.check_member_deletion(member)
            self._remove(member)

    def replay_current(self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            assigned = from_records(value.assigned_partitions)
            epochs = None
            if self.shard.rules.partition_assignment_epochs:
                epochs = records.epochs_from_records(
                    value.assigned_partitions, value.partitions_pending_revocation, member_epoch=value.member_epoch
                )
            target = self.targets.get(member_id)
            self._put(
                replace(
                    member or Member(member_id),
                    epoch=value.member_epoch,
                    previous_epoch=value.previous_member_epoch,
                    state=MemberState(value.state),
                    # A reconciled member shares one object for its target and its assignment, to save memory.
                    assigned=target if target is not None and assigned == target else assigned,
                    pending_revocation=from_records(value.partitions_pending_revocation),
                    assignment_epochs=epochs,
                )
            )
        elif member is not None:
            self._put(
                replace(
                    member,
                    epoch=LEAVE,
                    previous_epoch=LEAVE,
                    assigned=NO_PARTITIONS,
                    pending_revocation=NO_PARTITIONS,
                    assignment_epochs=None,
                )
            )

    def replay_target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        old, new = self.targets.get(member_id, NO_PARTITIONS), NO_PARTITIONS
        if value is None:
            self.targets.pop(member_id, None)
        else:
            new = self.targets[member_id] = from_records(value.topic_partitions)
        for topic, had in old.items():
            has = new.get(topic, NO_NUMBERS)
            if has == had:
                continue
            owners = self.target_owners.get(topic, {})
            for partition in had:
                # A record may already have given the partition to another member.
                if partition not in has and owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                self.target_owners.pop(topic, None)
        for topic, has in new.items():
            if has != old.get(topic, NO_NUMBERS):
                owners = self.target_owners.setdefault(topic, {})
                for partition in has:
                    owners[partition] = member_id
        if value is not None and value.extension:
            self.target_extensions[member_id] = value.extension
        elif self.target_extensions:
            self.target_extensions.pop(member_id, None)

    def _replay_regex(self, pattern: str, value: ConsumerGroupRegularExpressionValue | None) -> None:
        if value is None:
            self.subscriptions.resolve(pattern, None)
        else:
            topics = self.shard.shared(frozenset(value.topics))
            self.subscriptions.resolve(pattern, ResolvedRegex(topics, value.version, value.timestamp))

    def _put(self, member: Member) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is None or old.topic_names is not member.topic_names or old.topic_regex != member.topic_regex:
            self.subscriptions.replace(old, member)
        self.classic_members += member.classic is not None
        self.choosing_members += member.server_assignor is not None
        if old is not None:
            self.classic_members -= old.classic is not None
            self.choosing_members -= old.server_assignor is not None
            if old.assigned or old.pending_revocation:
                self._disown(old)
            if old.instance_id != member.instance_id and self.shard.rules.instance_id_moves:
                self.static_members.pop(old.instance_id or "", None)
        self._own(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _remove(self, member: Member) -> None:
        del self.members[member.member_id]
        self.subscriptions.replace(member, None)
        if self.subscriptions.views is not None:
            self.subscriptions.views.readers.pop(member.member_id, None)
        self.classic_members -= member.classic is not None
        self.choosing_members -= member.server_assignor is not None
        self._disown(member)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)

    def _own(self, member: Member) -> None:
        """Make the member the owner of its partitions.

        Raises `ReplayError` if another member has one of its partitions at no lower epoch.
        """
        member_id = member.member_id
        for partitions in (member.assigned, member.pending_revocation):
            for topic, numbers in partitions.items():
                owners = self.owners.setdefault(topic, {})
                for number in numbers:
                    other = owners.get(number)
                    if other is not None and self.members[other].epoch >= member.epoch:
                        raise ReplayError(
                            f"Partition {number} of a topic of {self.group_id!r} is given to {member_id!r} at epoch"
                            f" {member.epoch}, while {other!r} has it at epoch {self.members[other].epoch}."
                        )
                    owners[number] = member_id

    def _disown(self, member: Member) -> None:
        for partitions in (member.assigned, member.pending_revocation):
            for topic, numbers in partitions.items():
                owners = self.owners.get(topic)
                if owners is None:
                    continue
                for number in numbers:
                    # A record may already have given the partition to another member at a higher epoch.
                    if owners.get(number) == member.member_id:
                        del owners[number]
                if not owners:
                    del self.owners[topic]
