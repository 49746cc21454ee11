"""What is shown of a classic group: DescribeGroups, and the description for people and tests.

Decides nothing else. Source: semantics 2.11.
"""

from __future__ import annotations

from kafka_shim.apis.consumer_protocol import assignment_from_bytes, subscription_from_bytes
from kafka_shim.apis.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_shim.groups.classic.group import CONSUMER, ClassicGroup
from kafka_shim.groups.classic.member import Member
from kafka_shim.groups.classic.records import find
from kafka_shim.groups.classic.states import ERRORS, RULES, Rule, State, Trigger
from kafka_shim.groups.group import GroupDescription, MemberDescription, Subscription
from kafka_shim.groups.shard import Shard


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """The group and its members. One that is not there is Dead, with GROUP_ID_NOT_FOUND (69) as v6 has it."""
    shard.outbox.touch(shard)
    group = find(shard, group_id)
    rule = Rule.SHOW_DEAD if group is None else RULES[Trigger.DESCRIBE][group.state]
    if group is None or rule is Rule.SHOW_DEAD:
        is_other = group is None and group_id in shard.groups
        return DescribedGroup(
            error_code=ERRORS[Rule.SHOW_DEAD],
            error_message=f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found.",
            group_id=group_id,
            group_state=State.DEAD,
        )
    # Until the group is Stable the protocol is still being agreed on, so it is not shown.
    protocol = group.protocol if rule is Rule.SHOW_STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol is None else member.metadata_for(protocol),
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def description(group: ClassicGroup) -> GroupDescription:
    """The group for people and tests."""
    round_, options = group.round, group.options
    return GroupDescription(
        type=group.type,
        group_id=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol,
        generation=group.generation,
        leader=group.leader,
        cause=None if round_ is None else round_.cause.value,
        trigger="" if round_ is None else round_.trigger,
        dropped=[] if round_ is None else list(round_.dropped),
        members=[_member(group, member) for member in group.members.values()],
        pending_members=sorted(group.pending),
        ephemeral=group.is_ephemeral,
        heartbeat_bound_ms=None if options is None else options.heartbeat_bound_ms,
    )


def _member(group: ClassicGroup, member: Member) -> MemberDescription:
    is_consumer = group.protocol_type == CONSUMER
    return MemberDescription(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=[name for name, _ in member.protocols],
        parked="join" if member.join_exchange is not None else "sync" if member.sync_exchange is not None else None,
        subscription=_subscription(member.metadata_for(group.protocol)) if is_consumer else None,
        assignment=_assignment(member.assignment) if is_consumer else None,
        has_assignment=group.state is State.STABLE and member.member_id not in group.pending_sync,
    )


def _subscription(data: bytes) -> Subscription | None:
    decoded = subscription_from_bytes(data)
    if decoded is None:
        return None
    return Subscription(
        topics=sorted(decoded.topics),
        owned_partitions={each.topic: sorted(each.partitions) for each in decoded.owned_partitions},
        generation=decoded.generation_id,
        rack=decoded.rack_id,
        user_data_bytes=len(decoded.user_data or b""),
    )


def _assignment(data: bytes) -> dict[str, list[int]] | None:
    decoded = assignment_from_bytes(data)
    if decoded is None:
        return None
    return {each.topic: sorted(each.partitions) for each in decoded.assigned_partitions}
