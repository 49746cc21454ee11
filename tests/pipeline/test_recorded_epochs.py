"""The recording of a real Kafka with members of consumer, share and streams groups: the tables confirm its story.

They also agree with Kafka's own description of the groups after every step. `recordings/README.md` describes how the
recording was made.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_shim.pipeline.jobs.offsets import agreement
from kafka_shim.pipeline.jobs.rebalances import blame, cost
from kafka_shim.pipeline.warehouse import Warehouse
from tests.pipeline.conftest import RECORDINGS

Story = list[dict[str, Any]]
KINDS = {"dispatch": "consumer", "audit": "consumer", "fanout": "share", "copier": "streams"}
CAUSES = {
    "started": "NEW_MEMBER",
    "subscribed": "SUBSCRIPTION_CHANGED",
    "killed": "SESSION_EXPIRED",
    "closed": "MEMBER_LEFT",
    "grew": "TOPIC_METADATA_CHANGED",
}


@pytest.fixture(scope="module")
def story() -> Story:
    story: Story = json.loads((RECORDINGS / "kafka-4.2-epochs" / "story.json").read_text())
    return story


class Recorded:
    """The rows of the recording in the tables of groups with epochs."""

    def __init__(self, tables: Warehouse) -> None:
        self._tables = tables

    def read(self, name: str) -> DataFrame:
        rows = self._tables.read(name)
        return rows.where(F.col("group_id").isin(*KINDS)) if "group_id" in rows.columns else rows


@pytest.fixture
def recorded(with_epochs: Warehouse) -> Recorded:
    return Recorded(with_epochs)


def test_every_epoch_has_its_step_of_the_story(recorded: Recorded, story: Story) -> None:
    rows = {(row.group_id, row.generation): row for row in recorded.read("rounds").collect()}
    assert {(row.group_id, row.kind) for row in rows.values()} == set(KINDS.items())
    assert all(row.inferred for row in rows.values())
    without_cause = set()
    for step in story:
        before, after = step["epochs"]
        # A streams group begins with epoch 2, and a static member that returns causes no epoch.
        first, *more = range(before + 1 + (step["kind"] == "streams" and before == 0), after + 1) or [None]
        if first is None:
            assert step["what"] == "back"
            continue
        row = rows.pop((step["group"], first))
        if step["what"] == "grew":
            # The first member to learn of the epoch may get none of the new partitions: then nothing shows the cause.
            assert row.cause in ("", CAUSES["grew"])
            without_cause |= {step["group"]} if row.cause == "" else set()
        else:
            assert (row.cause, row.trigger) == (
                CAUSES[step["what"]],
                step["gone"][0] if step["gone"] else step["member_id"],
            )
        for epoch in more:
            # A share group gives orphaned partitions to other members in one more epoch.
            assert step["kind"] == "share"
            assert rows.pop((step["group"], epoch)).cause == "TOPIC_METADATA_CHANGED"
    assert rows == {}
    assert "copier" not in without_cause


def test_a_member_slow_to_revoke_is_blamed(recorded: Recorded, story: Story) -> None:
    slow, second, *_ = (step["member_id"] for step in story if step["group"] == "dispatch")
    row = (
        recorded.read("rounds")
        .where(f"group_id = 'dispatch' and trigger = '{second}' and cause = 'NEW_MEMBER'")
        .first()
    )
    assert row is not None
    # Its listener takes three seconds, then it reaches the epoch at once; it learned of the epoch by a heartbeat.
    assert row.blamed == slow
    assert 3_000 <= row.blamed_ms < 5_500
    assert row.blamed_ms <= row.total_ms
    assert row.blamed_ms - row.behind_ms == row.waited_for[1].ms < 1_000
    waits = recorded.read("events").where(f"group_id = 'dispatch' and member_id = '{second}'")
    waited = waits.where("to_state = 'UNRELEASED_PARTITIONS' and generation = 2").collect()
    assert {each.member_id for row in waited for each in row.waited_for} == {slow}
    pauses = recorded.read("partition_pauses").where("group_id = 'dispatch' and generation = 2 and moved").collect()
    assert {(row.from_member, row.to_member) for row in pauses} == {(slow, second)}
    assert all(row.ms > 3_000 for row in pauses)


def test_membership_has_the_end_of_each_stay(recorded: Recorded, story: Story) -> None:
    members = {row.member_id: row for row in recorded.read("membership").collect()}
    hows = {"killed": "expired", "closed": "left", "back": "fenced"}
    causes = {member_id: hows[step["what"]] for step in story for member_id in step["gone"]}
    assert Counter(causes.values()) == {"expired": 4, "left": 3, "fenced": 1}
    assert {member_id: row.how for member_id, row in members.items() if row.how} == causes
    client_ids = {member_id: each["client_id"] for step in story for member_id, each in step["members"].items()}
    assert {member_id: row.client_id for member_id, row in members.items()} == client_ids
    for step in story:
        if step["what"] == "killed":
            silent_s = members[step["gone"][0]].left_at.timestamp() - step["at"]
            # Its session of nine seconds began with its last heartbeat, at most one second before; the other members
            # learn of its end by a heartbeat of their own.
            assert 8 < silent_s < 11


def test_ownership_agrees_with_kafka_after_every_step(recorded: Recorded, story: Story) -> None:
    rows = recorded.read("ownership").collect()
    assert {(row.group_id, row.kind) for row in rows} == set(KINDS.items())
    for step, later in zip(story, [*story[1:], None], strict=True):
        same = later is not None and later["group"] == step["group"]
        at = later["at"] if later is not None and same else float("inf")
        owned: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in step["members"]}
        for row in rows:
            until = float("inf") if row.owned_until is None else row.owned_until.timestamp()
            if row.group_id == step["group"] and row.owned_from.timestamp() <= at <= until:
                owned[row.member_id].setdefault(row.topic, []).append(row.partition)
        has = {m: {topic: sorted(numbers) for topic, numbers in each.items()} for m, each in owned.items()}
        assert has == {m: each["assigned"] for m, each in step["members"].items()}, step


def test_trace_and_segments_have_the_same_offsets(recorded: Recorded) -> None:
    rows = agreement(recorded.read("offset_history")).collect()
    assert {KINDS[row.group_id] for row in rows} == {"consumer", "streams"}
    assert all(row.agree and row.only_in_trace == 0 and row.only_in_segments == 0 for row in rows)
    history = recorded.read("offset_history").where("what = 'commit'").groupBy("source").count().collect()
    counts = {row.source: row["count"] for row in history}
    assert counts["trace"] == counts["segments"] > 20


def test_the_segments_have_records_of_every_kind(recorded: Recorded) -> None:
    kinds = Counter(row.kind for row in recorded.read("log_records").collect())
    for name in ("ConsumerGroup", "ShareGroup", "StreamsGroup"):
        for what in ("Metadata", "MemberMetadata", "TargetAssignmentMember", "CurrentMemberAssignment"):
            assert kinds[f"{name}{what}"] > 0, kinds


def test_a_real_kafka_breaks_no_invariant(recorded: Recorded) -> None:
    assert recorded.read("violations").collect() == []
    assert recorded.read("quarantine").collect() == []
    assert recorded.read("gaps").collect() == []


def test_the_answers_distinguish_the_kinds(recorded: Recorded) -> None:
    rounds, pauses = recorded.read("rounds"), recorded.read("partition_pauses")
    costs = cost(rounds, recorded.read("member_pauses"), pauses).collect()
    assert {row.kind for row in costs} == {"consumer", "share", "streams"}
    blamed = blame(rounds, recorded.read("membership")).collect()
    assert {(row.group_id, row.role) for row in blamed} == {(group, "member") for group in KINDS}
