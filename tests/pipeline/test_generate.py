"""Generated data conforms to the schema of the trace, and the same seed gives the same data."""

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
from kafka_shim.pipeline.generate import heartbeats
from kafka_shim.pipeline.generate.epoch_group import EpochGroup
from kafka_shim.pipeline.generate.faults import OF_KIND, Fault, Kind, Role, plan
from kafka_shim.pipeline.generate.trace_events import Member
from kafka_shim.pipeline.generate.write import generate
from kafka_shim.pipeline.sources.shim_trace import files
from kafka_shim.trace.schema import problems


def test_every_event_conforms_to_the_schema_in_order_without_gaps(data: Path) -> None:
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


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In different seconds: no file may contain the time. Group 3 is in a partition compressed by gzip.
    monkeypatch.setattr("time.time", itertools.count(2e9, 5).__next__)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        generate(tmp_path / name, groups=4, seed=seed)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert digest(tmp_path / "a") != digest(tmp_path / "c")
    with pytest.raises(FileExistsError):
        generate(tmp_path / "a", groups=1)


@pytest.mark.parametrize("events", [2_000, 10_001])
def test_option_events_sets_the_number_of_events(tmp_path: Path, events: int) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for folder in (plain, packed):
        volume = generate(folder, groups=3, events=events, nodes=2, segments=False, packed=folder == packed)
        assert volume.events == events
    lines = []
    for folder in (plain, packed):
        paths = files(str(folder / "trace"))
        assert [place.is_packed for place in paths] == [folder == packed] * 2
        lines.append([place.open().read() for place in paths])
    assert lines[0] == lines[1]
    assert sum(text.count(b"\n") for text in lines[0]) == events


def test_groups_of_every_kind_last_for_many_events(tmp_path: Path) -> None:
    # More events than in the half hour that each group lasts at least.
    assert generate(tmp_path / "data", groups=26, events=120_000, segments=False).events == 120_000


def test_every_fault_is_planned_and_listed(faults: list[dict[str, Any]]) -> None:
    planned = plan(28, 11)
    assert {*planned} >= {Role(kind, fault) for kind, of_kind in OF_KIND.items() for fault in of_kind}
    assert {role.fault for role in planned} >= {*Fault} - {Fault.NONE}
    kinds = {fault["kind"] for fault in faults}
    assert kinds >= {"storm", "slow_member", "slow_leader", "session_expired", "poll_timeout", "bounce", "near_miss"}
    assert kinds >= {"commit_regression", "commit_gap", "damage", "rebalance", "violation", "fenced"}
    listed = {fault["invariant"] for fault in faults if fault["kind"] == "violation"}
    assert listed == {"I1", "I2", "I6", "I7", "I8", "I9", "I11"}


def test_forty_groups_include_each_kind_and_keep_the_classic_ones(tmp_path: Path) -> None:
    roles = plan(40, 0)
    assert [role.kind for role in roles[:16]] == [Kind.CLASSIC] * 16
    counts = Counter(role.kind for role in roles)
    assert counts == {Kind.CLASSIC: 28, Kind.CONSUMER: 6, Kind.SHARE: 3, Kind.STREAMS: 3}
    # In the long run one in eight is of another kind.
    assert Counter(role.kind is Kind.CLASSIC for role in plan(816, 0)[26:])[False] == 99
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


@pytest.mark.parametrize("role", [role for role in plan(28, 0) if role.kind is not Kind.CLASSIC], ids="-".join)
def test_a_group_with_epochs_reaches_its_target_and_members_share_no_partition(role: Role) -> None:
    group = EpochGroup(20, 0, role.kind, role.fault, 1_000.0, 1_800.0, 3)
    owned: dict[str, dict[str, list[int]]] = {}
    epoch, before = 0, 0.0
    twice = 0
    for at, event, text in group.run():
        assert at >= before
        before = at
        fields = json.loads(f"{{{text}}}")
        if event == "epoch":
            assert fields["generation"] == max(epoch + 1, 1 + (role.kind is Kind.STREAMS))
            epoch = fields["generation"]
        elif event == "member" and fields["change"] in ("left", "expired", "fenced"):
            del owned[fields["member_id"]]
        elif event == "reconciliation":
            owned[fields["member_id"]] = fields["assigned"]
            assert bool(fields["waits_for"]) == fields["state"].startswith("UNRELEASED")
            every = [(topic, n) for each in owned.values() for topic, numbers in each.items() for n in numbers]
            twice += role.kind is not Kind.SHARE and len(every) != len(set(every))
    assert (twice > 0) == (role.fault is Fault.TWO_OWNERS)
    assert {(each.epoch, each.state) for each in group.members} == {(epoch, "STABLE")}
    assert {each for member in group.members for each in member.owned} == set(group.partitions)
