"""Topology descriptions of streams groups (KIP-1331), as the plugin of Kafka that keeps them in memory has them.

A member describes the topology of its application once the answer to a heartbeat asks for it. The record of the group
has the epoch of the description alone; the description is lost with the process, as in Kafka. Since Kafka 4.4. After
`StreamsGroupTopologyDescriptionManager` and `InMemoryTopologyDescriptionPlugin` (semantics 4.10).
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.streams_group_heartbeat import StatusCode
from kafka_shim.apis.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.epochs.requests import find, not_a_member
from kafka_shim.groups.interface import Refusal
from kafka_shim.groups.shard import NodeParts, Shard
from kafka_shim.groups.streams.group import NODE_TYPES, Solicitation, StreamsGroup

FIRST_PAUSE_S: Final = 30.0
LONGEST_PAUSE_S: Final = 3600.0


def check_request(request: StreamsGroupTopologyDescriptionUpdateRequest, parts: NodeParts) -> None:
    """Check the request alone. Raises `Refusal`: UNSUPPORTED_VERSION (35) without the plugin, INVALID_REQUEST (42)."""
    if not parts.config.group_streams_topology_description_plugin_class:
        raise Refusal(
            ErrorCode.UNSUPPORTED_VERSION, "The broker has no streams group topology description plugin configured."
        )
    for name, value in (("MemberId", request.member_id), ("GroupId", request.group_id)):
        if not value.strip():
            raise _invalid(f"{name} can't be empty.")


def update(
    shard: Shard, request: StreamsGroupTopologyDescriptionUpdateRequest
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Keep a description. Any member may send it, also again.

    Errors: UNKNOWN_MEMBER_ID (25), INVALID_REQUEST (42), GROUP_ID_NOT_FOUND (69).
    """
    try:
        group = find(shard, request.group_id, StreamsGroup)
        if request.member_id not in group.members:
            raise not_a_member(request.member_id, request.group_id)
        current = -1 if group.topology is None else group.topology.epoch
        if request.topology_epoch != current:
            raise _invalid(
                f"Topology epoch {request.topology_epoch} does not match the group's current topology epoch {current}."
            )
        description = request.topology_description
        nodes = [node for each in description.subtopologies for node in each.nodes]
        nodes += [node for each in description.global_stores for node in (each.source, each.processor)]
        for node in nodes:
            if node.node_type not in NODE_TYPES:
                raise _invalid(f"Unknown topology node type: {node.node_type}")
    except Refusal as refusal:
        shard.outbox.touch(shard)
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=refusal.code, error_message=refusal.message)
    group.store_description(request.topology_epoch, description)
    return StreamsGroupTopologyDescriptionUpdateResponse()


def is_required(shard: Shard, group_id: str, statuses: set[int], now: float) -> bool:
    """Return True if a member has to describe its topology after this heartbeat. One member is told so; the next one
    after a pause that doubles each time."""
    group = shard.groups.get(group_id)
    if not isinstance(group, StreamsGroup) or group.topology is None or StatusCode.STALE_TOPOLOGY in statuses:
        return False
    epoch = group.topology.epoch
    if not shard.config.group_streams_topology_description_plugin_class or epoch in group.description_epochs:
        return False
    last = group.solicitation
    pause_s = FIRST_PAUSE_S
    if last is not None and last.topology_epoch == epoch:
        if now < last.end:
            return False
        pause_s = min(2 * last.pause_s, LONGEST_PAUSE_S)
    group.solicitation = Solicitation(epoch, now + pause_s, pause_s)
    return True


def _invalid(sentence: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, sentence)
