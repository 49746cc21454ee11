"""The invariants, each on a trace that breaks it."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.conformance.invariants import check, check_trace

BASE: dict[str, Any] = {"group": "g", "seq": 1, "mono": 1.0}
FIELDS: dict[str, dict[str, Any]] = {
    "assignment": {"generation": 1},
    "commit": {"member_id": ""},
    "epoch": {"trigger": "m"},
    "exchange": {"member": "m", "client_id": "c", "conn": 1, "version": 0},
    "group": {"state": "Empty", "generation": 0},
    "member": {"client_id": "c", "client_host": "h", "instance_id": None},
    "reconciliation": {"generation": 1, "state": "STABLE", "waits_for": []},
    "state": {"from": "Stable", "trigger": "m", "rule": "classic"},
    "target": {"assignments": {}},
}
"""Fields that no invariant reads."""


def event(name: str, /, **fields: Any) -> dict[str, Any]:
    return {**BASE, "event": name, **FIELDS.get(name, {}), **fields}


def member(change: str, member_id: str = "m", mono: float = 1.0) -> dict[str, Any]:
    return event("member", change=change, member_id=member_id, mono=mono)


def heartbeat(member_id: str = "m", arrived: float = 5.0) -> dict[str, Any]:
    request = {"member_id": member_id, "generation_id": 1}
    return event("exchange", api="Heartbeat", error=0, arrived=arrived, request=request, answer={})


def committed(partitions: Any) -> dict[str, Any]:
    request = {"member_id": "m", "generation_id_or_member_epoch": 1}
    answer = {"topics": [{"name": "t", "partitions": partitions}]}
    return event("exchange", api="OffsetCommit", error=0, arrived=5.0, request=request, answer=answer)


def state(generation: int, cause: str | None = "NEW_MEMBER") -> dict[str, Any]:
    return event("state", generation=generation, to="PreparingRebalance", cause=cause)


def joined(leader: str) -> dict[str, Any]:
    answer = {"members": [{}], "leader": leader, "member_id": "m", "generation_id": 1}
    request = {"session_timeout_ms": 1000, "rebalance_timeout_ms": 1000}
    return event("exchange", api="JoinGroup", error=0, arrived=1.0, request=request, answer=answer)


def fetched(offset: int) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "committed_offset": offset}]
    answer = {"topics": [{"name": "t", "partitions": partitions}]}
    return event("exchange", api="OffsetFetch", error=0, arrived=1.0, request={}, answer=answer)


def has(member_id: str, assigned: list[int], revoking: list[int]) -> dict[str, Any]:
    return event("reconciliation", member_id=member_id, assigned={"t": assigned}, revoking={"t": revoking})


def epoch(generation: int, cause: str | None = "NEW_MEMBER") -> dict[str, Any]:
    return event("epoch", generation=generation, cause=cause)


TWO_OWNERS = {"a": {"t": [0, 1]}, "b": {"t": [1]}}
COMMITTED = event("commit", error=0, offsets=[{"topic": "t", "partition": 0, "offset": 7}])


@pytest.mark.parametrize(
    ("invariant", "events"),
    [
        ("I1", [event("assignment", assignments=TWO_OWNERS)]),
        ("I1", [has("a", [0, 1], []), has("b", [1], [])]),
        ("I1", [has("a", [0, 1], []), has("a", [0], [1]), has("b", [1], [])]),
        ("I2", [state(2), state(1)]),
        ("I2", [epoch(2), epoch(2)]),
        ("I9", [epoch(2, None)]),
        ("I6", [heartbeat()]),
        ("I6", [member("added"), member("left", mono=2.0), heartbeat()]),
        ("I6", [committed({"partition_index": [0, 1], "error_code": [3, 0]})]),
        ("I6", [committed([{"partition_index": 0, "error_code": 3}, {"partition_index": 1, "error_code": 0}])]),
        ("I7", [joined("another")]),
        ("I8", [member("added"), member("fenced", mono=2.0), heartbeat()]),
        ("I9", [state(1, None)]),
        ("I10", [member("added"), member("left"), event("timer", change="fired", kind="session", member_id="m")]),
        ("I11", [COMMITTED, fetched(8)]),
    ],
)
def test_a_broken_invariant_is_reported(invariant: str, events: list[dict[str, Any]]) -> None:
    (violation,) = check(events)
    assert violation.startswith(f"{invariant} group g ")


@pytest.mark.parametrize(
    "events",
    [
        [event("assignment", assignments={"a": {"t": [0]}, "b": {"t": [1]}})],
        [has("a", [0, 1], []), has("a", [0], [1]), has("a", [0], []), has("b", [1], [])],
        [has("a", [0, 1], []), member("left", "a"), has("b", [0, 1], [])],
        [event("target", assignor="simple"), has("a", [0], []), has("b", [0], [])],
        [epoch(1), state(1), epoch(2)],
        [state(1), state(1), state(2)],
        [state(5), event("group", change="deleted"), state(0)],
        [member("added"), heartbeat()],
        [member("added"), member("left", mono=6.0), heartbeat()],
        [member("fenced", mono=2.0), member("added") | {"rule": "consumer"}, heartbeat()],
        [joined("m")],
        [committed({"partition_index": [0], "error_code": [3]})],
        [committed([{"partition_index": 0, "error_code": 3}])],
        [COMMITTED, fetched(7)],
        [fetched(-1)],
    ],
)
def test_a_correct_trace_has_no_violation(events: list[dict[str, Any]]) -> None:
    assert check(events) == []


def test_a_trace_is_read_in_the_order_of_its_files(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    (tmp_path / "trace.jsonl.2").write_text(json.dumps(state(2)) + "\n")
    (tmp_path / "trace.jsonl.10").write_text(json.dumps(state(3)) + "\n")
    path.write_text(json.dumps(state(4)) + "\n" + '{"cut off')
    assert check_trace(path) == []
    path.write_text(json.dumps(state(1)) + "\n")
    assert len(check_trace(path)) == 1
