"""The trace as a file: lines, numbering, rotation, and the schema of each event."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    error,
)
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.server.trace import plain
from kafka_shim.server.trace_file import TraceFile
from kafka_shim.trace.events import SCHEMA_VERSION
from kafka_shim.trace.schema import problems
from tests.broker.context import batch
from tests.server.wire import Wire, cluster, request


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize(
    ("version", "of_request", "of_topic", "of_partition"),
    [
        (0, set(), set(), set()),
        (1, {"generation_id_or_member_epoch", "member_id"}, set(), {"commit_timestamp"}),
        (4, {"generation_id_or_member_epoch", "member_id", "retention_time_ms"}, set(), set()),
        (
            10,
            {"generation_id_or_member_epoch", "member_id", "group_instance_id"},
            {"topic_id"},
            {"committed_leader_epoch"},
        ),
    ],
)
def test_a_commit_shows_the_fields_of_its_version(
    version: int, of_request: set[str], of_topic: set[str], of_partition: set[str]
) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    commit = OffsetCommitRequest("billing", topics=[OffsetCommitRequestTopic("orders", partitions=[partition])])
    shown, answer = plain(commit, version), plain(error(commit, 0), version)
    assert shown.keys() == {"group_id", "topics"} | of_request
    (topic,) = shown["topics"]
    assert topic.keys() == {"name", "partitions"} | of_topic
    assert topic["partitions"].keys() == {"partition_index", "committed_offset", "committed_metadata"} | of_partition
    assert answer["topics"][0].keys() == {"name", "partitions"} | of_topic
    assert ("throttle_time_ms" in answer) is (version >= 3)


def live(wire: Wire, heartbeats: int = 3) -> str:
    """Run a member from its JoinGroup to its LeaveGroup; return the member id."""
    protocols = [JoinGroupRequestProtocol("range", b"")]
    wire.receive(request(JoinGroupRequest("billing", 30_000, 60_000, "", None, "consumer", protocols), 2), 100.0)
    wire.cluster.ticks.fire(100.5)
    member_id = wire.answer(JoinGroupResponse, 2)[1].member_id
    sync = SyncGroupRequest("billing", 1, member_id, assignments=[SyncGroupRequestAssignment(member_id, b"")])
    wire.receive(request(sync, 1), 101.0)
    for number in range(heartbeats):
        wire.receive(request(HeartbeatRequest("billing", 1, member_id), 4, number), 102.0 + number)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [OffsetCommitRequestTopic("orders", partitions=[partition])]
    wire.receive(request(OffsetCommitRequest("billing", 1, member_id, topics=topics), 8), 110.0)
    leave = LeaveGroupRequest("billing", members=[MemberIdentity(member_id)])
    wire.receive(request(leave, 4), 111.0)
    return member_id


async def test_everything_about_a_member_is_in_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    wire = Wire(cluster(topics={"orders": 1}))
    with TraceFile(path, wire.cluster):
        member_id = live(wire)
    events = events_of(path)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [problem for event in events for problem in problems(event)] == []
    assert events[0]["event"] == "trace"
    assert events[0]["schema"] == SCHEMA_VERSION
    exchanged = [event for event in events if event["event"] == "exchange"]
    apis = ["JoinGroup", "SyncGroup", "Heartbeat", "Heartbeat", "Heartbeat", "OffsetCommit", "LeaveGroup"]
    assert [event["api"] for event in exchanged] == apis
    assert {event["member"] for event in exchanged[:6]} == {member_id}
    assert [event["correlation_id"] for event in exchanged[2:5]] == [0, 1, 2]
    assert [event["arrived"] for event in exchanged[2:5]] == [102.0, 103.0, 104.0]
    (request_topic,), (answered,) = (exchanged[5][side]["topics"] for side in ("request", "answer"))
    by_field = {"partition_index": [0], "committed_leader_epoch": [-1]}
    assert request_topic == {"name": "orders", "partitions": by_field | {"committed_metadata": [""]}}
    assert answered == {"name": "orders", "partitions": {"partition_index": [0], "error_code": [0]}}
    (parked,) = [event for event in events if event["event"] == "parked"]
    assert (parked["api"], parked["conn"]) == ("JoinGroup", exchanged[0]["conn"])
    assert exchanged[0]["mono"] - exchanged[0]["arrived"] == pytest.approx(0.5)
    causes = [event["cause"] for event in events if event["event"] == "state" and event["to"] == "PreparingRebalance"]
    assert causes == ["NEW_MEMBER", "MEMBER_LEFT"]


async def test_the_trace_shows_the_ends_of_partitions_that_have_grown(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    wire = Wire(cluster(topics={"orders": 2}))

    def produce(count: int) -> None:
        records = [PartitionProduceData(1, batch(*[b"x"] * count))]
        wire.receive(request(ProduceRequest(None, -1, 1000, [TopicProduceData("orders", partition_data=records)]), 9))

    with TraceFile(path, wire.cluster) as trace:
        trace.tell_ends()
        produce(3)
        trace.tell_ends()
        trace.tell_ends()
        produce(2)
    events = [event for event in events_of(path) if event["event"] == "end_offsets"]
    assert [problem for event in events for problem in problems(event)] == []
    assert [event["offsets"] for event in events] == [
        [{"topic": "orders", "partition": 1, "offset": offset}] for offset in (3, 5)
    ]


async def test_no_event_is_built_without_a_listener(tmp_path: Path) -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    with TraceFile(tmp_path / "trace.jsonl", wire.cluster):
        assert wire.cluster.outbox.listening
    assert not wire.cluster.outbox.listening
    live(wire)
    assert wire.cluster.outbox.events == []


async def test_listeners_get_every_event_as_a_dictionary(tmp_path: Path) -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    seen: list[dict[str, Any]] = []
    with TraceFile(tmp_path / "trace.jsonl", wire.cluster):
        wire.cluster.events.listen(lambda events, now: seen.extend(dict(event) for event in events))
        live(wire, heartbeats=4)
    heartbeats = [event for event in seen if event.get("api") == "Heartbeat"]
    assert [event["correlation_id"] for event in heartbeats] == [0, 1, 2, 3]
    assert [problem for event in seen for problem in problems(event)] == []


async def test_a_full_file_is_renamed_and_the_next_begun(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    wire = Wire(cluster(topics={"orders": 1}))
    with TraceFile(path, wire.cluster, max_bytes=2000) as trace:
        for number in range(40):
            wire.receive(request(HeartbeatRequest("billing", 1, "m"), 4, number), 100.0 + number)
            trace.flush()
    rotated = sorted(tmp_path.glob("trace.jsonl.*"), key=lambda each: int(each.suffix[1:]))
    assert [each.suffix for each in rotated] == [f".{number}" for number in range(1, len(rotated) + 1)]
    assert len(rotated) > 3
    events = [event for each in (*rotated, path) for event in events_of(each)]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    headers = [event for event in events if event["event"] == "trace"]
    assert [header["file"] for header in headers] == list(range(1, len(rotated) + 2))
    assert len({header["run"] for header in headers}) == 1
    assert [e["correlation_id"] for e in events if e["event"] == "exchange"] == list(range(40))
    assert all(2000 <= each.stat().st_size < 4000 for each in rotated)


async def test_an_older_trace_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    for _ in range(3):
        with TraceFile(path, cluster()):
            pass
    runs = [events_of(tmp_path / name)[0]["run"] for name in ("trace.jsonl.1", "trace.jsonl.2", "trace.jsonl")]
    assert len(set(runs)) == 3


async def test_many_events_are_written_before_a_flush(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    wire = Wire(cluster())
    with TraceFile(path, wire.cluster):
        for number in range(2000):
            wire.receive(request(HeartbeatRequest("billing", 1, "m"), 4, number), 100.0)
        assert path.stat().st_size > 256 * 1024
    assert sum(event["event"] == "exchange" for event in events_of(path)) == 2000


async def test_heartbeats_are_answered_alike_with_and_without_a_trace(tmp_path: Path) -> None:
    wire = Wire(cluster())
    beat = request(HeartbeatRequest("billing", 1, "m"), 4, 1)
    with TraceFile(tmp_path / "trace.jsonl", wire.cluster):
        wire.receive(beat)
        wire.receive(beat)
    wire.receive(beat)
    answers = wire.answers()
    assert len(answers) == 3
    assert len(set(answers)) == 1
    assert answers[0][5:] == HeartbeatResponse(0, 25).encode(4)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full, a file on a disk that is full")
async def test_when_the_disk_is_full_the_trace_ends_and_the_server_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    seen: list[dict[str, Any]] = []
    with TraceFile(Path("/dev/full"), wire.cluster) as trace:
        wire.cluster.events.listen(lambda events, now: seen.extend(events))
        live(wire)
        trace.flush()
        wire.receive(request(LeaveGroupRequest("billing", members=[MemberIdentity("m")]), 4), 120.0)
    assert [record.getMessage() for record in caplog.records] == [
        "the trace /dev/full ends here, it cannot be written: No space left on device"
    ]
    assert seen[-1]["answer"]["members"][0]["error_code"] == 25
