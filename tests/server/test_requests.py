"""The table of requests: a row for each served API, and the resources of requests."""

import pytest

from kafka_shim.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.init_producer_id import InitProducerIdRequest
from kafka_shim.apis.join_group import JoinGroupRequest
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.server.requests import REQUESTS
from kafka_shim.server.rows import Operation, Resource, Row
from tests.server.wire import Wire, cluster, request

TOPIC_ID = bytes(range(16))


def row_of(request: Message) -> Row:
    assert isinstance(request.api_key, ApiKey)
    return REQUESTS[request.api_key]


def test_every_served_api_has_a_row() -> None:
    assert REQUESTS.keys() == APIS.keys()


@pytest.mark.parametrize(
    "key", [key for key, row in REQUESTS.items() if row.feature is not None], ids=lambda key: key.name
)
def test_a_request_is_refused_while_its_feature_is_off(key: ApiKey) -> None:
    api = APIS[key]
    wire = Wire(cluster(release="4.4"))
    feature = REQUESTS[key].feature
    # Without the plugin of topology descriptions the answer is the same.
    without_plugin = key is ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
    for level, is_refused in ((0, True), (1, without_plugin)):
        wire.cluster.topics.settings.features = {feature: level}
        for version in api.request.versions:
            asked = api.normalise(api.request(), version)
            wire.receive(request(asked, version))
            refused = api.shape(api.error(asked, ErrorCode.UNSUPPORTED_VERSION), version)
            if hasattr(refused, "error_code"):
                assert (wire.answer(api.response, version)[1].error_code == ErrorCode.UNSUPPORTED_VERSION) is is_refused
            elif is_refused:
                assert wire.answer(api.response, version)[1] == refused


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: key.name)
def test_every_row_names_the_subjects_of_a_request(key: int) -> None:
    api = APIS[key]
    for version in api.request.versions:
        request = api.normalise(api.request(), version)
        for concern in REQUESTS[api.key].concerns:
            assert isinstance(list(concern.names(request)), list)


@pytest.mark.parametrize(
    ("request_", "groups", "transactional_ids"),
    [
        (HeartbeatRequest("g"), ["g"], []),
        (LeaveGroupRequest("g"), ["g"], []),
        (DescribeGroupsRequest(["g", "h"]), ["g", "h"], []),
        (DeleteGroupsRequest(["g", "h"]), ["g", "h"], []),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g"), OffsetFetchRequestGroup("h")]), ["g", "h"], []),
        (FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), ["g"], []),
        (FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), [], ["t"]),
        (TxnOffsetCommitRequest("t", "g"), ["g"], ["t"]),
        (InitProducerIdRequest("t"), [], ["t"]),
        (InitProducerIdRequest(None), [], []),
        (AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("t")]), [], ["t"]),
        (ListGroupsRequest(), [], []),
        (MetadataRequest(), [], []),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)  # fmt: skip
def test_rows_name_groups_and_ids(request_: Message, groups: list[str], transactional_ids: list[str]) -> None:
    assert row_of(request_).groups_of(request_) == groups
    assert row_of(request_).transactional_ids_of(request_) == transactional_ids


@pytest.mark.parametrize(
    ("request_", "operation", "names"),
    [
        (
            OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("a"), OffsetCommitRequestTopic("", TOPIC_ID)]),
            Operation.READ,
            ["a", TOPIC_ID],
        ),
        (
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("a")])]),
            Operation.DESCRIBE,
            ["a"],
        ),
        (TxnOffsetCommitRequest("t", "g", topics=[TxnOffsetCommitRequestTopic("a")]), Operation.READ, ["a"]),
        (
            AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction("t", topics=[AddPartitionsToTxnTopic("a")])]),
            Operation.WRITE,
            ["a"],
        ),
        (
            DescribeConfigsRequest([DescribeConfigsResource(2, "a"), DescribeConfigsResource(4, "1")]),
            Operation.DESCRIBE_CONFIGS,
            ["a"],
        ),
        (MetadataRequest(None), Operation.DESCRIBE, []),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_rows_name_topics_and_operations(request_: Message, operation: Operation, names: list[str | bytes]) -> None:
    (concern,) = [each for each in row_of(request_).concerns if each.resource is Resource.TOPIC]
    assert (concern.operation, list(concern.names(request_))) == (operation, names)


@pytest.mark.parametrize(
    ("request_", "sender"),
    [
        (JoinGroupRequest("g", 1, 1, "m", "i"), ("m", "i", None)),
        (HeartbeatRequest("g", 3, "m", "i"), ("m", "i", 3)),
        (LeaveGroupRequest("g", members=[MemberIdentity("m", "i"), MemberIdentity("n")]), ("m", "i", None)),
        (LeaveGroupRequest("g"), ("", None, None)),
        (OffsetCommitRequest("g", 3, "m", "i"), ("m", "i", 3)),
        (ConsumerGroupHeartbeatRequest("g", "m", 3, "i"), ("m", "i", 3)),
        (ListGroupsRequest(), ("", None, None)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_rows_name_the_sending_member(request_: Message, sender: tuple[str, str | None, int | None]) -> None:
    assert row_of(request_).sender(request_) == sender


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: APIS[key].name)
def test_a_request_with_a_member_id_has_a_sender(key: ApiKey) -> None:
    made = APIS[key].request()
    if hasattr(made, "member_id") and not hasattr(made, "members"):
        made.member_id = "m"
        assert REQUESTS[key].sender(made).member_id == "m"
