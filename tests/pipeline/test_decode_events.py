"""Lines of traces as rows: the fast and the general decoder agree, and every line becomes a row."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="PyArrow is not installed (requirements/spark.txt)")

import itertools

from kafka_shim.pipeline.decode import events
from kafka_shim.pipeline.generate.write import generate
from kafka_shim.pipeline.sources.places import Place
from kafka_shim.pipeline.sources.shim_trace import Part, files, identity_of, read_part, trace_of


def decoded(lines: list[bytes], **options: Any) -> list[dict[str, Any]]:
    result = []
    for batch in events.decode(lines, range(len(lines)), "t", "f", **options):
        batch.validate(full=True)
        result += batch.to_pylist()
    return sorted(result, key=lambda row: row["position"])


def line(**fields: Any) -> bytes:
    return json.dumps({"seq": 1, "mono": 5.0, "wall": 10.0, **fields}, separators=(",", ":")).encode()


def exchange(api: str, request: dict[str, Any], answer: dict[str, Any], **fields: Any) -> bytes:
    common = {"event": "exchange", "conn": 1, "node": 0, "version": 4, "correlation_id": 2, "client_id": "c"}
    return line(
        **common, api=api, group="g", member="m", arrived=4.5, request=request, answer=answer, error=0, **fields
    )


def test_the_fast_and_the_general_decoder_agree(tmp_path: Path) -> None:
    generate(tmp_path, groups=4, seed=11, segments=False)
    path = Path(files(str(tmp_path / "trace"))[0].address)
    lines = path.read_bytes().split(b"\n")[:4000]
    fast = decoded(lines)
    slow = decoded(lines, bodies=True)
    assert len(fast) == len(lines)
    assert all(row.pop("request") is None and row.pop("answer") is None for row in fast)
    for row in slow:
        assert (row.pop("request") is None) == (row["event"] != "exchange")
        row.pop("answer")
    assert fast == slow
    assert {row["event"] for row in fast} >= {"exchange", "commit", "round", "assignment", "member", "state", "group"}
    assert not any(row["unreadable"] for row in fast)


def test_fields_of_bodies_become_columns() -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": 3, "committed_offset": 7, "error_code": 0}]}]
    result = decoded(
        [
            exchange(
                "OffsetFetch", {}, {"groups": [{"group_id": "h", "topics": topics, "error_code": 0}], "topics": []}
            ),
            exchange("OffsetFetch", {}, {"topics": topics}),
            exchange(
                "ListOffsets",
                {
                    "topics": [
                        {
                            "name": "t",
                            "partitions": [
                                {"partition_index": 0, "timestamp": -1},
                                {"partition_index": 1, "timestamp": -2},
                            ],
                        }
                    ]
                },
                {
                    "topics": [
                        {
                            "name": "t",
                            "partitions": [{"partition_index": p, "offset": 50 + p, "error_code": 0} for p in (0, 1)],
                        }
                    ]
                },
            ),
            exchange(
                "OffsetDelete", {}, {"topics": [{"name": "t", "partitions": [{"partition_index": 2, "error_code": 0}]}]}
            ),
            exchange(
                "JoinGroup",
                {"session_timeout_ms": 10, "rebalance_timeout_ms": 20, "group_instance_id": "i", "reason": "why"},
                {"generation_id": 4, "leader": "m", "protocol_name": "range", "members": [{"member_id": "m"}]},
            ),
            exchange(
                "LeaveGroup",
                {"members": [{"member_id": "n", "reason": "bye"}]},
                {},
            ).replace(b'"member":"m"', b'"member":null'),
        ]
    )
    assert [row["unreadable"] for row in result] == [None] * 6
    offset = {"topic": "t", "partition": 3, "offset": 7, "error": 0}
    assert (result[0]["group_id"], result[0]["offsets"]) == ("h", [offset])
    assert (result[1]["group_id"], result[1]["offsets"]) == ("g", [offset])
    assert result[2]["offsets"] == [{"topic": "t", "partition": 0, "offset": 50, "error": 0}]
    assert result[3]["offsets"] == [{"topic": "t", "partition": 2, "offset": None, "error": 0}]
    join = result[4]
    assert (join["generation"], join["leader"], join["protocol"], join["members"]) == (4, "m", "range", ["m"])
    assert (join["session_timeout_ms"], join["rebalance_timeout_ms"], join["instance_id"], join["reason"]) == (
        10,
        20,
        "i",
        "why",
    )
    assert (result[5]["member_id"], result[5]["members"], result[5]["reason"]) == ("n", ["n"], "bye")


def test_unknown_fields_and_events_are_ignored() -> None:
    plain, unknown = decoded(
        [
            exchange("Heartbeat", {"generation_id": 3, "new": [1, {"a": None}]}, {"error_code": 0}, newer={"x": 1}),
            line(event="moon-phase", phase="full"),
        ]
    )
    assert (plain["generation"], plain["unreadable"]) == (3, None)
    assert (unknown["event"], unknown["unreadable"], unknown["wall"]) == ("moon-phase", None, 10.0)


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"[]",
        b"17",
        b'{"seq":1}',
        b'{"event":7}',
        line(event="round", members=1, waited_for=[]),
        line(event="round", members=[], waited_for=[{"member_id": "m"}]),
        line(event="state", generation="x"),
        line(event="commit", offsets=[{"topic": 3}]),
        line(event="commit", partition=1 << 31, offsets=[]),
        line(event="commit", offsets=[{"topic": "t", "partition": 0, "offset": 1 << 63}]),
        line(event="exchange", api="Heartbeat", request=3, answer={}),
        line(event="exchange", api="Heartbeat", request={"generation_id": "x"}, answer={}),
        b'{"event":"exchange","api":"Heartbeat"',
        b"\xff\xfe",
    ],
    ids=str,
)
def test_a_malformed_line_is_reported_and_its_neighbours_are_read(bad: bytes) -> None:
    good = exchange("Heartbeat", {"generation_id": 3}, {"error_code": 0})
    commit = line(event="commit", group="g", member_id="m", generation=3, error=0, partition=1, offsets=[])
    before, damage, after, also = decoded([good, bad, good, commit])
    assert damage["unreadable"]
    assert (damage["trace"], damage["file"], damage["position"], damage["event"]) == ("t", "f", 1, None)
    for row in (before, after):
        assert (row["event"], row["generation"], row["unreadable"]) == ("exchange", 3, None)
    assert (also["event"], also["generation"], also["offsets"], also["unreadable"]) == ("commit", 3, [], None)


def test_the_content_of_a_line_decides_its_kind() -> None:
    of_a_round = line(event="round", generation=3, members=["m"], waited_for=[], note={"event": "commit"})
    of_a_member = line(event="member", member_id="m", note={"event": "exchange", "api": "Heartbeat"})
    nothing = exchange("Heartbeat", {"generation_id": None, "member_epoch": 7}, {"error_code": 0})
    whole, member, beat = decoded([of_a_round, of_a_member, nothing])
    assert (whole["event"], whole["generation"], whole["members"], whole["unreadable"]) == ("round", 3, ["m"], None)
    assert (member["event"], member["member_id"], member["unreadable"]) == ("member", "m", None)
    assert (beat["event"], beat["generation"], beat["instance_id"]) == ("exchange", 7, None)


def test_parts_of_a_file_hold_each_line_once(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    lines = [line(event="state", group="g" * (7 * index % 50), generation=index) for index in range(200)]
    path.write_bytes(b"\n".join(lines) + b"\n" + b'{"event":"sta')
    size = path.stat().st_size
    for step in (1, 97, 1000, size):
        bounds = [*range(0, size, step), size]
        positions_read = [
            row
            for start, end in itertools.pairwise(bounds)
            for batch in read_part(Part(str(path), start, end))
            for row in batch.to_pylist()
        ]
        assert [row["generation"] for row in positions_read] == [*range(200), None]
        assert positions_read[-1]["unreadable"]


def test_option_events_selects_kinds_and_keeps_unreadable_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"\n".join([line(event="state"), line(event="round"), line(event="member"), b"{"]) + b"\n")
    part = Part(str(path), 0, path.stat().st_size)
    states = [row for batch in read_part(part, frozenset({"state"})) for row in batch.to_pylist()]
    assert [(row["event"], bool(row["unreadable"])) for row in states] == [("state", False), (None, True)]


def test_all_files_of_a_rotated_trace_are_read(tmp_path: Path) -> None:
    names = ["trace.jsonl", "trace.jsonl.1", "trace-00007.jsonl", "trace.2.jsonl", "other.txt", "node-1/trace.jsonl"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(line(event="state", group=name) + b"\n")
    paths = files(str(tmp_path))
    assert {str(Path(path.address).relative_to(tmp_path)) for path in paths} == {*names} - {"other.txt"}
    assert {trace_of(path, path.first_line()) for path in paths} == {f"{tmp_path.name}/trace", "node-1/trace"}
    before = identity_of(Place(str(tmp_path / "trace.jsonl")))
    (tmp_path / "trace.jsonl").rename(tmp_path / "trace.jsonl.2")
    assert identity_of(Place(str(tmp_path / "trace.jsonl.2"))) == before
    assert len({identity_of(path) for path in files(str(tmp_path))}) == 5
