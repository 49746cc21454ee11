"""A consumer group whose members may compute its target assignment, in the place of the consumer group among the kinds.

Decides which rules its requests go to: those of consumer groups, and the three of its own APIs.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.experimental.client_assignor_heartbeat import ClientAssignorHeartbeatRequest
from kafka_shim.apis.experimental.consumer_group_install_assignment import ConsumerGroupInstallAssignmentRequest
from kafka_shim.apis.experimental.consumer_group_prepare_assignment import ConsumerGroupPrepareAssignmentRequest
from kafka_shim.groups.client_assignors import delegation
from kafka_shim.groups.client_assignors.group import ClientAssignedGroup, TimerKind
from kafka_shim.groups.client_assignors.heartbeat import heartbeat
from kafka_shim.groups.client_assignors.install import install, prepare
from kafka_shim.groups.consumer.kind import KIND as CONSUMER
from kafka_shim.groups.consumer.kind import heartbeat_row
from kafka_shim.groups.group import Group
from kafka_shim.groups.rows import Row
from kafka_shim.groups.timers import Timer


class ClientAssigned(ClientAssignedGroup):
    """Implements `Group`."""

    __slots__ = ()

    def fire(self, timer: Timer, now: float) -> None:
        if timer.kind is TimerKind.DELEGATION:
            delegation.time_out(self)
        else:
            super().fire(timer, now)


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    if isinstance(request, ClientAssignorHeartbeatRequest):
        return heartbeat_row(group, request)
    return CONSUMER.row_of(group, request, member_id_required=member_id_required)


KIND: Final = CONSUMER._replace(
    make=ClientAssigned,
    rules={
        **CONSUMER.rules,
        ClientAssignorHeartbeatRequest: heartbeat,
        ConsumerGroupPrepareAssignmentRequest: prepare,
        ConsumerGroupInstallAssignmentRequest: install,
    },
    row_of=_row_of,
)
