"""Generated data keeps to the schema of the trace, and is the same for the same seed."""

import hashlib
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="PyArrow is not installed (requirements/spark.txt)")

from kafka_shim.groups.causes import Cause
from kafka_shim.groups.trace import problems
from kafka_shim.pipeline.generate.faults import Fault, plan
from kafka_shim.pipeline.generate.write import generate
from kafka_shim.pipeline.jobs.invariants import CAUSES
from kafka_shim.pipeline.sources.shim_trace import files


def test_every_event_is_of_the_schema_in_order_and_without_gaps(data: Path) -> None:
    last = {"seq": -1, "mono": 0.0}
    kinds: Counter[str] = Counter()
    for path in sorted((data / "trace").rglob("*.jsonl")):
        with path.open() as file:
            for text in file:
                event = json.loads(text)
                kinds[event["event"]] += 1
                if event["event"] != "exchange" or kinds["exchange"] < 5_000:
                    assert problems(event) == []
                assert event["seq"] == last["seq"] + 1
                assert event["mono"] >= last["mono"]
                last = event
    assert {*kinds} == {"group", "member", "state", "round", "assignment", "exchange", "commit"}


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_same_seed_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not in the same second: nothing may have the time in it. Group 3 is in a partition compressed by gzip.
    monkeypatch.setattr("time.time", itertools.count(2e9, 5).__next__)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(tmp_path / name, groups=4, seed=seed)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert digest(tmp_path / "a") != digest(tmp_path / "c")
    with pytest.raises(FileExistsError):
        generate(tmp_path / "a", groups=1)


@pytest.mark.parametrize("events", [2_000, 10_001])
def test_as_many_events_as_one_wants_packed_or_not(tmp_path: Path, events: int) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for folder in (plain, packed):
        volume = generate(folder, groups=3, events=events, nodes=2, segments=False, packed=folder == packed)
        assert volume.events == events
    lines = []
    for folder in (plain, packed):
        found = files(str(folder / "trace"))
        assert [place.is_packed for place in found] == [folder == packed] * 2
        lines.append([place.open().read() for place in found])
    assert lines[0] == lines[1]
    assert sum(text.count(b"\n") for text in lines[0]) == events


def test_every_fault_is_there_and_listed(faults: list[dict[str, Any]]) -> None:
    planned = plan(24, 11)
    assert {*planned} >= {*Fault} - {Fault.NONE}
    kinds = {fault["kind"] for fault in faults}
    assert kinds >= {"storm", "slow_member", "slow_leader", "session_expired", "poll_timeout", "bounce", "near_miss"}
    assert kinds >= {"commit_regression", "commit_gap", "damage", "rebalance", "violation"}
    listed = {fault["invariant"] for fault in faults if fault["kind"] == "violation"}
    assert listed == {"I1", "I2", "I6", "I7", "I8", "I9", "I11"}


def test_the_causes_are_those_of_the_coordinator() -> None:
    assert {*CAUSES} == {cause.value for cause in Cause}
