"""Members of a streams group that leave, are fenced, or are removed; all of it ends in a new group epoch.

Decides what goes with a member: its records and timers. The target assignment is not computed here but at the next
heartbeat of somebody, or when the delay of the first one is over. After Kafka's `streamsGroupLeave`,
`streamsGroupFenceMember` and `computeDelayedTargetAssignment` (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.streams import events, records
from kafka_shim.groups.streams.live import StreamsGroup
from kafka_shim.groups.streams.member import Member
from kafka_shim.groups.streams.sessions import forget
from kafka_shim.groups.streams.states import GroupState
from kafka_shim.groups.streams.target import compute


def leave(shard: Shard, request: StreamsGroupHeartbeatRequest, now: float) -> StreamsGroupHeartbeatResponse:
    """The answer to a heartbeat with member epoch -1. Raises `Refusal`: 25 or 69."""
    group_id, member_id = request.group_id, request.member_id
    group = shard.groups.get(group_id)
    if not isinstance(group, StreamsGroup):
        sentence = f"Group {group_id} is not a streams group." if group else f"Group {group_id} not found."
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, sentence)
    if request.shutdown_application and group.shutdown_by is None:
        group.shutdown_by = member_id
    member = group.members.get(member_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")
    fence(group, [member], Cause.MEMBER_LEFT, "left")
    return StreamsGroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch, status=[])


def fence(group: StreamsGroup, members: Sequence[Member], cause: Cause, change: str) -> None:
    """Remove members: nobody hears of it but by the error of their next request. `change` is for the trace."""
    if not members:
        return
    shard, group_id = group.shard, group.group_id
    before = group.state if shard.outbox.listening else GroupState.EMPTY
    for member in members:
        for key, value in records.member_gone(group_id, member.member_id):
            shard.write(key, value)
        forget(group, member.member_id)
    epoch = records.epoch(group_id, group.group_epoch + 1, group.metadata_hash, group.validated_epoch, group.configs)
    shard.write(*epoch)
    if not group.members:
        group.shutdown_by = None
    group.began(cause, members[0].member_id)
    shard.counters.rebalances[cause] += 1
    if shard.outbox.listening:
        for member in members:
            events.member(group, member, change)
        events.epoch(group)
        events.state(group, before)


def session_timeout(group: StreamsGroup, member_id: str, now: float) -> None:
    """A member was silent for too long."""
    fence(group, [group.members[member_id]], Cause.SESSION_EXPIRED, "expired")


def rebalance_timeout(group: StreamsGroup, member_id: str, now: float) -> None:
    """A member had time to give up tasks; one that has another epoch now did so."""
    member = group.members[member_id]
    if member.epoch == group.rebalance_epochs.get(member_id):
        fence(group, [member], Cause.REBALANCE_TIMEOUT, "removed")


def end_of_delay(group: StreamsGroup, member_id: str, now: float) -> None:
    """The first assignment has waited long enough. Without a second heartbeat the topology is not known to memory yet:
    then the next one computes it, as in Kafka."""
    if not group.members or group.configured is None or group.group_epoch <= group.target_epoch:
        return
    before = group.state
    target = compute(group, None, group.configured, group.group_epoch, group.configs)
    for key, value in target.records:
        group.shard.write(key, value)
    if group.shard.outbox.listening:
        events.target(group, target)
        events.state(group, before)
