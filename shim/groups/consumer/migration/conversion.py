"""Online migration between classic and consumer groups, in both directions.

A classic group with members becomes a consumer group, and a consumer group with classic members alone becomes a classic
group, if `group.consumer.migration.policy` allows it. Converts members, epochs and assignments. After Kafka's
`convertToConsumerGroup`, `convertToClassicGroup` and their checks of 4.2 (semantics 4.8).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    assignment_from_bytes,
    assignment_to_bytes,
    subscription_from_bytes,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events as group_events
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.classic import rebalance
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.join import join
from kafka_shim.groups.classic.kind import Classic
from kafka_shim.groups.classic.member import Member as ClassicMember
from kafka_shim.groups.classic.member import Protocols
from kafka_shim.groups.classic.rebalance import join_refused, sync_refused
from kafka_shim.groups.classic.states import RULES, State, Trigger
from kafka_shim.groups.classic.states import TimerKind as ClassicTimer
from kafka_shim.groups.classic.subscriptions import CONSUMER
from kafka_shim.groups.consumer import records
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.target import Draft, DraftComputation
from kafka_shim.groups.epochs import events
from kafka_shim.groups.epochs.metadata_hash import metadata_hash
from kafka_shim.groups.epochs.offload import Offloaded
from kafka_shim.groups.epochs.records import Record
from kafka_shim.groups.interface import Refusal
from kafka_shim.groups.shard import Shard, TopicCatalogue
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
)
from kafka_shim.trace.causes import Cause

MANY_MEMBERS: Final = 100
"""From this number of members on, another thread converts the group: a hundred members take some 10 ms."""

# Upgrade


class ClassicMemberView(NamedTuple):
    """Copy of a member of a classic group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes


class ClassicView(NamedTuple):
    """Copy of a classic group; it stays the same when the group changes."""

    state: State
    generation: int
    protocol: str | None
    members: Sequence[ClassicMemberView]


class ClassicSnapshot(NamedTuple):
    """Classic group with a copy of its state at one moment. Implements `Snapshot`."""

    group: Classic
    view: ClassicView

    def holds(self) -> bool:
        return view_of(self.group) == self.view


def view_of(classic: ClassicGroup) -> ClassicView:
    members = [
        ClassicMemberView(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.protocols,
            member.assignment,
        )
        for member in classic.members.values()
    ]
    return ClassicView(classic.state, classic.generation, classic.protocol, members)


def draft_of(shard: Shard, group_id: str, *, joins: bool) -> Draft:
    """Return a draft of the consumer group for a first member: empty, or converted from the classic group.

    All members keep their assignments, and the generation becomes the epoch of all. Raises `Refusal`:
    GROUP_ID_NOT_FOUND (69) unless the member `joins` and the group is a classic one, or UNKNOWN_SERVER_ERROR (-1)
    before the first generation, as Kafka does; `Offloaded` if there are many members.
    """
    classic = shard.groups.get(group_id)
    if classic is None and not joins:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if not (joins and isinstance(classic, Classic | None)):
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    has_members = classic is not None and classic.state is not State.EMPTY
    if classic is not None and has_members:
        _check_upgrade(shard, classic)
        # Kafka does this first, even if it then cannot convert the group or refuses the member.
        call_back(shard, classic)
        if classic.protocol is None:
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Group {group_id} has no generation yet.")
    computed = shard.computed
    draft = computed.draft if isinstance(computed, DraftComputation) else None
    if draft is not None and draft.stands():
        return draft
    snapshot = None if classic is None else ClassicSnapshot(classic, view_of(classic))
    if snapshot is None or not has_members:
        group = shard.kinds.by_record[ConsumerGroupMetadataKey].make(group_id, shard)
        assert isinstance(group, ConsumerGroup)
        group.draft = draft = Draft(group, classic, snapshot)
        return draft
    if isinstance(computed, Conversion) and computed.snapshot.view == snapshot.view:
        return computed.outcome()
    conversion = Conversion(shard, snapshot)
    if shard.outbox.offloads and len(snapshot.view.members) >= MANY_MEMBERS:
        raise Offloaded(conversion)
    conversion.result = conversion.compute()
    return conversion.outcome()


class TopicsThen(NamedTuple):
    """Topics of the cluster at one moment."""

    ids: Mapping[str, bytes]
    counts: Mapping[str, int]

    def topic_id(self, topic: str) -> bytes | None:
        return self.ids.get(topic)

    def partitions_of(self, topic: str) -> int:
        return self.counts[topic]


class Conversion(DraftComputation):
    """Conversion of a classic group with members; its result is a draft or a refusal."""

    def __init__(self, shard: Shard, snapshot: ClassicSnapshot) -> None:
        super().__init__(shard, snapshot.group.group_id)
        self.snapshot = snapshot
        topics = shard.topics
        ids = {name: topics.topic_id(name) or b"" for name in topics.names()}
        self._topics = TopicsThen(ids, {name: topics.partitions_of(name) for name in ids})

    @property
    def draft(self) -> Draft | None:
        return self.result if isinstance(self.result, Draft) else None

    def outcome(self) -> Draft:
        """Return the draft. Raises `Refusal`, or any other error of the conversion."""
        if isinstance(self.result, Exception):
            raise self.result
        draft: Draft = self.result
        return draft

    def compute(self) -> Draft | Refusal:
        try:
            return self._draft()
        except Refusal as refusal:
            return refusal

    def _draft(self) -> Draft:
        group_id, view = self.group_id, self.snapshot.view
        generation = view.generation
        members = [_converted(group_id, view, member, self._topics.ids) for member in view.members]
        if self.shard.rules.partition_assignment_epochs:
            members = [member.at_epoch(generation) for member in members]
        names = {name for member in members for name in member.topic_names}
        new_records: list[Record] = [
            *(records.member_metadata(group_id, member) for member in members),
            records.epoch(group_id, generation, metadata_hash(names, self._topics)),
            *(records.target_assignment(group_id, member.member_id, member.assigned) for member in members),
            records.CLASSES.target_epoch_record(group_id, generation),
            *(records.current_assignment(group_id, member) for member in members),
        ]
        group = self.shard.kinds.by_record[ConsumerGroupMetadataKey].make(group_id, self.shard)
        assert isinstance(group, ConsumerGroup)
        for key, value in new_records:
            group.replay(key, value)
        group.draft = draft = Draft(group, self.snapshot.group, self.snapshot, new_records)
        return draft


def _check_upgrade(shard: Shard, classic: ClassicGroup) -> None:
    if shard.config.group_consumer_migration_policy not in ("upgrade", "bidirectional"):
        why = "online upgrade is disabled"
    elif classic.protocol_type != CONSUMER:
        why = "the group does not use the consumer embedded protocol"
    elif classic.size > shard.config.group_consumer_max_size:
        why = "the group size exceeds the consumer group maximum size"
    else:
        return
    raise _not_upgraded(classic.group_id, f"because {why}")


def _not_upgraded(group_id: str, why: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group_id} to consumer group {why}.")


def _converted(group_id: str, group: ClassicView, member: ClassicMemberView, topics: Mapping[str, bytes]) -> Member:
    """Convert a classic member with its assignment; `topics` are ids by name."""
    offered = dict(reversed(member.protocols)).get(group.protocol or "", b"")
    subscription = subscription_from_bytes(offered)
    assigned: Partitions = NO_PARTITIONS
    malformed = subscription is None
    if member.assignment:
        assignment = assignment_from_bytes(member.assignment)
        if assignment is None:
            malformed = True
        elif assignment.user_data:
            raise _not_upgraded(group_id, "because an unsupported custom assignor is in use")
        else:
            owned = ((topics.get(each.topic), each.partitions) for each in assignment.assigned_partitions)
            assigned = {topic: frozenset(numbers) for topic, numbers in owned if topic is not None and numbers}
    if malformed or subscription is None:
        raise _not_upgraded(group_id, "because the embedded consumer protocol is malformed")
    return Member(
        member.member_id,
        epoch=group.generation,
        previous_epoch=group.generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMemberMetadata(
            member.session_timeout_ms, [ClassicProtocol(name, metadata) for name, metadata in member.protocols]
        ),
    )


def call_back(shard: Shard, classic: ClassicGroup) -> None:
    """Answer all parked requests of a classic group that is converted: REBALANCE_IN_PROGRESS (27)."""
    for member in classic.members.values():
        exchange = classic.unpark_join(member)
        if exchange is not None:
            refusal = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            shard.outbox.reply(exchange, refusal, shard)
        if member.sync_exchange is not None:
            shard.outbox.reply(member.sync_exchange, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), shard)
            member.sync_exchange = None


# Downgrade

become_classic: Final = join
"""JoinGroup at a consumer group without members: the group becomes a classic one."""


def may_downgrade(group: ConsumerGroup, going: Collection[Member], *, replaced: bool = False) -> bool:
    """Return True if the group has to become a classic one when `going` leave.

    `replaced`: a classic member replaces the last member that uses the consumer protocol.
    """
    remaining = group.size - (0 if replaced else len(going))
    classic_remaining = group.classic_members - sum(member.classic is not None for member in going)
    return (
        remaining > 0
        and classic_remaining == group.size - len(going)
        and (not replaced or any(member.classic is None for member in going))
        and group.shard.config.group_consumer_migration_policy in ("downgrade", "bidirectional")
        and remaining <= group.shard.config.group_max_size
    )


def downgrade_without(group: ConsumerGroup, members: Sequence[Member], change: str, now: float) -> bool:
    """Convert the group to a classic one without these members, if it has to become one; return True if it did."""
    if not may_downgrade(group, members):
        return False
    downgrade(group, members, None, now, change=change, rebalances=True)
    return True


def downgrade(
    group: ConsumerGroup,
    going: Sequence[Member],
    joining: Member | None,
    now: float,
    *,
    change: str,
    rebalances: bool,
) -> None:
    """Convert the group to a classic one of its remaining members and `joining`, which replaces the static member in
    `going`.

    The group epoch becomes the generation, and target assignments become assignments. `change` is the event of the
    trace for `going`. Raises `Refusal`: UNKNOWN_SERVER_ERROR (-1) before Kafka 4.3 if a member has no target assignment
    yet, since it joined without a topic; then nothing changes.
    """
    shard, group_id = group.shard, group.group_id
    leaving_ids = {member.member_id for member in going}
    heirs = [(member, member.member_id) for member in group.members.values() if member.member_id not in leaving_ids]
    if joining is not None:
        heirs.append((joining, going[0].member_id))
    if not shard.rules.batched_assignments and any(heir_of not in group.targets for _, heir_of in heirs):
        # Kafka's `ClassicGroup.fromConsumerGroup` finds null there.
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    converted = ClassicGroup(group_id, group.partition)
    converted.generation = group.group_epoch
    converted.protocol_type = CONSUMER
    for member, _ in heirs:
        converted.add(_classic_member(group, member), CONSUMER)
    converted.leader = heirs[0][0].member_id
    converted.protocol = converted.select_protocol()
    assignments = {
        member.member_id: embedded_assignment(
            group.targets.get(heir_of, NO_PARTITIONS),
            converted.members[member.member_id].metadata_for(converted.protocol),
            shard.topics,
        )
        for member, heir_of in heirs
    }
    group.erase()
    shard.write(GroupMetadataKey(group_id), converted.to_record(assignments, shard.wall_ms(now)))
    written = shard.groups[group_id]
    assert isinstance(written, ClassicGroup)
    for member_id, offered in converted.members.items():
        restored = written.members[member_id]
        written.update(restored, offered.protocols, offered.rebalance_timeout_ms, offered.session_timeout_ms)
        shard.arm(restored.session_timer, now + restored.session_timeout)
    if shard.outbox.listening:
        stays = None if joining is None else joining.member_id
        for member in going:
            if member.member_id != stays:
                events.member(group, member, change)
                if joining is not None:
                    events.member(group, joining, "replaced")
        group_events.group(shard.outbox, group, "deleted")
        group_events.group(shard.outbox, written, "loaded")
    if rebalances:
        trigger = (joining or going[0]).member_id
        rule = RULES[Trigger.OVERSIZE][State.STABLE]
        rebalance.start(shard, written, Cause.PROTOCOL_CHANGED, trigger, rule, now)


def _classic_member(group: ConsumerGroup, member: Member) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        tuple((protocol.name, protocol.metadata) for protocol in member.classic.supported_protocols),
        Timer(ClassicTimer.SESSION, group.partition, group.group_id, member.member_id),
    )


def embedded_assignment(partitions: Partitions, subscription: bytes, topics: TopicCatalogue) -> bytes:
    """Encode an assignment for the classic protocol, in the version of the member's subscription."""
    topic_partitions = [
        TopicPartition(name, sorted(owned))
        for topic, owned in partitions.items()
        if (name := topics.topic_name(topic)) is not None
    ]
    version = min(int.from_bytes(subscription[:2], "big"), 3)
    return assignment_to_bytes(ConsumerProtocolAssignment(topic_partitions), version)
