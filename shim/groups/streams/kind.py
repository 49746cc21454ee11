"""Streams groups as a kind of group: the rule for each request, and the rows of its state table."""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.streams_group_describe import StreamsGroupDescribeRequest
from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_shim.apis.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from kafka_shim.groups.epochs.requests import row_of_heartbeat
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Row, steps_row
from kafka_shim.groups.shard import Kind
from kafka_shim.groups.streams import descriptions
from kafka_shim.groups.streams.describe import describe
from kafka_shim.groups.streams.group import StreamsGroup
from kafka_shim.groups.streams.heartbeat import check_request, heartbeat
from kafka_shim.groups.streams.records import CLASSES
from kafka_shim.groups.streams.states import STEPS, GroupState, MemberState

_ROWS: Final = {state: steps_row("a member of a streams group", state, STEPS) for state in MemberState}


def _row_of(group: Group | None, request: Any, *, member_id_required: bool) -> Row | None:
    """Return the row of `states.STEPS` for the member of a heartbeat."""
    if not isinstance(group, StreamsGroup | None) or not isinstance(request, StreamsGroupHeartbeatRequest):
        return None
    member = None if group is None else group.members.get(request.member_id)
    return row_of_heartbeat(member, request.member_epoch, _ROWS, MemberState.STABLE)


KIND: Final = Kind(
    name=StreamsGroup.type,
    states=GroupState,
    make=StreamsGroup,
    records=CLASSES.keys,
    rules={
        StreamsGroupHeartbeatRequest: heartbeat,
        StreamsGroupDescribeRequest: describe,
        StreamsGroupTopologyDescriptionUpdateRequest: descriptions.update,
    },
    checks={
        StreamsGroupHeartbeatRequest: check_request,
        StreamsGroupTopologyDescriptionUpdateRequest: descriptions.check_request,
    },
    row_of=_row_of,
)
