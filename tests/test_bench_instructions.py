"""The requests that `python -m bench.instructions` counts."""

from itertools import islice
from typing import Any

import pytest

from bench.instructions import FETCHED, GROUPS, KINDS, NEW, send
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_shim.apis.describe_groups import DescribeGroupsResponse
from kafka_shim.apis.fetch import FetchResponse
from kafka_shim.apis.heartbeat import HeartbeatResponse
from kafka_shim.apis.offset_commit import OffsetCommitResponse
from kafka_shim.apis.offset_fetch import OffsetFetchResponse
from tests.server.wire import read


def answers(kind: str, response: type[Any], version: int) -> list[Any]:
    return [read(frame[4:], response, version)[1] for frame in islice(send(kind, is_served=True), 12)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.endswith(("fetch", "groups"))])
def test_heartbeats_and_commits_succeed(kind: str) -> None:
    if kind.endswith("commit"):
        codes = {
            each.error_code
            for answer in answers(kind, OffsetCommitResponse, 9)
            for topic in answer.topics
            for each in topic.partitions
        }
    elif kind.startswith("consumer"):
        codes = {answer.error_code for answer in answers(kind, ConsumerGroupHeartbeatResponse, 1)}
    else:
        codes = {answer.error_code for answer in answers(kind, HeartbeatResponse, 4)}
    assert codes == {0}


def test_requests_for_groups_are_answered_for_each() -> None:
    for answer in answers("offsets of groups", OffsetFetchResponse, 9):
        assert [each.error_code for each in answer.groups] == [0] * GROUPS
        assert {len(each.topics[0].partitions) for each in answer.groups} == {10}
    for answer in answers("description of groups", DescribeGroupsResponse, 5):
        assert [each.group_state for each in answer.groups] == ["Stable"] + ["Dead"] * (GROUPS - 1)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("fetch")])
def test_fetches_bring_the_new_records(kind: str) -> None:
    for answer in answers(kind, FetchResponse, 17):
        partitions = [each for topic in answer.responses for each in topic.partitions]
        assert {answer.error_code, *(each.error_code for each in partitions)} == {0}
        assert (answer.session_id == 0) == ("full" in kind)
        assert len([each for each in partitions if each.records]) == (0 if kind.startswith("idle") else NEW)
        assert "full" not in kind or len(partitions) == FETCHED
