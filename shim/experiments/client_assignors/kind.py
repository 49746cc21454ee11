"""Consumer group with target assignments that its members may compute, as a kind: it replaces the consumer group.

Its rules are those of consumer groups, and the three of its own APIs.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kafka_shim.experiments.client_assignors import delegation
from kafka_shim.experiments.client_assignors.group import ClientAssignedGroup, TimerKind
from kafka_shim.experiments.client_assignors.heartbeat import check_request, heartbeat
from kafka_shim.experiments.client_assignors.install import install, prepare
from kafka_shim.experiments.client_assignors.messages import (
    ClientAssignorHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
)
from kafka_shim.groups.consumer.kind import KIND as CONSUMER
from kafka_shim.groups.consumer.kind import RULES as CONSUMER_RULES
from kafka_shim.groups.consumer.kind import heartbeat_row
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Row

RULES: Final = CONSUMER_RULES._replace(timers={**CONSUMER_RULES.timers, TimerKind.DELEGATION: delegation.time_out})


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    if isinstance(request, ClientAssignorHeartbeatRequest):
        return heartbeat_row(group, request)
    return CONSUMER.row_of(group, request, member_id_required=member_id_required)


KIND: Final = CONSUMER._replace(
    make=partial(ClientAssignedGroup, rules=RULES),
    rules={
        **CONSUMER.rules,
        ClientAssignorHeartbeatRequest: heartbeat,
        ConsumerGroupPrepareAssignmentRequest: prepare,
        ConsumerGroupInstallAssignmentRequest: install,
    },
    checks={**CONSUMER.checks, ClientAssignorHeartbeatRequest: check_request},
    row_of=_row_of,
)
