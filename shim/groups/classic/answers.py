"""Answers to JoinGroup and SyncGroup that several rules give.

Decides only which fields an answer has; the rules decide when it is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_shim.apis.join_group import JoinGroupResponse, JoinGroupResponseMember
from kafka_shim.apis.sync_group import SyncGroupResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic.group import ClassicGroup


def join_refused(error: ErrorCode, member_id: str) -> JoinGroupResponse:
    """A JoinGroup answered with an error (semantics 2.2)."""
    return JoinGroupResponse(error_code=error, protocol_name=None, member_id=member_id)


def joined(
    group: ClassicGroup,
    member_id: str,
    members: Sequence[JoinGroupResponseMember] = (),
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """The group's current generation; `leader` where another than the group's is to be named."""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=leader or group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=list(members),
    )


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    """A SyncGroup answered with an error."""
    return SyncGroupResponse(error_code=error)


def synced(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """A member's assignment in the current generation."""
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)
