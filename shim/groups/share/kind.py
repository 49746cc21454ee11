"""The share group as one of the kinds of groups: each method of `Group`, by the rules beside this module.

Decides who may commit offsets: nobody, since a share group's progress is in its share states. After Kafka's
`ShareGroup` (semantics 4.13).
"""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.share_group_describe import ShareGroupDescribeRequest
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events as group_events
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.group import Expelled, Group, GroupDescription
from kafka_shim.groups.rows import Row, row
from kafka_shim.groups.shard import Kind, Shard
from kafka_shim.groups.share import offsets
from kafka_shim.groups.share.describe import describe, description
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.heartbeat import check_request, fence, heartbeat, session_timeout, situation_of, trigger_of
from kafka_shim.groups.share.initialize import drop_states, forget_deleted, restore
from kafka_shim.groups.share.records import ALL_KEYS, group_gone
from kafka_shim.groups.share.states import ERRORS, RULES, GroupState
from kafka_shim.groups.timers import Timer


class Share(ShareGroup):
    """Implements `Group`."""

    __slots__ = ()

    @property
    def is_simple(self) -> bool:
        return False

    # Life

    def activate(self, now: float) -> None:
        """Every member has its whole session to come back in. What became of topics meanwhile is seen at the next
        heartbeat."""
        if self.shard.outbox.listening:
            group_events.group(self.shard.outbox, self, "loaded")
        for member_id in self.members:
            self.shard.arm(self.session(member_id), now + self.session_timeout_ms / 1000)
        restore(self)

    def resign(self) -> None:
        self.shard.drop(self.group_id)
        if self.shard.outbox.listening:
            group_events.group(self.shard.outbox, self, "unloaded")

    def release(self) -> None:
        for timer in self.sessions.values():
            self.shard.cancel(timer)

    def fire(self, timer: Timer, now: float) -> None:
        session_timeout(self, timer.member_id)

    def topic_changed(self, topic: str, now: float) -> None:
        """The next heartbeat looks at the topics of the group again; share states in a deleted topic go at once."""
        self.metadata_stale |= topic in self.topic_names
        forget_deleted(self, {topic})

    # Members

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation: int, now: float) -> int:
        """A Heartbeat (12) finds no classic group: UNKNOWN_MEMBER_ID (25)."""
        return ErrorCode.UNKNOWN_MEMBER_ID

    def renew(self, member_id: str, now: float) -> None:
        """Nobody commits here."""

    def expel(self, now: float) -> list[Expelled]:
        members = list(self.members.values())
        expelled = [
            Expelled(member.member_id, None, None, self.session(member.member_id).deadline, 0.0) for member in members
        ]
        fence(self, members, Cause.ADMIN_REMOVED, "removed")
        return expelled

    # Who may

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """There are no offsets to be found, which is no error."""
        return ErrorCode.NONE

    def check_delete(self) -> ErrorCode:
        return ErrorCode.NON_EMPTY_GROUP if self.members else ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    # Offsets

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.topic_names

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        return None

    @property
    def is_disposable(self) -> bool:
        """A share group stays until it is deleted: it has its share states."""
        return False

    def erase(self) -> None:
        drop_states(self, set(self.initialized))
        for key, value in group_gone(self.group_id, self.members):
            self.shard.write(key, value)

    # What is shown

    def describe(self) -> GroupDescription:
        return description(self)


def _join(shard: Shard, request: JoinGroupRequest, *arguments: Any, **flags: Any) -> JoinGroupResponse:
    """A share group does not make room for a classic one, not even when it is Empty: INCONSISTENT_GROUP_PROTOCOL
    (23), without the member id."""
    return join_refused(JoinGroupRequest(group_id=request.group_id), ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    """A row of `states.RULES`; None for a heartbeat that is refused before (INVALID_REQUEST)."""
    if not isinstance(request, ShareGroupHeartbeatRequest):
        return None
    try:
        check_request(request)
    except Refusal:
        return None
    trigger, situation = trigger_of(request), situation_of(group, request)
    rule = RULES[trigger][situation]
    return row("a share group", trigger, RULES[trigger], situation, rule.value, int(ERRORS[rule]))


KIND: Final = Kind(
    name=ShareGroup.type,
    states=GroupState,
    make=Share,
    records=ALL_KEYS,
    rules={
        ShareGroupHeartbeatRequest: heartbeat,
        ShareGroupDescribeRequest: describe,
        AlterShareGroupOffsetsRequest: offsets.alter,
        DeleteShareGroupOffsetsRequest: offsets.delete,
        JoinGroupRequest: _join,
    },
    row_of=_row_of,
)
