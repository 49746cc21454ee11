"""Records of a classic group: each is a generation, and the difference of two shows the members that came and went."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_shim.persistence.batch import ABORT, CODECS, COMMIT, read_batch
from kafka_shim.persistence.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from kafka_shim.sources.offsets_topic.content import Content
from kafka_shim.sources.offsets_topic.story import TopicStory
from kafka_shim.trace.history import GroupHistory
from kafka_shim.trace.schema import problems
from kafka_shim.why.explanation import as_json, explain
from tests.sources.offsets_topic.segments import GROUP, START_MS, Partition

A, B, C = "app-a-1", "app-b-1", "app-c-1"


def batches(partition: Partition) -> list[Any]:
    found, position = [], 0
    while position < len(partition.data):
        batch_and_end = read_batch(partition.data, position)
        assert batch_and_end is not None
        batch, position = batch_and_end
        found.append(batch)
    return found


def events_of(partition: Partition) -> list[dict[str, Any]]:
    events = list(TopicStory({}).events(Content(7, GROUP).entries(batches(partition))))
    for seq, event in enumerate(events, 1):
        event["seq"] = seq
        assert problems(event) == []
        assert event["inferred"]
        assert event["where"].startswith("__consumer_offsets-7@")
    return events


def history_of(partition: Partition) -> GroupHistory:
    history = GroupHistory(partition.group)
    for event in events_of(partition):
        if event["event"] != "trace":
            history.add(event)
    return history


def causes(partition: Partition) -> list[tuple[int | None, str, str]]:
    return [(each.generation, each.cause, each.trigger) for each in history_of(partition).rebalances]


def test_members_that_come_and_go_are_the_difference_of_generations() -> None:
    made = Partition()
    made.generation(0, {})
    made.generation(1, {A: {"orders": [0, 1]}})
    made.generation(2, {A: {"orders": [0]}, B: {"orders": [1]}}, thinks=2.5)
    made.generation(3, {B: {"orders": [0, 1]}})
    made.generation(4, {})
    assert causes(made) == [(1, "NEW_MEMBER", A), (2, "NEW_MEMBER", B), (3, "MEMBER_GONE", A), (4, "MEMBER_GONE", B)]
    history = history_of(made)
    first, second, third, _ = history.rebalances
    assert (first.initial, second.initial) == (True, False)
    assert set(second.lines) == {"__consumer_offsets-7@2"}
    assert (second.seconds, second.protocol, second.leader) == (2.5, "range", A)
    assert third.moved is not None
    assert (third.moved.moved, third.moved.needed) == (1, 1)
    gone = history.members[A]
    assert (gone.how, gone.client_id, gone.client_host, gone.session_timeout_ms) == (
        "gone",
        "app-a",
        "/10.1.2.3",
        45000,
    )
    assert (history.state, history.present) == ("Empty", {})


def test_a_leader_that_thinks_for_long_is_shown() -> None:
    made = Partition()
    made.generation(1, {A: {"orders": [0, 1]}})
    made.generation(2, {A: {"orders": [0]}, B: {"orders": [1]}}, thinks=4.0)
    history = history_of(made)
    explanation = explain(history, list(history.rebalances))
    assert explanation is not None
    assert [(each.code, each.client, each.seconds) for each in explanation.troubles] == [("SLOW_LEADER", "app-a", 4.0)]


def test_a_new_generation_of_the_same_members_has_the_cause_that_differs() -> None:
    made = Partition()
    both = {A: {"orders": [0]}, B: {"orders": [1]}}
    made.generation(1, both)
    made.generation(2, both)
    made.generation(3, {A: {"orders": [0, 2]}, B: {"orders": [1]}})
    made.generation(4, {A: {"orders": [0, 2], "mail": [0]}, B: {"orders": [1]}}, topics={A: ["orders", "mail"]})
    assert causes(made)[1:] == [
        (2, "", ""),
        (3, "TOPIC_METADATA_CHANGED", ""),
        (4, "SUBSCRIPTION_CHANGED", A),
    ]


def test_a_follow_up_of_a_cooperative_group_is_known_by_the_partitions_that_were_left_open() -> None:
    made = Partition()
    made.generation(1, {A: {"orders": [0, 1]}}, protocol="cooperative-sticky")
    made.generation(2, {A: {"orders": [0]}, B: {}}, protocol="cooperative-sticky")
    made.generation(3, {A: {"orders": [0]}, B: {"orders": [1]}}, protocol="cooperative-sticky")
    assert causes(made)[1:] == [(2, "NEW_MEMBER", B), (3, "COOPERATIVE_FOLLOWUP", A)]


def test_a_static_member_is_replaced_and_the_generation_stays() -> None:
    made = Partition()
    made.generation(1, {"i-1": {"orders": [0]}}, instances={"i-1": "i"})
    made.generation(1, {"i-2": {"orders": [0]}}, instances={"i-2": "i"})
    assert causes(made) == [(1, "NEW_MEMBER", "i-1")]
    changes = [(each["member_id"], each["change"]) for each in events_of(made) if each["event"] == "member"]
    assert changes == [("i-1", "added"), ("i-1", "fenced"), ("i-2", "replaced")]


def test_the_oldest_record_of_a_compacted_group_is_no_rebalance() -> None:
    made = Partition()
    made.hole(100)
    made.generation(41, {A: {"orders": [0]}, B: {"orders": [1]}})
    made.generation(44, {A: {"orders": [0, 1]}})
    content = Content(7, GROUP)
    list(content.entries(batches(made)))
    assert content.complete_since == START_MS + 1010
    assert causes(made) == [(44, "MEMBER_GONE", B)]
    history = history_of(made)
    explanation = explain(history, list(history.rebalances))
    assert explanation is not None
    assert any(each.startswith("what happened in 2 generations without a record") for each in explanation.limits)
    assert history.rebalances[0].moved is not None


def test_a_new_life_of_a_name_begins_anew() -> None:
    made = Partition()
    made.generation(1, {A: {"orders": [0]}})
    made.generation(2, {})
    made.add((GroupMetadataKey(GROUP), None))
    made.generation(1, {C: {"orders": [0]}})
    assert causes(made) == [(1, "NEW_MEMBER", A), (2, "MEMBER_GONE", A), (1, "NEW_MEMBER", C)]
    assert [each["change"] for each in events_of(made) if each["event"] == "group"] == ["deleted"]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(codec: str) -> None:
    made = Partition()
    made.generation(1, {A: {"orders": [0]}}, codec=codec)
    assert causes(made) == [(1, "NEW_MEMBER", A)]


def test_answers_say_neither_calm_nor_trouble() -> None:
    made = Partition()
    made.generation(1, {A: {"orders": [0, 1]}})
    made.generation(2, {A: {"orders": [0]}, B: {"orders": [1]}})
    for has_gone in (False, True):
        if has_gone:
            made.generation(3, {A: {"orders": [0, 1]}})
        history = history_of(made)
        explanation = explain(history, list(history.rebalances))
        assert explanation is not None
        answer = as_json(explanation)
        assert (answer["calm"], explanation.is_calm, answer["remedies"]) == (None, False, [])
        assert "when a rebalance began" in " ".join(answer["cannot_tell"])
        assert ("whether app-b-1 left" in " ".join(answer["cannot_tell"])) == has_gone


def test_offsets_of_a_transaction_count_when_it_is_committed() -> None:
    made = Partition()
    producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    made.commit(1)
    made.commit(2, **producer)
    made.end_transaction(5, ABORT)
    made.commit(3, **producer)
    made.end_transaction(5, COMMIT)
    made.commit(4, **producer)
    content = Content(7, GROUP)
    entries = list(content.entries(batches(made)))
    values = [each.value for each in entries]
    assert [each.offset for each in values if isinstance(each, OffsetCommitValue)] == [1, 3]
    assert all(isinstance(each.key, OffsetCommitKey) for each in entries)
    assert content.records == 6


def test_records_of_other_groups_and_damaged_ones_do_no_harm() -> None:
    other = Partition("billing-2")
    other.generation(1, {A: {"orders": [0]}})
    made = Partition()
    made.data, made.offset = other.data, other.offset
    made.generation(1, {B: {"orders": [0]}})
    made.add((GroupMetadataKey(GROUP), OffsetCommitValue(1)))
    content = Content(7, GROUP)
    entries = list(content.entries(batches(made)))
    assert [each.group for each in entries] == [GROUP]
    assert (content.records, content.broken) == (3, 1)
