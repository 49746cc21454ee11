"""Online migration: a classic group with members becomes a consumer group, and one of classic members alone goes back.

Decides when that may be, by `group.consumer.migration.policy`, and what becomes of members, epochs and assignments. It
is the one module of this kind that knows another. After Kafka's `convertToConsumerGroup`, `convertToClassicGroup` and
their validations of 4.2 (semantics 4.8).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kafka_shim.apis.consumer_protocol import assignment_from_bytes, subscription_from_bytes
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events as group_events
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic import rebalance
from kafka_shim.groups.classic.answers import join_refused, sync_refused
from kafka_shim.groups.classic.group import CONSUMER, ClassicGroup
from kafka_shim.groups.classic.member import Member as ClassicMember
from kafka_shim.groups.classic.sessions import wake
from kafka_shim.groups.classic.states import RULES, State, Trigger
from kafka_shim.groups.classic.timers import TimerKind as ClassicTimer
from kafka_shim.groups.consumer import events, offload, records
from kafka_shim.groups.consumer.draft import ClassicMemberView, ClassicView, Draft, new_group, view_of
from kafka_shim.groups.consumer.embedded import embedded_assignment
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.records import Record, group_gone
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.topic_hash import group_hash, topic_hash
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import ClassicMemberMetadata, ClassicProtocol, GroupMetadataKey

MANY_MEMBERS: Final = 100
"""A classic group of so many members is converted elsewhere: a hundred take some 10 ms."""

# Upgrade


def drafted(shard: Shard, group_id: str, classic: ClassicGroup | None) -> Draft:
    """The consumer group that a first member finds: without members, or with those of the classic group.

    Everybody keeps what it has, and the generation becomes the epoch of all. Raises `Refusal`: GROUP_ID_NOT_FOUND (69),
    or UNKNOWN_SERVER_ERROR (-1) before the first generation, as Kafka does; `Offloaded`, where there are many members.
    """
    has_members = classic is not None and classic.state is not State.EMPTY
    if classic is not None and has_members:
        _check_upgrade(shard, classic)
        # Kafka does so first, whether or not the group can be converted then, or the member be let in.
        call_back(shard, classic)
        if classic.protocol is None:
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Group {group_id} has no generation yet.")
    computed = shard.computed
    draft = computed.draft if isinstance(computed, offload.LineComputation) else None
    if draft is not None and draft.stands():
        return draft
    view = None if classic is None else view_of(classic)
    if classic is None or view is None or not has_members:
        return Draft(new_group(shard, group_id), classic, view)
    if isinstance(computed, Conversion) and computed.view == view:
        return computed.outcome()
    conversion = Conversion(shard, classic, view)
    if shard.outbox.offloads and len(view.members) >= MANY_MEMBERS:
        raise offload.Offloaded(conversion)
    conversion.result = conversion.compute()
    return conversion.outcome()


class Conversion(offload.LineComputation):
    """The draft of a classic group with members, or the refusal of it."""

    def __init__(self, shard: Shard, classic: ClassicGroup, view: ClassicView) -> None:
        super().__init__(shard, classic.group_id)
        self.view = view
        self._classic = classic
        topics = shard.topics
        self._topics = {name: topics.topic_id(name) or b"" for name in topics.names()}
        self._counts = {name: topics.partitions_of(name) for name in self._topics}

    @property
    def draft(self) -> Draft | None:
        return self.result if isinstance(self.result, Draft) else None

    def outcome(self) -> Draft:
        """The draft. Raises `Refusal`, and what else went wrong."""
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
        group_id, generation, view = self.group_id, self.view.generation, self.view
        members = [_converted(group_id, view, member, self._topics) for member in view.members]
        names = {name for member in members for name in member.topic_names}
        there = names & self._topics.keys()
        hashes = [(name, topic_hash(self._topics[name], name, self._counts[name])) for name in there]
        made: list[Record] = [
            *(records.member_metadata(group_id, member) for member in members),
            records.epoch(group_id, generation, group_hash(hashes)),
            *(records.target_assignment(group_id, member.member_id, member.assigned) for member in members),
            records.target_epoch(group_id, generation),
            *(records.current_assignment(group_id, member) for member in members),
        ]
        group = new_group(self.shard, group_id)
        for key, value in made:
            group.replay(key, value)
        return Draft(group, self._classic, view, made)


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
    """A classic member with what it has; `topics` are ids by name."""
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
    """Answer the parked requests of a classic group that is one no more: REBALANCE_IN_PROGRESS (27)."""
    for member in classic.members.values():
        exchange = classic.unpark_join(member)
        if exchange is not None:
            refusal = join_refused(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            shard.outbox.reply(exchange, refusal, shard)
        if member.sync_exchange is not None:
            shard.outbox.reply(member.sync_exchange, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS), shard)
            member.sync_exchange = None


# Downgrade


def may_downgrade(group: ConsumerGroup, going: Collection[Member], *, replaced: bool = False) -> bool:
    """Whether the group is to be a classic one without `going`, or with the last one replaced by a classic member."""
    left = group.size - (0 if replaced else len(going))
    classic_left = group.classic_members - sum(member.classic is not None for member in going)
    return (
        left > 0
        and classic_left == group.size - len(going)
        and (not replaced or any(member.classic is None for member in going))
        and group.shard.config.group_consumer_migration_policy in ("downgrade", "bidirectional")
        and left <= group.shard.config.group_max_size
    )


def downgrade(
    group: ConsumerGroup,
    going: Sequence[Member],
    joining: Member | None,
    now: float,
    *,
    change: str,
    rebalances: bool,
) -> None:
    """Make a classic group of those that stay, and of `joining`, which takes the place of the static one that goes.

    The group epoch becomes the generation, target assignments what members have. `change` is what becomes of those that
    go, for the trace. Raises `Refusal`: UNKNOWN_SERVER_ERROR (-1) where a member has no target assignment yet, since it
    joined without a topic; then nothing changes.
    """
    shard, group_id = group.shard, group.group_id
    gone = {member.member_id for member in going}
    heirs = [(member, member.member_id) for member in group.members.values() if member.member_id not in gone]
    if joining is not None:
        heirs.append((joining, going[0].member_id))
    if any(heir_of not in group.targets for _, heir_of in heirs):
        # Kafka's `ClassicGroup.fromConsumerGroup` finds null there.
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, None)
    made = ClassicGroup(group_id, group.partition)
    made.generation = group.group_epoch
    made.protocol_type = CONSUMER
    for member, _ in heirs:
        made.add(_classic_member(group, member), CONSUMER)
    made.leader = heirs[0][0].member_id
    made.protocol = made.select_protocol()
    assignments = {
        member.member_id: embedded_assignment(
            group.targets.get(heir_of, NO_PARTITIONS),
            made.members[member.member_id].metadata_for(made.protocol),
            shard.topics,
        )
        for member, heir_of in heirs
    }
    for key, value in group_gone(group):
        shard.write(key, value)
    shard.write(GroupMetadataKey(group_id), made.to_record(assignments, shard.wall_ms(now)))
    written = shard.groups[group_id]
    assert isinstance(written, ClassicGroup)
    for member_id, offered in made.members.items():
        restored = written.members[member_id]
        written.update(restored, offered.protocols, offered.rebalance_timeout_ms, offered.session_timeout_ms)
        wake(shard, restored, now)
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
