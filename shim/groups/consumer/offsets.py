"""Who may commit and fetch offsets of a consumer group.

Decides by members and their epochs. Source: semantics 3.1 to 3.3; Kafka's `ConsumerGroup.validateOffsetCommit`.
"""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.consumer.group import ConsumerGroupState
from kafka_shim.groups.consumer.member import Member


def check_commit(group: ConsumerGroupState, member_id: str, epoch: int, *, member_epochs: bool) -> ErrorCode:
    """NONE, UNKNOWN_MEMBER_ID (25), UNSUPPORTED_VERSION (35) for a member with its epoch in a version before 9,
    ILLEGAL_GENERATION (22) or STALE_MEMBER_EPOCH (113)."""
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and not member_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    return _check_epoch(member, epoch)


def check_commit_in_transaction(
    group: ConsumerGroupState, member_id: str, instance_id: str | None, epoch: int
) -> ErrorCode:
    """NONE, UNKNOWN_MEMBER_ID (25) or ILLEGAL_GENERATION (22); a producer need not say for whom it commits."""
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if epoch == -1 and not member_id and instance_id is None:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.ILLEGAL_GENERATION if _check_epoch(member, epoch) else ErrorCode.NONE


def check_fetch(group: ConsumerGroupState, member_id: str | None, epoch: int) -> ErrorCode:
    """NONE, UNKNOWN_MEMBER_ID (25), ILLEGAL_GENERATION (22) or STALE_MEMBER_EPOCH (113)."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = None if member_id is None else group.members.get(member_id)
    return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _check_epoch(member, epoch)


def _check_epoch(member: Member, epoch: int) -> ErrorCode:
    """To a classic member its epoch is a generation."""
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
