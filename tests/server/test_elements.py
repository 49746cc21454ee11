"""The number of elements that a request may have, by API."""

import pytest

from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.wire import Message
from kafka_shim.server import topic_parts
from kafka_shim.server.elements import elements_accepted
from kafka_shim.server.requests import REQUESTS
from tests.server.wire import Wire, cluster, request


@pytest.mark.parametrize(
    ("made", "version", "is_accepted"),
    [
        (DeleteTopicsRequest([DeleteTopicState(name="t")] * 10_000), 6, True),
        (DeleteTopicsRequest([DeleteTopicState(name="t")] * 10_001), 6, False),
        (DescribeGroupsRequest(["g"] * 100_000), 5, True),
        (DescribeGroupsRequest(["g"] * 100_001), 5, False),
    ],
    ids=["DeleteTopics", "DeleteTopics and one more", "DescribeGroups", "DescribeGroups and one more"],
)
def test_request_of_more_elements_than_accepted_ends_its_connection(
    made: Message, version: int, is_accepted: bool
) -> None:
    wire = Wire(cluster())
    data = request(made, version)
    for at in range(0, len(data), 1 << 20):
        wire.receive(data[at : at + (1 << 20)])
    assert wire.is_closed is not is_accepted
    assert bool(wire.sent) is is_accepted


def test_request_in_parts_may_have_as_many_elements_as_any_unless_it_makes_records() -> None:
    divided = {key: elements_accepted(key) for key in ApiKey if key in REQUESTS and REQUESTS[key].divided}
    making = {ApiKey.CREATE_TOPICS, ApiKey.ADD_PARTITIONS_TO_TXN}
    making |= {ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}
    # One topic or group of these has all the partitions of a request, and is not divided.
    of_one = {ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS}
    # Only a request for all topics is divided.
    of_all = {ApiKey.DESCRIBE_LOG_DIRS}
    assert {divided.pop(key) for key in making | of_one | of_all} == {10_000}
    assert set(divided.values()) == {100_000}


OF_FEW = {
    *("JoinGroup", "LeaveGroup", "OffsetDelete", "AddPartitionsToTxn", "WriteTxnMarkers"),
    *("CreateTopics", "DeleteTopics", "CreatePartitions", "DeleteRecords", "CreateAcls", "DeleteAcls"),
    *("AlterConfigs", "IncrementalAlterConfigs", "DescribeLogDirs", "DescribeProducers", "DescribeQuorum"),
    *("ElectLeaders", "AlterPartitionReassignments", "ListPartitionReassignments", "UpdateFeatures"),
    *("CreateDelegationToken", "DescribeDelegationToken", "DescribeClientQuotas", "AlterClientQuotas"),
    *("DescribeUserScramCredentials", "AlterUserScramCredentials"),
    *("DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets"),
    *("InitializeShareGroupState", "DeleteShareGroupState", "ReadShareGroupStateSummary"),
}
"""Their rules take a request or an element as a whole: all other clients wait for a long one."""


def test_apis_of_few_elements_are_these_alone() -> None:
    names = {key: key.name.replace("_", "").lower() for key in ApiKey}
    assert {names[key] for key in ApiKey if elements_accepted(key) < 100_000} == {each.lower() for each in OF_FEW}
    assert {elements_accepted(key) for key in ApiKey} == {10_000, 100_000}


@pytest.mark.parametrize("beyond", [0, 1])
def test_metadata_creates_all_topics_or_none_beyond_the_bound(monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    assert topic_parts.MAX_CREATED == 10_000
    monkeypatch.setattr(topic_parts, "MAX_CREATED", 100)
    names = [f"new-{number}" for number in range(100 + beyond)]
    wire = Wire(cluster())
    wire.receive(request(MetadataRequest([MetadataRequestTopic(name=name) for name in names]), 12))
    assert len(wire.answers()) == 1
    assert sorted(topic.name for topic in wire.cluster.topics.all()) == ([] if beyond else sorted(names))
