"""Online migration: a classic group with members becomes a consumer group, and one of classic members alone goes back.

Decides when that may be, by `group.consumer.migration.policy`, and what becomes of members, epochs and assignments. It
is the one module of this kind that knows another. After Kafka's `convertToConsumerGroup`, `convertToClassicGroup` and
their validations of 4.2 (semantics 4.8).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
from kafka_shim.groups.consumer import events, records
from kafka_shim.groups.consumer.embedded import embedded_assignment
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.records import Record, group_gone
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.subscriptions import metadata_hash
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import ClassicMemberMetadata, ClassicProtocol, GroupMetadataKey

# Upgrade


def upgraded(shard: Shard, classic: ClassicGroup) -> tuple[ConsumerGroup, list[Record]]:
    """The consumer group that the classic one would be, not in the shard yet, and the records that make it.

    Everybody keeps what it has, and the generation becomes the epoch of all. Raises `Refusal`: GROUP_ID_NOT_FOUND (69),
    or UNKNOWN_SERVER_ERROR (-1) before the first generation, as Kafka does.
    """
    _check_upgrade(shard, classic)
    # Kafka does so first, whether or not the group can be converted then, or the member be let in.
    call_back(shard, classic)
    if classic.protocol is None:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Group {classic.group_id} has no generation yet.")
    group_id, generation = classic.group_id, classic.generation
    members = [_converted(shard, classic, member) for member in classic.members.values()]
    topics = {name for member in members for name in member.topic_names}
    made: list[Record] = [
        *(records.member_metadata(group_id, member) for member in members),
        records.epoch(group_id, generation, metadata_hash(topics, shard.topics)),
        *(records.target_assignment(group_id, member.member_id, member.assigned) for member in members),
        records.target_epoch(group_id, generation),
        *(records.current_assignment(group_id, member) for member in members),
    ]
    group = ConsumerGroup(group_id, shard)
    for key, value in made:
        group.replay(key, value)
    return group, made


def _check_upgrade(shard: Shard, classic: ClassicGroup) -> None:
    if shard.config.group_consumer_migration_policy not in ("upgrade", "bidirectional"):
        why = "online upgrade is disabled"
    elif classic.protocol_type != CONSUMER:
        why = "the group does not use the consumer embedded protocol"
    elif classic.size > shard.config.group_consumer_max_size:
        why = "the group size exceeds the consumer group maximum size"
    else:
        return
    raise _not_upgraded(classic, f"because {why}")


def _not_upgraded(classic: ClassicGroup, why: str) -> Refusal:
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {classic.group_id} to consumer group {why}."
    )


def _converted(shard: Shard, classic: ClassicGroup, member: ClassicMember) -> Member:
    """A classic member with what it has."""
    subscription = subscription_from_bytes(member.metadata_for(classic.protocol))
    assigned: Partitions = NO_PARTITIONS
    malformed = subscription is None
    if member.assignment:
        assignment = assignment_from_bytes(member.assignment)
        if assignment is None:
            malformed = True
        elif assignment.user_data:
            raise _not_upgraded(classic, "because an unsupported custom assignor is in use")
        else:
            owned = ((shard.topics.topic_id(each.topic), each.partitions) for each in assignment.assigned_partitions)
            assigned = {topic: frozenset(numbers) for topic, numbers in owned if topic is not None and numbers}
    if malformed or subscription is None:
        raise _not_upgraded(classic, "because the embedded consumer protocol is malformed")
    return Member(
        member.member_id,
        epoch=classic.generation,
        previous_epoch=classic.generation,
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
    go, for the trace.
    """
    shard, group_id = group.shard, group.group_id
    gone = {member.member_id for member in going}
    heirs = [(member, member.member_id) for member in group.members.values() if member.member_id not in gone]
    if joining is not None:
        heirs.append((joining, going[0].member_id))
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
