"""Differences between versions other than fields (semantics 1), and the place of the error in each API."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafka_shim.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    api_versions,
    delete_topics,
    describe_configs,
    describe_groups,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_fetch,
    txn_offset_commit,
)
from kafka_shim.apis.api import Api
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import ErrorCode, Message, Struct
from tests.apis.strategies import edges

CASES = [(api, version) for api in APIS.values() for version in api.request.versions]


def case_id(value: object) -> str:
    return value.name if isinstance(value, Api) else f"v{value}"


def error_codes(struct: Any) -> Iterator[int]:
    for each in type(struct).fields:
        value = getattr(struct, each.name)
        if each.name.endswith("error_code") and each.name != "topic_config_error_code":
            yield value
        elif isinstance(value, list) and value and isinstance(value[0], Struct):
            for inner in value:
                yield from error_codes(inner)


@pytest.mark.parametrize(("api", "version"), CASES, ids=case_id)
def test_error_code_survives_every_version(api: Api, version: int) -> None:
    request = api.request.decode(edges(api.request, version, high=True).encode(version), version)
    api.normalise(request, version)
    response = api.shape(api.error(request, 15), version)
    errors = list(error_codes(api.response.decode(response.encode(version), version)))
    assert 15 in errors
    assert set(errors) <= {0, 15}


@pytest.mark.parametrize(("api", "version"), CASES, ids=case_id)
def test_an_error_of_an_empty_request_can_be_sent(api: Api, version: int) -> None:
    response = api.shape(api.error(api.normalise(api.request(), version), 15), version)
    assert isinstance(api.response.decode(response.encode(version), version), Message)


class TestApiVersions:
    def test_unknown_version_is_answered_byte_for_byte(self) -> None:
        answer = api_versions.unsupported_version((0, 4))
        assert answer.encode(0) == bytes.fromhex("0023 00000001 0012 0000 0004")

    def test_only_version_3_hides_features_from_level_0(self) -> None:
        features = [
            api_versions.SupportedFeatureKey("group.version", 0, 1),
            api_versions.SupportedFeatureKey("metadata.version", 7, 29),
        ]
        for version, names in ((3, ["metadata.version"]), (4, ["group.version", "metadata.version"])):
            response = api_versions.ApiVersionsResponse(supported_features=list(features))
            shaped = api_versions.API.shape(response, version)
            assert [each.name for each in shaped.supported_features] == names


class TestJoinGroup:
    @pytest.mark.parametrize(
        ("name", "version", "sent"),
        [(None, 6, ""), ("", 6, ""), ("range", 6, "range"), (None, 7, None), ("", 7, None), ("range", 9, "range")],
    )
    def test_missing_protocol_name_is_empty_before_version_7(
        self, name: str | None, version: int, sent: str | None
    ) -> None:
        response = join_group.API.shape(join_group.JoinGroupResponse(protocol_name=name), version)
        assert join_group.JoinGroupResponse.decode(response.encode(version), version).protocol_name == sent

    def test_version_0_has_one_timeout(self) -> None:
        request = join_group.JoinGroupRequest(session_timeout_ms=10_000)
        assert join_group.normalise(request, 0).rebalance_timeout_ms == 10_000
        request = join_group.JoinGroupRequest(session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
        assert join_group.normalise(request, 1).rebalance_timeout_ms == 60_000

    def test_error_response_keeps_the_member_id(self) -> None:
        response = join_group.API.error(join_group.JoinGroupRequest(member_id="m"), 25)
        assert response == join_group.JoinGroupResponse(
            error_code=25,
            generation_id=-1,
            protocol_type=None,
            protocol_name=None,
            leader="",
            member_id="m",
            members=[],
        )


class TestLeaveGroup:
    def test_one_member_before_version_3(self) -> None:
        request = leave_group.LeaveGroupRequest.decode(
            leave_group.LeaveGroupRequest(group_id="g", member_id="m").encode(2), 2
        )
        assert leave_group.normalise(request, 2).members == [leave_group.MemberIdentity("m", None, None)]

    @pytest.mark.parametrize(("top", "member", "sent"), [(0, 25, 25), (0, 0, 0), (16, 0, 16)])
    def test_the_error_of_the_member_is_that_of_the_answer(self, top: int, member: int, sent: int) -> None:
        def answer() -> leave_group.LeaveGroupResponse:
            return leave_group.LeaveGroupResponse(
                error_code=top, members=[leave_group.MemberResponse("m", None, member)]
            )

        assert leave_group.API.shape(answer(), 2) == leave_group.LeaveGroupResponse(error_code=sent)
        assert leave_group.API.shape(answer(), 3) == answer()


class TestOffsetFetch:
    def answer(self, error_code: int = 0) -> offset_fetch.OffsetFetchResponse:
        partition = offset_fetch.OffsetFetchResponsePartitions(3, 42, 5, "why", error_code)
        topic = offset_fetch.OffsetFetchResponseTopics("t", partitions=[partition])
        return offset_fetch.OffsetFetchResponse(
            groups=[offset_fetch.OffsetFetchResponseGroup("g", [topic], error_code=error_code)]
        )

    def test_the_one_group_of_old_requests(self) -> None:
        request = offset_fetch.OffsetFetchRequest("g", [offset_fetch.OffsetFetchRequestTopic("t", [1, 2])])
        for version in (0, 7):
            decoded = offset_fetch.OffsetFetchRequest.decode(request.encode(version), version)
            assert offset_fetch.normalise(decoded, version).groups == [
                offset_fetch.OffsetFetchRequestGroup(
                    "g", topics=[offset_fetch.OffsetFetchRequestTopics("t", partition_indexes=[1, 2])]
                )
            ]

    def test_null_topics_stay_null(self) -> None:
        request = offset_fetch.OffsetFetchRequest("g", None)
        assert offset_fetch.normalise(request, 2).groups == [offset_fetch.OffsetFetchRequestGroup("g", topics=None)]

    @pytest.mark.parametrize("version", [0, 1, 2, 5, 7])
    def test_the_one_group_is_the_answer(self, version: int) -> None:
        shaped = offset_fetch.API.shape(self.answer(), version)
        decoded = offset_fetch.OffsetFetchResponse.decode(shaped.encode(version), version)
        epoch = 5 if version >= 5 else -1
        partition = offset_fetch.OffsetFetchResponsePartition(3, 42, epoch, "why", 0)
        topic = offset_fetch.OffsetFetchResponseTopic("t", partitions=[partition])
        assert decoded == offset_fetch.OffsetFetchResponse(topics=[topic])

    def test_error_on_partitions_in_0_and_1_then_on_top_then_on_the_group(self) -> None:
        for version in (0, 1):
            shaped = offset_fetch.API.shape(self.answer(error_code=16), version)
            assert shaped.topics[0].partitions[0].error_code == 16
        for version in (2, 7):
            shaped = offset_fetch.API.shape(self.answer(error_code=16), version)
            assert (shaped.error_code, shaped.topics, shaped.groups) == (16, [], [])
        shaped = offset_fetch.API.shape(self.answer(error_code=16), 8)
        assert shaped.groups == [offset_fetch.OffsetFetchResponseGroup("g", [], error_code=16)]


class TestFindCoordinator:
    def test_the_one_key_of_old_requests(self) -> None:
        request = find_coordinator.FindCoordinatorRequest(key="g")
        assert find_coordinator.normalise(request, 3).coordinator_keys == ["g"]

    def test_the_one_coordinator_is_the_answer(self) -> None:
        coordinator = find_coordinator.Coordinator("g", 1, "host", 9092)
        response = find_coordinator.FindCoordinatorResponse(coordinators=[coordinator])
        shaped = find_coordinator.API.shape(response, 3)
        assert shaped == find_coordinator.FindCoordinatorResponse(
            error_message="NONE", node_id=1, host="host", port=9092
        )

    def test_error_response_names_no_node(self) -> None:
        response = find_coordinator.API.error(find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]), 15)
        assert response.coordinators == [find_coordinator.Coordinator("g", -1, "", -1, 15, "")]
        shaped = find_coordinator.API.shape(response, 1)
        assert (shaped.error_code, shaped.node_id, shaped.host, shaped.port) == (15, -1, "", -1)
        assert shaped.error_message == "The coordinator is not available."

    def test_an_unknown_kind_of_key_has_its_message_in_every_version(self) -> None:
        response = find_coordinator.API.error(find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]), 42)
        message = response.coordinators[0].error_message
        assert message.startswith("This most likely occurs because of a request being malformed")
        assert find_coordinator.API.shape(response, 3).error_message == message


def test_describe_groups_says_dead_before_version_6() -> None:
    def answer() -> describe_groups.DescribeGroupsResponse:
        missing = describe_groups.DescribedGroup(69, "Group g not found.", "g", "Dead")
        return describe_groups.DescribeGroupsResponse(groups=[missing])

    assert describe_groups.API.shape(answer(), 6) == answer()
    (shaped,) = describe_groups.API.shape(answer(), 5).groups
    assert shaped == describe_groups.DescribedGroup(0, None, "g", "Dead")


def test_metadata_version_0_has_no_null() -> None:
    assert metadata.normalise(metadata.MetadataRequest([]), 0).topics is None
    assert metadata.normalise(metadata.MetadataRequest([]), 1).topics == []
    response = metadata.MetadataResponse(topics=[metadata.MetadataResponseTopic(100, None)])
    assert metadata.API.shape(response, 12).topics[0].name is None
    assert metadata.API.shape(response, 11).topics[0].name == ""


def test_delete_topics_by_name_before_version_6() -> None:
    request = delete_topics.DeleteTopicsRequest(topic_names=["a", "b"])
    assert delete_topics.normalise(request, 5).topics == [
        delete_topics.DeleteTopicState("a"),
        delete_topics.DeleteTopicState("b"),
    ]


@pytest.mark.parametrize(("offset", "offsets"), [(7, [7]), (-1, [])])
def test_list_offsets_version_0_has_a_list(offset: int, offsets: list[int]) -> None:
    partition = list_offsets.ListOffsetsPartitionResponse(0, 0, [], 1_000, offset, 3)
    response = list_offsets.ListOffsetsResponse(topics=[list_offsets.ListOffsetsTopicResponse("t", [partition])])
    shaped = list_offsets.API.shape(response, 0)
    decoded = list_offsets.ListOffsetsResponse.decode(shaped.encode(0), 0)
    assert decoded.topics[0].partitions == [list_offsets.ListOffsetsPartitionResponse(0, 0, offsets, -1, -1, -1)]


def test_describe_configs_version_0_says_whether_a_value_is_the_default() -> None:
    configs = [
        describe_configs.DescribeConfigsResourceResult("a", "1", config_source=describe_configs.DEFAULT_CONFIG),
        describe_configs.DescribeConfigsResourceResult("b", "2", config_source=1),
    ]
    response = describe_configs.DescribeConfigsResponse(
        results=[describe_configs.DescribeConfigsResult(resource_type=2, resource_name="t", configs=configs)]
    )
    shaped = describe_configs.API.shape(response, 0)
    decoded = describe_configs.DescribeConfigsResponse.decode(shaped.encode(0), 0)
    assert [each.is_default for each in decoded.results[0].configs] == [True, False]


def test_fetch_says_errors_twice_while_topics_have_names() -> None:
    by_name = fetch.FetchTopic("t", partitions=[fetch.FetchPartition(1)])
    by_id = fetch.FetchTopic(topic_id=bytes(15) + b"\1", partitions=[fetch.FetchPartition(1)])
    response = fetch.API.error(fetch.FetchRequest(session_id=9, topics=[by_name]), 6)
    assert (response.error_code, response.session_id, response.responses[0].partitions[0].error_code) == (6, 9, 6)
    response = fetch.API.error(fetch.FetchRequest(topics=[by_id]), 6)
    assert (response.error_code, response.responses) == (6, [])


@pytest.mark.parametrize(("module", "known_from"), [(add_offsets_to_txn, 2), (end_txn, 2), (init_producer_id, 4)])
def test_producer_fenced_has_an_older_name(module: Any, known_from: int) -> None:
    for version, sent in ((known_from - 1, 47), (known_from, 90)):
        response = module.API.response(error_code=ErrorCode.PRODUCER_FENCED)
        assert module.API.shape(response, version).error_code == sent


def test_add_partitions_to_txn_has_one_transaction_before_version_4() -> None:
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic("t", [0])
    request = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=8,
        v3_and_below_producer_epoch=2,
        v3_and_below_topics=[topic],
    )
    assert add_partitions_to_txn.normalise(request, 3).transactions == [
        add_partitions_to_txn.AddPartitionsToTxnTransaction("x", 8, 2, False, [topic])
    ]
    for version, sent in ((1, 47), (2, 90)):
        shaped = add_partitions_to_txn.API.shape(add_partitions_to_txn.API.error(request, 90), version)
        assert shaped.results_by_transaction == []
        assert shaped.results_by_topic_v3_and_below == [
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                "t", [add_partitions_to_txn.AddPartitionsToTxnPartitionResult(0, sent)]
            )
        ]


@pytest.mark.parametrize(("code", "sent"), [(14, 15), (16, 16)])
def test_txn_offset_commit_hides_loading_before_version_2(code: int, sent: int) -> None:
    def answer() -> txn_offset_commit.TxnOffsetCommitResponse:
        partition = txn_offset_commit.TxnOffsetCommitResponsePartition(0, code)
        return txn_offset_commit.TxnOffsetCommitResponse(
            topics=[txn_offset_commit.TxnOffsetCommitResponseTopic("t", partitions=[partition])]
        )

    assert txn_offset_commit.API.shape(answer(), 1).topics[0].partitions[0].error_code == sent
    assert txn_offset_commit.API.shape(answer(), 2) == answer()
