"""The parts of long messages in the trace and in the history: their first elements, and the ends of long texts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.limits import FORMS, request_of, served
from kafka_shim.apis.api import Api
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_shim.apis.wire import Message, Struct
from kafka_shim.server import excerpts
from kafka_shim.server.excerpts import FIRST, MOST, elements_of, excerpt
from kafka_shim.server.session import HUGE_FRAME
from kafka_shim.server.trace import error_in, plain
from kafka_shim.server.trace_file import TraceFile
from kafka_shim.trace.schema import problems
from tests.server.turns import Turns
from tests.server.wire import Wire, cluster, request


def counted(value: object) -> int:
    """The number of elements of all arrays of a message, by another way."""
    if isinstance(value, list):
        return len(value) + sum(map(counted, value))
    if isinstance(value, Message | Struct):
        return sum(counted(getattr(value, each.name)) for each in type(value).fields)
    return 0


@pytest.mark.parametrize(("api", "version"), list(served()), ids=lambda value: getattr(value, "name", str(value)))
def test_of_a_long_request_of_any_api_the_first_elements_are_shown(
    api: Api, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excerpts, "MOST", 100)
    monkeypatch.setattr(excerpts, "FIRST", 30)
    for form in FORMS:
        whole = request_of(api, version, form, 400)
        data = whole.encode(version)
        count = counted(whole)
        begin, left_out = excerpt(whole)
        assert elements_of(whole) == count
        assert counted(begin) + left_out == count
        assert counted(begin) == (30 if count > 100 else count)
        assert whole.encode(version) == data, "the request itself stays"
        assert plain(begin, version).keys() == plain(whole, version).keys()


def topics_of(*partitions: int) -> list[OffsetFetchRequestTopics]:
    return [
        OffsetFetchRequestTopics(f"t{number}", partition_indexes=list(range(count)))
        for number, count in enumerate(partitions)
    ]


def test_a_message_of_many_elements_is_whole_and_of_one_more_there_are_the_first() -> None:
    # A group and two topics are elements too.
    whole = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics_of(MOST - 4, 1))])
    assert excerpt(whole) == (whole, 0)
    longer = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=topics_of(10, MOST))])
    begin, left_out = excerpt(longer)
    assert begin.groups[0].topics == topics_of(10, FIRST - 13)
    assert left_out == MOST + 13 - FIRST
    assert begin.groups[0].group_id == "g"


async def traced(path: Path, message: Message, version: int) -> list[dict[str, Any]]:
    """The events of a request in a trace."""
    wire = Wire(cluster(topics={"orders": 1}))
    with TraceFile(path / "trace.jsonl", wire.cluster):
        turns = Turns(wire)
        wire.receive(request(message, version))
        turns.all()
    return [json.loads(line) for line in (path / "trace.jsonl").read_bytes().splitlines()]


def commit_of(count: int, metadata: str = "") -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, 5, committed_metadata=metadata)] * count
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)])


async def test_a_long_commit_has_all_offsets_and_the_first_elements(tmp_path: Path) -> None:
    events = await traced(tmp_path, commit_of(MOST), 8)
    assert [problem for event in events for problem in problems(event)] == []
    (exchange,) = (event for event in events if event["event"] == "exchange")
    (commit,) = (event for event in events if event["event"] == "commit")
    for side in ("request", "answer"):
        (topic,) = exchange[side]["topics"]
        assert {len(column) for column in topic["partitions"].values()} == {FIRST - 1}
    assert exchange["left_out"] == 2 * (MOST + 1 - FIRST)
    assert (exchange["group"], exchange["error"]) == ("g", 0)
    assert len(commit["offsets"]) == MOST


async def test_a_request_of_ordinary_length_is_whole(tmp_path: Path) -> None:
    events = await traced(tmp_path, commit_of(MOST - 1), 8)
    (exchange,) = (event for event in events if event["event"] == "exchange")
    assert len(exchange["answer"]["topics"][0]["partitions"]["error_code"]) == MOST - 1
    assert "left_out" not in exchange


async def test_texts_of_a_huge_request_are_cut(tmp_path: Path) -> None:
    metadata = "m" * 4000
    few, many = commit_of(2, metadata), commit_of(HUGE_FRAME // 4000 + 1, metadata)
    for name, message, length in (("few", few, 4000), ("many", many, 1101)):
        (tmp_path / name).mkdir()
        events = await traced(tmp_path / name, message, 8)
        (exchange,) = (event for event in events if event["event"] == "exchange")
        (topic,) = exchange["request"]["topics"]
        assert {len(each) for each in topic["partitions"]["committed_metadata"]} == {length}
        assert "left_out" not in exchange


async def test_a_request_of_two_groups_names_none_though_one_is_shown(tmp_path: Path) -> None:
    groups = [OffsetFetchRequestGroup(name, topics=topics_of(MOST)) for name in "ab"]
    events = await traced(tmp_path, OffsetFetchRequest(groups=groups), 9)
    (exchange,) = (event for event in events if event["event"] == "exchange")
    assert [each["group_id"] for each in exchange["request"]["groups"]] == ["a"]
    assert not exchange["group"]


def answers(*codes: int) -> Iterator[OffsetCommitResponseTopic]:
    for code in codes:
        partitions = [OffsetCommitResponsePartition(index, error) for index, error in enumerate((0, code, 7))]
        yield OffsetCommitResponseTopic("orders", partitions=partitions)


def test_the_error_of_an_answer_is_the_first_inside_it() -> None:
    assert error_in(OffsetCommitResponse(topics=list(answers(25, 3)))) == 25
    assert error_in(OffsetCommitResponse(topics=list(answers(0, 3)))) == 7
    assert error_in(OffsetCommitResponse(topics=[])) == 0


def test_names_in_a_long_list_are_shown_in_order() -> None:
    names = [f"g{number}" for number in range(MOST + 5)]
    begin, left_out = excerpt(DescribeGroupsRequest(names))
    assert begin.groups == names[:FIRST]
    assert left_out == MOST + 5 - FIRST
