"""Members that leave, are fenced, or are removed; all of it ends in a new group epoch.

Decides who may leave, and what goes with a member: its records and timers, and patterns nobody else subscribes by. The
target assignment is not computed here but at the next heartbeat of somebody. After Kafka's `consumerGroupLeave` and
`consumerGroupFenceMembers` (semantics 4.7).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import NO_PARTITIONS
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.consumer import events, records
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.migration import downgrade, may_downgrade
from kafka_shim.groups.consumer.records import Record
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.sessions import forget
from kafka_shim.groups.consumer.states import LEAVE_STATIC, GroupState
from kafka_shim.groups.shard import Shard


def leave(shard: Shard, request: ConsumerGroupHeartbeatRequest, now: float) -> ConsumerGroupHeartbeatResponse:
    """The answer to a heartbeat with member epoch -1 or -2. Raises `Refusal`: -1, 25, 69 or 82."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        kind = f"Group {request.group_id} is not a consumer group." if group else f"Group {request.group_id} not found."
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, kind)
    answer = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.instance_id is None:
        member = group.members.get(request.member_id)
        if member is None:
            raise Refusal(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {request.member_id} is not a member of group {group.group_id}."
            )
    else:
        member = static_member(group, request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_STATIC:
            leave_for_a_while(group, member)
            return answer
    fence(group, [member], Cause.MEMBER_LEFT, "left", now)
    return answer


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> Member:
    """The member with that instance id, which must be this one. Raises `Refusal`: 25 or 82."""
    member = group.static_member(instance_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    check_not_fenced(member, member_id, instance_id)
    return member


def check_not_fenced(holder: Member, member_id: str, instance_id: str) -> None:
    """FENCED_INSTANCE_ID (82) for whoever is not the member that has the instance id. Raises `Refusal`."""
    if holder.member_id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
        )


def leave_for_a_while(group: ConsumerGroup, member: Member) -> None:
    """A static member goes and keeps its partitions until it is back, or its session ends, which runs on."""
    before = group.state if group.shard.outbox.listening else GroupState.EMPTY
    away = replace(member, epoch=LEAVE_STATIC, pending_revocation=NO_PARTITIONS)
    group.shard.write(*records.current_assignment(group.group_id, away))
    if group.shard.outbox.listening:
        events.reconciliation(group, away)
        events.state(group, before)


def fence(group: ConsumerGroup, members: Sequence[Member], cause: Cause, change: str, now: float) -> None:
    """Remove members: nobody hears of it but by the error of their next request. `change` is for the trace.

    Raises `Refusal`: -1, where the group cannot become a classic one without them.
    """
    if not members:
        return
    if may_downgrade(group, members):
        downgrade(group, members, None, now, change=change, rebalances=True)
        return
    shard = group.shard
    before = group.state if shard.outbox.listening else GroupState.EMPTY
    group_id = group.group_id
    written: list[Record] = []
    for member in members:
        written += records.member_gone(group_id, member.member_id)
    patterns = Counter(member.regex for member in members if member.regex is not None)
    written += (
        records.regex_gone(group_id, pattern)
        for pattern, count in patterns.items()
        if group.subscriptions.patterns[pattern] == count
    )
    found_hash = group.specs.metadata_hash(group.subscriptions.topics(gone=members))
    written.append(records.epoch(group_id, group.group_epoch + 1, found_hash))
    for key, value in written:
        shard.write(key, value)
    for member in members:
        forget(group, member.member_id)
    group.began(cause, members[0].member_id)
    if shard.outbox.listening:
        for member in members:
            events.member(group, member, change)
        events.epoch(group)
        events.state(group, before)


def session_timeout(group: ConsumerGroup, member_id: str, now: float) -> None:
    """A member was silent for too long."""
    fence(group, [group.members[member_id]], Cause.SESSION_EXPIRED, "expired", now)


def rebalance_timeout(group: ConsumerGroup, member_id: str, now: float) -> None:
    """A member had time to give up partitions; one that has another epoch now did so."""
    member = group.members[member_id]
    if member.epoch == group.rebalance_epochs.get(member_id):
        fence(group, [member], Cause.REBALANCE_TIMEOUT, "removed", now)


def join_timeout(group: ConsumerGroup, member_id: str, now: float) -> None:
    """A classic member did not join again after REBALANCE_IN_PROGRESS (27)."""
    fence(group, [group.members[member_id]], Cause.REBALANCE_TIMEOUT, "removed", now)


def sync_timeout(group: ConsumerGroup, member_id: str, now: float) -> None:
    """A classic member did not fetch its assignment."""
    fence(group, [group.members[member_id]], Cause.PENDING_SYNC_EXPIRED, "removed", now)
