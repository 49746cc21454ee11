"""The recording of a real Kafka with real consumers through the relay: the tables confirm its story.

`recordings/README.md` describes how the recording was made.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.pipeline.run import answers
from kafka_shim.pipeline.warehouse import Warehouse

RECORDING = Path(__file__).parent / "recordings" / "kafka-4.2"


@pytest.fixture(scope="module")
def story() -> list[dict[str, Any]]:
    story: list[dict[str, Any]] = json.loads((RECORDING / "story.json").read_text())
    return story


@pytest.fixture
def recorded(recorded_day: Warehouse) -> Warehouse:
    return recorded_day


def test_every_rebalance_has_its_step_of_the_story(recorded: Warehouse, story: list[dict[str, Any]]) -> None:
    causes = {"started": "NEW_MEMBER", "killed": "SESSION_EXPIRED", "closed": "MEMBER_LEFT"}
    done = [(e["group"], causes[e["what"]], e["member_id"]) for e in story if e["rounds"]]
    rows = recorded.read("rounds").orderBy("seq").collect()
    assert all(row.inferred for row in rows)
    found = [(row.group_id, row.cause, row.trigger) for row in rows]
    # A cooperative group rebalances once more when revoked partitions get their new owners; otherwise never.
    followed = [each for each in found if each[1] == "COOPERATIVE_FOLLOWUP"]
    assert {group for group, _, _ in followed} == {"shipping"}
    assert Counter(found) - Counter(followed) == Counter(done)
    assert {cause for _, cause, _ in found} == {*causes.values(), "COOPERATIVE_FOLLOWUP"}


def test_killed_members_expire_or_are_fenced(recorded: Warehouse, story: list[dict[str, Any]]) -> None:
    members = {row.member_id: row for row in recorded.read("membership").collect()}
    for event in story:
        if event["what"] == "killed":
            member = members[event["member_id"]]
            # A static member that returned within its session was replaced, without a rebalance.
            assert member.how == ("expired" if event["rounds"] else "fenced")
        elif event["what"] == "closed":
            assert members[event["member_id"]].how == "left"
    rounds = {row.trigger: row for row in recorded.read("rounds").where("cause = 'SESSION_EXPIRED'").collect()}
    for event in story:
        if event["what"] == "killed" and event["rounds"]:
            silent_s = rounds[event["member_id"]].started_at.timestamp() - event["at"]
            # Its session of six seconds began with its last heartbeat, at most half a second before it was killed.
            assert 5.0 < silent_s < 6.1


def test_rounds_distinguish_three_kinds_of_clients(recorded: Warehouse) -> None:
    rows = recorded.read("rounds").groupBy("group_id", "protocol", "cooperative").count().collect()
    assert {(row.group_id, row.protocol, row.cooperative) for row in rows} == {
        ("billing", "range", False),
        ("shipping", "cooperative-sticky", True),
        ("audit", "range", False),
    }
    names = {row.client_id.rsplit("-", 1)[0] for row in recorded.read("membership").collect()}
    assert names == {"kafka-python-3.0", "confluent-kafka-2.16", "java-4.2.2"}


def test_trace_and_segments_have_the_same_offsets(recorded: Warehouse) -> None:
    rows = recorded.result("agreement").collect()
    assert len(rows) == 6 + 6 + 4
    assert all(row.agree and row.only_in_trace == 0 and row.only_in_segments == 0 for row in rows)
    history = recorded.read("offset_history").where("what = 'commit'").groupBy("source").count().collect()
    counts = {row.source: row["count"] for row in history}
    assert counts["trace"] == counts["segments"] > 30


def test_a_real_kafka_breaks_no_invariant(recorded: Warehouse) -> None:
    assert recorded.read("violations").collect() == []
    assert recorded.read("quarantine").collect() == []


def test_fetches_of_consumers_give_the_lag(recorded: Warehouse) -> None:
    rows = recorded.read("lag").collect()
    assert {(row.group_id, row.topic) for row in rows} == {
        ("billing", "orders"),
        ("shipping", "shipments"),
        ("audit", "payments"),
    }
    # Every group had consumed all records when it committed.
    assert {row.lag for row in rows} == {0}
    assert {row.end_offset for row in rows} == {100, 150, 200, 300}


def test_every_job_has_an_answer(recorded: Warehouse) -> None:
    for name in answers(recorded):
        assert recorded.result(name).columns, name
    pauses = {row.cooperative: row for row in recorded.result("cost").collect()}
    assert pauses[False].needless_ms > 0
    gaps = recorded.result("heartbeat_gaps").collect()
    assert all(row.share < 1 for row in gaps)
    assert {row.session_timeout_ms for row in gaps if row.session_timeout_ms} == {6000}
