"""The requests that a release before 4.0 answers otherwise."""

import pytest

from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tests.server.wire import Wire, cluster, request


def commit(wire: Wire, version: int, *topics: str) -> list[int]:
    """Commit offset 7 of partition 0 of topics; return the errors."""
    asked = [OffsetCommitRequestTopic(name, partitions=[OffsetCommitRequestPartition(0, 7)]) for name in topics]
    wire.receive(request(OffsetCommitRequest("g", topics=asked), version))
    answer = wire.answer(OffsetCommitResponse, version)[1]
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def fetch(wire: Wire, version: int) -> list[tuple[int, int]]:
    """Fetch the offset of partition 0 of topic t; return it with its error."""
    wire.receive(request(OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0])]), version))
    answer = wire.answer(OffsetFetchResponse, version)[1]
    return [(each.committed_offset, each.error_code) for topic in answer.topics for each in topic.partitions]


@pytest.mark.parametrize(("release", "error", "offset"), [("2.8", 0, 7), ("3.9", 35, -1)])
def test_version_0_of_offsets_is_refused_since_3_9(release: str, error: int, offset: int) -> None:
    wire = Wire(cluster(topics={"t": 1}, release=release))
    assert commit(wire, 0, "t") == [error]
    assert fetch(wire, 0) == [(offset, error)]
    assert fetch(wire, 1) == [(offset, 0)]
    assert commit(wire, 1, "t") == [0]
    assert fetch(wire, 1) == [(7, 0)]


def test_version_0_of_a_commit_is_refused_as_a_whole_if_any_partition_exists() -> None:
    wire = Wire(cluster(topics={"t": 1}, release="3.9"))
    assert commit(wire, 0, "t", "missing") == [35, 35]
    assert commit(wire, 0, "missing") == [3]
