"""The requests that Kafka 4.3 and 4.4 answer otherwise: ApiVersions 5, TxnOffsetCommit 6, ids of stored offsets,
share requests."""

from collections.abc import Callable
from typing import Any

import pytest

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
)
from kafka_shim.apis.initialize_share_group_state import PartitionData as StatePartition
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kafka_shim.apis.share_fetch import ShareFetchRequest, ShareFetchResponse
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_shim.apis.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from kafka_shim.apis.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.persistence.records import NO_TOPIC_ID, OffsetCommitValue
from tests.server.wire import Wire, cluster, request

UNKNOWN_ID = bytes(15) + b"\7"


@pytest.fixture
def wire() -> Wire:
    return Wire(cluster(topics={"t": 2}, release="4.4"))


def ask(wire: Wire, message: Message, version: int, kind: type[Any]) -> Any:
    wire.receive(request(message, version))
    return wire.answer(kind, version)[1]


def topic_id(wire: Wire) -> bytes:
    found = wire.cluster.topics.topic_id("t")
    assert found is not None
    return found


def stored(wire: Wire, group: str) -> dict[int, OffsetCommitValue]:
    (node,) = wire.cluster.nodes.values()
    by_topic = [shard.offsets.of(group).get("t", {}) for shard in node.groups.shards.values()]
    return {partition: value for by_partition in by_topic for partition, value in by_partition.items()}


OTHER: dict[str, Callable[[str, int], tuple[str | None, int, int]]] = {
    "right": lambda cluster_id, node: (cluster_id, node, E.NONE),
    "neither": lambda cluster_id, node: (None, -1, E.NONE),
    "only-cluster": lambda cluster_id, node: (cluster_id, -1, E.INVALID_REQUEST),
    "only-node": lambda cluster_id, node: (None, node, E.INVALID_REQUEST),
    "other-cluster": lambda cluster_id, node: ("x", node, E.REBOOTSTRAP_REQUIRED),
    "empty-cluster": lambda cluster_id, node: ("", node, E.REBOOTSTRAP_REQUIRED),
    "other-node": lambda cluster_id, node: (cluster_id, node + 1, E.REBOOTSTRAP_REQUIRED),
    "negative-node": lambda cluster_id, node: (cluster_id, -2, E.REBOOTSTRAP_REQUIRED),
}


@pytest.mark.parametrize("case", OTHER)
def test_a_connection_to_another_broker_has_to_bootstrap_again(wire: Wire, case: str) -> None:
    cluster_id, node_id, error = OTHER[case](wire.cluster.topics.cluster_id, 1)
    answer = ask(wire, ApiVersionsRequest("test", "1", cluster_id, node_id), 5, ApiVersionsResponse)
    assert (answer.error_code, bool(answer.api_keys)) == (error, error == E.NONE)


def test_malformed_software_comes_before_the_wrong_broker(wire: Wire) -> None:
    answer = ask(wire, ApiVersionsRequest("", "1", "x", 1), 5, ApiVersionsResponse)
    assert answer.error_code == E.INVALID_REQUEST


def commit(wire: Wire, version: int, group: str = "g", **fields: Any) -> dict[tuple[bytes, int], int]:
    """Commit offsets of partitions 0 and 5 of the topic, and of an unknown topic, in a transaction."""
    producer = ask(wire, InitProducerIdRequest("x", 60_000), 2, InitProducerIdResponse)
    partitions = [TxnOffsetCommitRequestPartition(number, 7, -1, "") for number in (0, 5)]
    topics = [
        TxnOffsetCommitRequestTopic("t", topic_id(wire), partitions),
        TxnOffsetCommitRequestTopic("nowhere", UNKNOWN_ID, partitions[:1]),
    ]
    message = TxnOffsetCommitRequest("x", group, producer.producer_id, producer.producer_epoch, **fields, topics=topics)
    answer = ask(wire, message, version, TxnOffsetCommitResponse)
    known = {"t": topic_id(wire), "nowhere": UNKNOWN_ID}
    return {
        (topic.topic_id if version >= 6 else known[topic.name], each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize(("version", "unknown"), [(5, E.UNKNOWN_TOPIC_OR_PARTITION), (6, E.UNKNOWN_TOPIC_ID)])
def test_a_transaction_commits_by_topic_id_from_version_6_on(wire: Wire, version: int, unknown: E) -> None:
    known = topic_id(wire)
    assert commit(wire, version) == {
        (known, 0): E.NONE,
        (known, 5): E.UNKNOWN_TOPIC_OR_PARTITION,
        (UNKNOWN_ID, 0): unknown,
    }


@pytest.mark.parametrize(("version", "error"), [(5, E.ILLEGAL_GENERATION), (6, E.GROUP_ID_NOT_FOUND)])
def test_version_6_names_the_missing_group(wire: Wire, version: int, error: E) -> None:
    assert commit(wire, version, generation_id=3, member_id="m")[topic_id(wire), 0] == error


@pytest.mark.parametrize(
    ("release", "with_id", "without_id"), [("4.2", {10}, {9}), ("4.3", {9, 10}, set()), ("4.4", {9, 10}, set())]
)
def test_offsets_are_stored_with_the_id_of_their_topic(release: str, with_id: set[int], without_id: set[int]) -> None:
    wire = Wire(cluster(topics={"t": 2}, release=release))
    for version in with_id | without_id:
        topic = OffsetCommitRequestTopic("t", topic_id(wire), [OffsetCommitRequestPartition(0, 7)])
        topic.partitions[0].committed_metadata = ""
        ask(wire, OffsetCommitRequest(f"g{version}", topics=[topic]), version, OffsetCommitResponse)
        expected = topic_id(wire) if version in with_id else NO_TOPIC_ID
        assert stored(wire, f"g{version}")[0].topic_id == expected


def test_a_deleted_topic_leaves_the_offsets_of_another_of_its_name(wire: Wire) -> None:
    topic = OffsetCommitRequestTopic("t", NO_TOPIC_ID, [OffsetCommitRequestPartition(0, 7)])
    topic.partitions[0].committed_metadata = ""
    ask(wire, OffsetCommitRequest("g", topics=[topic]), 9, OffsetCommitResponse)
    (node,) = wire.cluster.nodes.values()
    node.groups.topic_deleted("t", UNKNOWN_ID, 0.0)
    assert stored(wire, "g")[0].offset == 7
    node.groups.topic_deleted("t", topic_id(wire), 0.0)
    assert not any(shard.offsets.of("g") for shard in node.groups.shards.values())


@pytest.mark.parametrize(
    ("controller", "error", "message"),
    [
        (1, E.INVALID_REQUEST, "Controller cannot unregister itself while it is active."),
        (7, E.CONTROLLER_ID_NOT_REGISTERED, "Controller ID 7 is not currently registered."),
    ],
)
def test_no_controller_can_be_unregistered(wire: Wire, controller: int, error: E, message: str) -> None:
    answer = ask(wire, UnregisterControllerRequest(controller), 0, UnregisterControllerResponse)
    assert (answer.error_code, answer.error_message) == (error, message)


def test_a_broker_without_plugin_refuses_topology_descriptions(wire: Wire) -> None:
    message = StreamsGroupTopologyDescriptionUpdateRequest("g", "m")
    answer = ask(wire, message, 0, StreamsGroupTopologyDescriptionUpdateResponse)
    assert answer.error_code == E.UNSUPPORTED_VERSION
    assert answer.error_message == "The broker has no streams group topology description plugin configured."


@pytest.mark.parametrize(("release", "error"), [("4.2", E.UNKNOWN_SERVER_ERROR), ("4.4", E.INVALID_REQUEST)])
def test_share_requests_need_a_group_id(release: str, error: E) -> None:
    wire = Wire(cluster(release=release))
    assert ask(wire, ShareFetchRequest(None, "m"), 1, ShareFetchResponse).error_code == error
    assert ask(wire, ShareAcknowledgeRequest(None, "m"), 1, ShareAcknowledgeResponse).error_code == error


@pytest.mark.parametrize(("release", "error"), [("4.2", E.NONE), ("4.4", E.INVALID_REQUEST)])
def test_a_negative_epoch_of_share_state_is_refused(release: str, error: E) -> None:
    wire = Wire(cluster(topics={"t": 1}, release=release))
    state = InitializeStateData(topic_id(wire), [StatePartition(0, state_epoch=-1, start_offset=0)])
    answer = ask(wire, InitializeShareGroupStateRequest("g", [state]), 0, InitializeShareGroupStateResponse)
    assert answer.results[0].partitions[0].error_code == error


@pytest.mark.parametrize(("release", "interval"), [("4.2", 15_000), ("4.4", 6_000)])
def test_a_stored_setting_counts_within_the_bounds(release: str, interval: int) -> None:
    bounds = {"group_share_max_heartbeat_interval_ms": "6000"}
    wire = Wire(cluster(release=release, **bounds))
    wire.cluster.topics.settings.groups["g"] = {"share.heartbeat.interval.ms": "15000"}
    join = ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=["t"])
    assert ask(wire, join, 1, ShareGroupHeartbeatResponse).heartbeat_interval_ms == interval
    assert wire.cluster.topics.settings.groups["g"] == {"share.heartbeat.interval.ms": "15000"}
