"""Requests without effect, one per API that cases use, to learn which advertised versions the target serves."""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.leave_group import LeaveGroupRequest
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest
from kafka_shim.apis.offset_delete import OffsetDeleteRequest
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kafka_shim.apis.sync_group import SyncGroupRequest
from kafka_shim.apis.wire import Message
from kafka_shim.conformance.member import subscription

GROUP_KEYS: Final = (8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47)


def probe_request(key: int, version: int, group: str) -> Message:
    """Return a request without effect for Metadata (3) or a group API."""
    protocols = [JoinGroupRequestProtocol("range", subscription())]
    requests: dict[int, Message] = {
        3: MetadataRequest([]),
        8: OffsetCommitRequest(group),
        # With a group: Kafka 3.9 never answers a request without one.
        9: OffsetFetchRequest(group, [])
        if version <= 7
        else OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[])]),
        10: FindCoordinatorRequest(group) if version <= 3 else FindCoordinatorRequest(coordinator_keys=[group]),
        11: JoinGroupRequest(group, 10_000, 10_000, "nobody", None, "consumer", protocols),
        12: HeartbeatRequest(group, 1, "nobody"),
        13: LeaveGroupRequest(group, "nobody") if version <= 2 else LeaveGroupRequest(group),
        14: SyncGroupRequest(group, 1, "nobody", None, "consumer", "range"),
        15: DescribeGroupsRequest([group]),
        16: ListGroupsRequest(),
        42: DeleteGroupsRequest([]),
        47: OffsetDeleteRequest(group),
    }
    return requests[key]
