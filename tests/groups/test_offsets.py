"""Offsets: permission to commit, fetches and deletion. Semantics 3.1, 3.3, 3.5."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis import offset_commit, offset_fetch
from kafka_shim.persistence.records import NO_TOPIC_ID, GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from kafka_shim.trace import schema
from tests.groups.offsets_coordinator import START_MS, Coordinator, topic_id
from tests.handling import handle

FOO0 = ("foo", 0)


def committed(error: int) -> dict[tuple[str, int], int]:
    return {FOO0: error}


# Permission to commit


def test_a_commit_from_outside_makes_a_simple_group_without_a_group_record() -> None:
    here = Coordinator()
    assert here.commit("grp", {FOO0: 5}) == committed(0)
    assert dict(here.store.load(0)) == {OffsetCommitKey("grp", "foo", 0): OffsetCommitValue(5, -1, "", START_MS)}
    assert here.fetch("grp", FOO0) == {FOO0: 5}
    assert here.service.groups["grp"].protocol_type is None


@pytest.mark.parametrize(("version", "error"), [(8, 22), (9, 69)])
def test_a_commit_with_a_generation_into_no_group(version: int, error: int) -> None:
    here = Coordinator()
    assert here.commit("grp", {FOO0: 5}, member="m", generation=1, version=version) == committed(error)
    assert "grp" not in here.service.groups


def test_the_empty_group_id_is_a_group() -> None:
    here = Coordinator()
    assert here.commit("", {FOO0: 5}) == committed(0)
    assert here.fetch("") == {FOO0: 5}


def test_an_empty_group_takes_any_commit_without_a_generation() -> None:
    here = Coordinator()
    member, _ = here.stable("grp", "foo")
    here.leave("grp", member)
    assert here.commit("grp", {FOO0: 5}, member="anybody", instance="nobody") == committed(0)
    assert here.commit("grp", {FOO0: 5}, member=member, generation=1) == committed(25)


def test_a_stable_group_judges_instance_then_member_then_generation() -> None:
    here = Coordinator()
    member, generation = here.stable("grp", "foo", instance="i")
    assert here.commit("grp", {FOO0: 1}, member=member, generation=generation) == committed(0)
    assert here.commit("grp", {FOO0: 1}, member=member, generation=generation, instance="i") == committed(0)
    assert here.commit("grp", {FOO0: 1}, member=member, generation=generation, instance="j") == committed(25)
    assert here.commit("grp", {FOO0: 1}, member="other", generation=generation, instance="i") == committed(82)
    assert here.commit("grp", {FOO0: 1}, member="other", generation=generation) == committed(25)
    assert here.commit("grp", {FOO0: 1}, member=member, generation=generation + 1) == committed(22)
    assert here.commit("grp", {FOO0: 1}, member=member, generation=-1) == committed(22)
    assert here.commit("grp", {FOO0: 1}, instance="i") == committed(82)
    assert here.commit("grp", {FOO0: 1}) == committed(25)


def test_rebalancing_27_while_completing_but_not_while_preparing() -> None:
    here = Coordinator()
    first, generation = here.stable("grp", "foo")
    second = here.join("grp", "foo")
    assert second is None
    assert here.service.groups["grp"].state == "PreparingRebalance"
    assert here.commit("grp", {FOO0: 1}, member=first, generation=generation) == committed(0)
    here.join("grp", "foo", member_id=first)
    assert here.service.groups["grp"].state == "CompletingRebalance"
    assert here.commit("grp", {FOO0: 2}, member=first, generation=generation + 1) == committed(27)
    assert here.commit("grp", {FOO0: 2}, member=first, generation=generation) == committed(22)
    assert here.fetch("grp", FOO0) == {FOO0: 1}


def test_a_commit_renews_the_session() -> None:
    here = Coordinator()
    member, generation = here.stable("grp", "foo", session_ms=10_000)
    for _ in range(4):
        here.advance(6)
        assert here.commit("grp", {FOO0: 1}, member=member, generation=generation) == committed(0)
    here.advance(11)
    assert here.commit("grp", {FOO0: 1}, member=member, generation=generation) == committed(25)


# Commits


def test_metadata_is_limited_in_utf16_code_units_for_that_partition_alone() -> None:
    here = Coordinator(offset_metadata_max_bytes=4)
    assert here.commit("a", {FOO0: 1}, metadata="😀😀") == committed(0)
    assert here.commit("b", {FOO0: 1}, metadata="😀😀x") == committed(12)
    assert here.commit("c", {FOO0: 1}, metadata="éééé") == committed(0)
    assert here.commit("d", {FOO0: 1}, metadata="12345") == committed(12)
    assert here.fetch("b", FOO0) == {FOO0: -1}


def test_one_partition_with_too_much_metadata_does_not_spoil_the_others() -> None:
    here = Coordinator(offset_metadata_max_bytes=4)
    parts = [
        offset_commit.OffsetCommitRequestPartition(0, 7, committed_metadata="12345"),
        offset_commit.OffsetCommitRequestPartition(1, 8, committed_metadata=None),
    ]
    request = offset_commit.OffsetCommitRequest(
        "grp", topics=[offset_commit.OffsetCommitRequestTopic("foo", partitions=parts)]
    )
    response = handle(request, here.call(9))
    assert [(each.partition_index, each.error_code) for each in response.topics[0].partitions] == [(0, 12), (1, 0)]
    (shown,) = here.fetched("grp").groups[0].topics
    assert [(each.partition_index, each.committed_offset, each.metadata) for each in shown.partitions] == [(1, 8, "")]


def test_a_commit_has_its_timestamps() -> None:
    here = Coordinator()
    here.advance(1.5)
    here.commit("grp", {FOO0: 1}, retention_ms=60_000, version=4)
    part = offset_commit.OffsetCommitRequestPartition(1, 2, commit_timestamp=123)
    request = offset_commit.OffsetCommitRequest(
        "grp", topics=[offset_commit.OffsetCommitRequestTopic("foo", partitions=[part])]
    )
    handle(request, here.call(1))
    here.settle()
    now = START_MS + 1500
    assert dict(here.store.load(0)) == {
        OffsetCommitKey("grp", "foo", 0): OffsetCommitValue(1, -1, "", now, now + 60_000),
        OffsetCommitKey("grp", "foo", 1): OffsetCommitValue(2, -1, "", 123),
    }


def test_any_offset_may_be_committed() -> None:
    here = Coordinator()
    here.commit("grp", {FOO0: 100})
    assert here.commit("grp", {FOO0: -7}) == committed(0)
    assert here.fetch("grp", FOO0) == {FOO0: -7}


# Topics and partitions that do not exist


def test_unknown_partitions_are_refused_first_and_the_rest_is_committed() -> None:
    here = Coordinator()
    partitions = {("nope", 0): 1, ("foo", 9): 1, ("foo", 1): 1, ("bar", 0): 1}
    answered = here.commit("grp", partitions)
    assert answered == {("nope", 0): 3, ("foo", 9): 3, ("foo", 1): 0, ("bar", 0): 0}
    assert list(answered) == [("nope", 0), ("foo", 9), ("foo", 1), ("bar", 0)]
    assert here.fetch("grp") == {("foo", 1): 1, ("bar", 0): 1}


def test_the_group_is_not_asked_if_nothing_is_left() -> None:
    here = Coordinator()
    assert here.commit("grp", {("nope", 0): 1}, member="m", generation=3) == {("nope", 0): 3}
    assert "grp" not in here.service.groups


def test_version_10_speaks_in_topic_ids() -> None:
    here = Coordinator()
    assert here.commit("grp", {("nope", 0): 1, ("foo", 9): 2, FOO0: 3}, version=10) == {
        ("nope", 0): 100,
        ("foo", 9): 3,
        FOO0: 0,
    }
    assert here.fetch("grp", FOO0, version=10) == {FOO0: 3}
    assert here.fetch("grp", version=10) == {FOO0: 3}
    (group,) = here.fetched("grp", ("nope", 0), FOO0, version=10).groups
    assert [(each.topic_id, each.partitions[0].error_code) for each in group.topics] == [
        (topic_id("foo"), 0),
        (topic_id("nope"), 100),
    ]


def test_an_offset_of_another_topic_of_the_same_name_is_not_shown() -> None:
    here = Coordinator()
    here.commit("grp", {FOO0: 3}, version=10)
    here.broker.topics.topic_name = lambda topic_id: "foo"  # type: ignore[method-assign]
    row = offset_fetch.OffsetFetchRequestGroup(
        "grp", topics=[offset_fetch.OffsetFetchRequestTopics(topic_id=b"1" * 16, partition_indexes=[0])]
    )
    response = handle(offset_fetch.OffsetFetchRequest(groups=[row]), here.call(10))
    assert response.groups[0].topics[0].partitions[0].committed_offset == -1
    assert here.fetch("grp", FOO0) == {FOO0: 3}


# Fetch


def test_a_missing_offset_is_minus_one_without_an_error() -> None:
    here = Coordinator()
    for group in ("none", "grp"):
        here.commit("grp", {FOO0: 5})
        (answer,) = here.fetched(group, ("bar", 1), ("nope", 4)).groups
        assert answer.error_code == 0
        for topic in answer.topics:
            (each,) = topic.partitions
            assert (each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code) == (
                -1,
                -1,
                "",
                0,
            )
    assert here.fetched("none").groups[0].topics == []


def test_an_empty_list_asks_for_nothing() -> None:
    here = Coordinator()
    here.commit("grp", {FOO0: 5})
    request = offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup("grp", topics=[])])
    assert handle(request, here.call(9)).groups[0].topics == []


def test_several_groups_in_one_request() -> None:
    here = Coordinator()
    here.commit("a", {FOO0: 1})
    here.commit("b", {FOO0: 2})
    groups = [offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in ("b", "a", "none")]
    response = handle(offset_fetch.OffsetFetchRequest(groups=groups), here.call(8))
    assert [(group.group_id, len(group.topics)) for group in response.groups] == [("b", 1), ("a", 1), ("none", 0)]


@pytest.mark.parametrize("version", range(8))
def test_older_versions_ask_for_one_group(version: int) -> None:
    here = Coordinator()
    here.commit("grp", {FOO0: 5})
    request = offset_fetch.OffsetFetchRequest("grp", [offset_fetch.OffsetFetchRequestTopic("foo", [0, 1])])
    response = offset_fetch.shape(handle(request, here.call(version)), version)
    again = offset_fetch.OffsetFetchResponse.decode(response.encode(version), version)
    assert [(each.partition_index, each.committed_offset) for each in again.topics[0].partitions] == [(0, 5), (1, -1)]


@pytest.mark.parametrize(("version", "on_partition", "on_top"), [(1, 14, 0), (2, None, 14), (7, None, 14)])
def test_older_versions_have_the_group_error_in_this_field(version: int, on_partition: int | None, on_top: int) -> None:
    here = Coordinator()
    here.service.unload(0, 0.0)
    here.service.begin_loading(0)
    request = offset_fetch.OffsetFetchRequest("grp", [offset_fetch.OffsetFetchRequestTopic("foo", [0])])
    response = offset_fetch.shape(handle(request, here.call(version)), version)
    again = offset_fetch.OffsetFetchResponse.decode(response.encode(version), version)
    assert again.error_code == on_top
    assert [each.error_code for topic in again.topics for each in topic.partitions] == (
        [] if on_partition is None else [on_partition]
    )


def test_a_partition_that_is_not_here() -> None:
    here = Coordinator()
    here.service.unload(0, 0.0)
    assert here.commit("grp", {FOO0: 1}) == committed(16)
    assert here.fetched("grp", FOO0).groups[0].error_code == 16
    assert here.delete_offsets("grp", FOO0).error_code == 16
    here.service.begin_loading(0)
    assert here.commit("grp", {FOO0: 1}) == committed(14)


def test_offsets_survive_a_restart() -> None:
    here = Coordinator()
    here.commit("grp", {FOO0: 5, ("bar", 2): 6})
    here.commit("grp", {FOO0: 7})
    here.restart()
    assert here.fetch("grp") == {FOO0: 7, ("bar", 2): 6}
    assert here.service.shards[0].offsets.count == 2
    assert here.commit("grp", {FOO0: 8}) == committed(0)


# Delete


def answered(response: object) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.error_code
        for topic in response.topics  # type: ignore[attr-defined]
        for each in topic.partitions
    }


def test_delete_writes_tombstones_and_ignores_missing_offsets() -> None:
    here = Coordinator()
    here.commit("grp", {FOO0: 5, ("foo", 1): 6})
    response = here.delete_offsets("grp", FOO0, ("bar", 0), ("nope", 0))
    assert response.error_code == 0
    assert answered(response) == {("nope", 0): 3, FOO0: 0, ("bar", 0): 0}
    assert here.fetch("grp") == {("foo", 1): 6}
    assert [key for key, _ in here.store.load(0)] == [OffsetCommitKey("grp", "foo", 1)]
    assert "grp" in here.service.groups


def test_delete_spares_subscribed_topics() -> None:
    here = Coordinator()
    here.commit("grp", {FOO0: 5, ("bar", 0): 6})
    here.stable("grp", "foo")
    assert answered(here.delete_offsets("grp", FOO0, ("bar", 0))) == {FOO0: 86, ("bar", 0): 0}
    assert here.fetch("grp") == {FOO0: 5}


def test_errors_of_a_delete_as_a_whole() -> None:
    here = Coordinator()
    for group, error in (("none", 69), ("", 24)):
        response = here.delete_offsets(group, FOO0, ("nope", 0))
        assert (response.error_code, response.topics) == (error, [])
    member, _ = here.stable("connect", protocol_type="connect", metadata=b"x")
    assert here.delete_offsets("connect", FOO0).error_code == 68
    here.leave("connect", member)
    assert here.delete_offsets("connect", FOO0).error_code == 0


def test_deleting_a_group_deletes_its_offsets() -> None:
    here = Coordinator()
    here.commit("grp", {FOO0: 5, ("bar", 0): 6})
    here.commit("other", {FOO0: 1})
    (result,) = here.service.delete(["grp"], 0.0)
    here.settle()
    assert result.error_code == 0
    assert [key for key, _ in here.store.load(0)] == [OffsetCommitKey("other", "foo", 0)]
    assert here.fetch("grp") == {}


# Trace and metrics


def test_commits_are_traced_by_the_schema() -> None:
    here = Coordinator()
    here.commit("grp", {FOO0: 5, ("foo", 1): 6})
    here.commit("grp", {FOO0: 5}, member="m", generation=4)
    first, second = here.events("commit")
    assert first["offsets"] == [
        {"topic": "foo", "partition": 0, "offset": 5},
        {"topic": "foo", "partition": 1, "offset": 6},
    ]
    assert (first["error"], second["error"], second["offsets"], second["generation"]) == (0, 25, [], 4)
    assert [problem for event in here.outbox.events for problem in schema.problems(event)] == []
    assert here.service.counters.offset_commits == 2


def test_a_fetch_waits_for_the_records_it_may_show() -> None:
    here = Coordinator()
    here.outbox.batch = 7
    here.outbox.required_batch = 0
    here.commit("grp", {FOO0: 5})
    assert here.outbox.required_batch == 7
    here.outbox.required_batch = 0
    here.outbox.batch = 8
    here.fetch("grp", FOO0)
    assert here.outbox.required_batch == 7


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["commit", "delete", "group", "topic", "restart"]),
            st.sampled_from(["a", "b"]),
            st.sampled_from(["foo", "bar"]),
            st.integers(0, 2),
            st.integers(0, 100),
        ),
        max_size=30,
    )
)
def test_a_committed_offset_changes_by_commit_and_deletion_alone(steps: list[tuple[str, str, str, int, int]]) -> None:
    here = Coordinator()
    model: dict[str, dict[tuple[str, int], int]] = {"a": {}, "b": {}}
    for what, group, topic, partition, offset in steps:
        if what == "commit":
            assert here.commit(group, {(topic, partition): offset}) == {(topic, partition): 0}
            model[group][topic, partition] = offset
        elif what == "delete":
            here.delete_offsets(group, (topic, partition))
            model[group].pop((topic, partition), None)
        elif what == "group":
            here.service.delete([group], here.now)
            model[group].clear()
        elif what == "topic":
            here.service.topic_deleted(topic, NO_TOPIC_ID, here.now)
            for offsets in model.values():
                for key in [key for key in offsets if key[0] == topic]:
                    del offsets[key]
        else:
            here.restart()
        here.settle()
        for name, offsets in model.items():
            assert here.fetch(name) == offsets
        assert here.service.shards[0].offsets.count == sum(map(len, model.values()))
    stored = {(key.group, (key.topic, key.partition)) for key, _ in here.store.load(0) if type(key) is OffsetCommitKey}
    assert stored == {(group, key) for group, offsets in model.items() for key in offsets}
    assert GroupMetadataKey("a") not in dict(here.store.load(0))
