"""Who may commit and fetch offsets of a streams group.

Decides by members and their epochs. A commit of an older epoch is accepted for tasks that the member had at that epoch
already, so that a commit under way is not lost to a rebalance. Source: semantics 3.1 to 3.3; Kafka's
`StreamsGroup.validateOffsetCommit` and `createAssignmentEpochValidator` of 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.streams.group import StreamsGroupState


def check_commit(group: StreamsGroupState, member_id: str, epoch: int, *, member_epochs: bool) -> ErrorCode:
    """NONE, UNKNOWN_MEMBER_ID (25), UNSUPPORTED_VERSION (35) in a version before 9, or STALE_MEMBER_EPOCH (113)."""
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def check_commit_in_transaction(
    group: StreamsGroupState, member_id: str, instance_id: str | None, epoch: int
) -> ErrorCode:
    """NONE, UNKNOWN_MEMBER_ID (25) or ILLEGAL_GENERATION (22); a producer need not say for whom it commits."""
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if epoch == -1 and not member_id and instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.ILLEGAL_GENERATION


def allows_late_commit(
    group: StreamsGroupState, member_id: str, epoch: int, partitions: Iterable[tuple[str, int]]
) -> bool:
    """Whether a commit at an older epoch is of tasks alone that the member was assigned at that epoch or before, and
    has still or is yet to give up."""
    member = group.members.get(member_id)
    if member is None or group.topology is None or epoch > member.epoch:
        return False
    for topic, partition in partitions:
        subtopology = group.topology.by_source.get(topic)
        if subtopology is None:
            return False
        has, gives_up = (tasks.active.get(subtopology, {}) for tasks in (member.assigned, member.pending_revocation))
        assignment_epoch = has.get(partition, gives_up.get(partition))
        if assignment_epoch is None or epoch < assignment_epoch:
            return False
    return True


def check_fetch(group: StreamsGroupState, member_id: str | None, epoch: int) -> ErrorCode:
    """NONE, UNKNOWN_MEMBER_ID (25) or STALE_MEMBER_EPOCH (113)."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH
