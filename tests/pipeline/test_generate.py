"""Generated data keeps to the schema of the trace, and is the same for the same seed."""

import hashlib
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="PyArrow is not installed (requirements/spark.txt)")

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from kafka_shim.apis.wire import Message
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.trace import problems
from kafka_shim.pipeline.generate import heartbeats
from kafka_shim.pipeline.generate.epoch_model import EpochGroup
from kafka_shim.pipeline.generate.faults import OF_KIND, Fault, Kind, Part, plan
from kafka_shim.pipeline.generate.telling import Member
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
    of_every_kind = {"group", "member", "state", "exchange", "commit"}
    assert {*kinds} == of_every_kind | {"round", "assignment"} | {"epoch", "target", "reconciliation"}


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


def test_groups_of_every_kind_go_on_for_as_many_events_as_one_wants(tmp_path: Path) -> None:
    # More than the half hour that each group has at least.
    assert generate(tmp_path / "data", groups=26, events=120_000, segments=False).events == 120_000


def test_every_fault_is_there_and_listed(faults: list[dict[str, Any]]) -> None:
    planned = plan(28, 11)
    assert {*planned} >= {Part(kind, fault) for kind, of_kind in OF_KIND.items() for fault in of_kind}
    assert {part.fault for part in planned} >= {*Fault} - {Fault.NONE}
    kinds = {fault["kind"] for fault in faults}
    assert kinds >= {"storm", "slow_member", "slow_leader", "session_expired", "poll_timeout", "bounce", "near_miss"}
    assert kinds >= {"commit_regression", "commit_gap", "damage", "rebalance", "violation", "fenced"}
    listed = {fault["invariant"] for fault in faults if fault["kind"] == "violation"}
    assert listed == {"I1", "I2", "I6", "I7", "I8", "I9", "I11"}


def test_the_causes_are_those_of_the_coordinator() -> None:
    assert {*CAUSES} == {cause.value for cause in Cause}


def test_forty_groups_have_some_of_each_kind_and_classic_groups_are_not_touched_by_the_others(tmp_path: Path) -> None:
    parts = plan(40, 0)
    assert [part.kind for part in parts[:16]] == [Kind.CLASSIC] * 16
    counts = Counter(part.kind for part in parts)
    assert counts == {Kind.CLASSIC: 28, Kind.CONSUMER: 6, Kind.SHARE: 3, Kind.STREAMS: 3}
    # In the long run one in eight is of another kind.
    assert Counter(part.kind is Kind.CLASSIC for part in plan(816, 0)[26:])[False] == 99
    assert plan(40, 0)[:30] == plan(30, 0)


@pytest.mark.parametrize(
    ("kind", "asks", "answers"),
    [
        (Kind.CONSUMER, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse),
        (Kind.SHARE, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
        (Kind.STREAMS, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse),
    ],
)
def test_heartbeats_with_epochs_have_the_fields_of_their_messages(
    kind: Kind, asks: type[Message], answers: type[Message]
) -> None:
    member = Member("client", "member", "/10.0.0.1", 1, None, epoch=3)
    joins = heartbeats.request(kind, "group", member, heartbeats.JOIN, ["a", "b"], [])
    goes_on = heartbeats.request(kind, "group", member, 3, ["a", "b"], None)
    answered = heartbeats.answer(kind, member, 3, [("a", 0)])
    refused = heartbeats.answer(kind, member, 3, error=110)
    assert joins.keys() == goes_on.keys() == {field.name for field in asks.fields}
    assert answered.keys() == refused.keys() == {field.name for field in answers.fields}
    assert heartbeats.APIS[kind].version in asks.versions


@pytest.mark.parametrize("part", [part for part in plan(28, 0) if part.kind is not Kind.CLASSIC], ids="-".join)
def test_a_group_with_epochs_comes_to_its_target_and_nobody_has_what_another_has(part: Part) -> None:
    group = EpochGroup(20, 0, part.kind, part.fault, 1_000.0, 1_800.0, 3)
    owned: dict[str, dict[str, list[int]]] = {}
    epoch, before = 0, 0.0
    twice = 0
    for at, event, text in group.run():
        assert at >= before
        before = at
        fields = json.loads(f"{{{text}}}")
        if event == "epoch":
            assert fields["generation"] == max(epoch + 1, 1 + (part.kind is Kind.STREAMS))
            epoch = fields["generation"]
        elif event == "member" and fields["change"] in ("left", "expired", "fenced"):
            del owned[fields["member_id"]]
        elif event == "reconciliation":
            owned[fields["member_id"]] = fields["assigned"]
            assert bool(fields["waits_for"]) == fields["state"].startswith("UNRELEASED")
            every = [(topic, n) for each in owned.values() for topic, numbers in each.items() for n in numbers]
            twice += part.kind is not Kind.SHARE and len(every) != len(set(every))
    assert (twice > 0) == (part.fault is Fault.TWO_OWNERS)
    assert {(each.epoch, each.state) for each in group.members} == {(epoch, "STABLE")}
    assert {each for member in group.members for each in member.owned} == set(group.partitions)
