"""Which row of the table in `states.py` a request is about: its trigger, from what it says and who sent it.

Decides nothing else: the state gives the column, and the rule found there is carried out elsewhere. The rules ask here,
and so does whoever shows which row has answered. The order of the questions is Kafka's (semantics 2.2, 2.3).
"""

from __future__ import annotations

from typing import Any

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest
from kafka_shim.apis.leave_group import LeaveGroupRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest
from kafka_shim.apis.sync_group import SyncGroupRequest
from kafka_shim.apis.txn_offset_commit import TxnOffsetCommitRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic.group import ClassicGroup, trigger_of_commit, trigger_of_commit_in_transaction
from kafka_shim.groups.classic.member import Protocols
from kafka_shim.groups.classic.states import Trigger


def trigger_of_join(
    group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols, max_size: int, *, member_id_required: bool
) -> Trigger:
    """Which kind of JoinGroup it is. `max_size` is group.max.size; `member_id_required`: v4+ (KIP-394)."""
    member_id, instance_id = request.member_id, request.group_instance_id
    if not group.has_room(member_id, max_size):
        return Trigger.JOIN_NO_ROOM
    if not group.supports(request.protocol_type, [name for name, _ in protocols]):
        return Trigger.JOIN_UNSUPPORTED
    if not member_id:
        if instance_id is not None:
            return Trigger.JOIN_TAKE_OVER if instance_id in group.static else Trigger.JOIN_NEW_STATIC
        return Trigger.JOIN_NEW_ID_REQUIRED if member_id_required else Trigger.JOIN_NEW
    if member_id in group.pending:
        return Trigger.JOIN_PENDING if instance_id is None else Trigger.JOIN_PENDING_STATIC
    error = group.check_member(member_id, instance_id)
    if error:
        return Trigger.JOIN_FENCED if error is ErrorCode.FENCED_INSTANCE_ID else Trigger.JOIN_UNKNOWN
    if group.members[member_id].protocols != protocols:
        return Trigger.JOIN_CHANGED
    return Trigger.JOIN_LEADER if group.leader == member_id else Trigger.JOIN_SAME


def trigger_of_sync(group: ClassicGroup, request: SyncGroupRequest) -> Trigger:
    """Whether it is the leader's SyncGroup."""
    return Trigger.SYNC_LEADER if group.leader == request.member_id else Trigger.SYNC_FOLLOWER


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols of a JoinGroup as members keep them."""
    return tuple([(protocol.name, protocol.metadata) for protocol in request.protocols])


def trigger_of(group: ClassicGroup, request: Any, max_size: int, *, member_id_required: bool) -> Trigger | None:
    """The trigger that a request is for this group; None if no row of the table is about it."""
    if isinstance(request, JoinGroupRequest):
        protocols = protocols_of(request)
        return trigger_of_join(group, request, protocols, max_size, member_id_required=member_id_required)
    if isinstance(request, SyncGroupRequest):
        return trigger_of_sync(group, request)
    if isinstance(request, HeartbeatRequest):
        return Trigger.HEARTBEAT
    if isinstance(request, LeaveGroupRequest):
        return Trigger.LEAVE
    if isinstance(request, OffsetCommitRequest):
        return trigger_of_commit(request.generation_id_or_member_epoch)
    if isinstance(request, TxnOffsetCommitRequest):
        return trigger_of_commit_in_transaction(request.member_id, request.group_instance_id, request.generation_id)
    return None
