"""Heartbeats of streams groups: epochs, the delay of the first assignment, fencing, topics, tasks handed over."""

from __future__ import annotations

import pytest

from kafka_shim.apis.streams_group_heartbeat import Endpoint, StatusCode, TaskIds
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.persistence.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
)
from tests.groups.context import GROUP

from .context import Cluster, Member, one_subtopology, settle, word_count

AT_ONCE = "group.streams.initial.rebalance.delay.ms=0"
READS_T = one_subtopology("t")


def keys(cluster: Cluster) -> list[tuple[type, bool]]:
    """Types of the records written since this was last asked, and whether each has a value."""
    written = [(type(key), value is not None) for key, value in cluster.written]
    cluster.written.clear()
    return written


def started(cluster: Cluster, *member_ids: str) -> list[Member]:
    """A settled group with members that read `t`."""
    members = [cluster.member(each, READS_T) for each in member_ids]
    for member in members:
        member.join()
    settle(*members)
    return members


# The first assignment


def test_the_first_member_waits_for_others_at_epoch_1_of_a_group_that_begins_at_2() -> None:
    cluster = Cluster(t=2)
    answer = cluster.member("a", READS_T).join()
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 1, 5000)
    assert [each.status_code for each in answer.status or ()] == [StatusCode.ASSIGNMENT_DELAYED]
    assert (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks) == ([], [], [])
    assert keys(cluster) == [
        (StreamsGroupMemberMetadataKey, True),
        (StreamsGroupTopologyKey, True),
        (StreamsGroupMetadataKey, True),
        (StreamsGroupCurrentMemberAssignmentKey, True),
    ]
    assert (cluster.streams_group.group_epoch, cluster.streams_group.state) == (2, "Assigning")


def test_members_that_join_during_the_delay_get_tasks_after_it() -> None:
    cluster = Cluster(t=4)
    a, b = cluster.member("a", READS_T), cluster.member("b", READS_T)
    a.join()
    b.join()
    a.report()
    assert a.active == b.active == set()
    cluster.advance(2_900)
    assert cluster.streams_group.target_epoch == 1
    cluster.advance(200)
    assert cluster.streams_group.target_epoch == cluster.streams_group.group_epoch == 3
    settle(a, b)
    assert len(a.active) == len(b.active) == 2
    assert a.active | b.active == {("0", 0), ("0", 1), ("0", 2), ("0", 3)}
    assert a.statuses == []


def test_the_first_member_gets_all_tasks_at_once_without_a_delay() -> None:
    cluster = Cluster(AT_ONCE, t=2)
    answer = cluster.member("a", READS_T).join()
    assert (answer.member_epoch, answer.status, answer.active_tasks) == (2, [], [TaskIds("0", [0, 1])])
    assert keys(cluster) == [
        (StreamsGroupMemberMetadataKey, True),
        (StreamsGroupTopologyKey, True),
        (StreamsGroupMetadataKey, True),
        (StreamsGroupTargetAssignmentMemberKey, True),
        (StreamsGroupTargetAssignmentMetadataKey, True),
        (StreamsGroupCurrentMemberAssignmentKey, True),
    ]
    assert cluster.service.counters.new_epochs["streams"] == 1


def test_a_steady_heartbeat_writes_nothing_and_carries_no_tasks() -> None:
    cluster = Cluster(AT_ONCE, t=2)
    (a,) = started(cluster, "a")
    keys(cluster)
    answer = a.heartbeat()
    assert (answer.error_code, answer.member_epoch, answer.active_tasks) == (0, 2, None)
    assert keys(cluster) == []


def test_a_group_that_was_empty_waits_again() -> None:
    cluster = Cluster(t=2)
    a = cluster.member("a", READS_T)
    a.join()
    a.report()
    cluster.advance(3_000)
    settle(a)
    assert a.active
    a.leave()
    assert cluster.streams_group.state == "Empty"
    answer = a.join()
    assert [each.status_code for each in answer.status or ()] == [StatusCode.ASSIGNMENT_DELAYED]
    assert answer.active_tasks == []


# Tasks handed over


def test_a_task_goes_to_a_new_member_only_after_its_old_one_has_given_it_up() -> None:
    cluster = Cluster(AT_ONCE, t=4)
    (a,) = started(cluster, "a")
    b = cluster.member("b", READS_T)
    b.join()
    assert b.active == set(), "a runs everything still"
    assert (b.epoch, cluster.streams_group.state) == (3, "Reconciling")
    answer = a.heartbeat()
    assert (a.epoch, len(a.active)) == (2, 2), "it keeps its epoch until it says that it has given up"
    assert answer.active_tasks is not None
    a.heartbeat()
    assert a.epoch == 2, "who says nothing of tasks still has them"
    b.report()
    assert b.active == set()
    a.report()
    assert a.epoch == 3
    b.report()
    assert len(b.active) == 2
    assert not a.active & b.active
    assert cluster.streams_group.state == "Stable"


def test_a_member_that_does_not_give_up_in_time_is_removed() -> None:
    cluster = Cluster(AT_ONCE, t=4)
    (a,) = started(cluster, "a")
    b = cluster.member("b", READS_T)
    b.join()
    a.heartbeat()
    for _ in range(4):
        cluster.advance(10_000)
        b.heartbeat()
    assert set(cluster.streams_group.members) == {"b"}
    settle(b)
    assert len(b.active) == 4
    assert a.heartbeat().error_code == E.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_and_its_tasks_go_to_another() -> None:
    cluster = Cluster(AT_ONCE, t=4)
    a, b = started(cluster, "a", "b")
    for _ in range(5):
        cluster.advance(10_000)
        b.heartbeat()
    assert set(cluster.streams_group.members) == {"b"}
    settle(b)
    assert len(b.active) == 4
    assert a.heartbeat().error_code == E.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_is_answered_with_its_epoch_and_its_tasks_are_free() -> None:
    cluster = Cluster(AT_ONCE, t=4)
    a, b = started(cluster, "a", "b")
    keys(cluster)
    answer = a.leave()
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.status) == (0, "a", -1, [])
    assert keys(cluster) == [
        (StreamsGroupCurrentMemberAssignmentKey, False),
        (StreamsGroupTargetAssignmentMemberKey, False),
        (StreamsGroupMemberMetadataKey, False),
        (StreamsGroupMetadataKey, True),
    ]
    settle(b)
    assert len(b.active) == 4


def test_standbys_are_in_other_processes_and_take_over() -> None:
    cluster = Cluster(AT_ONCE, "group.streams.num.standby.replicas=1", t=4)
    topology = one_subtopology("t", stateful=True)
    members = [cluster.member(each, topology) for each in "abc"]
    for member in members:
        member.join()
    settle(*members)
    every = {("0", partition) for partition in range(4)}
    for role in ("active", "standby"):
        assert set().union(*(getattr(each, role) for each in members)) == every
    assert not any(each.active & each.standby for each in members)
    a, b, c = members
    lost = a.active
    assert lost
    expected = {task: each.member_id for each in (b, c) for task in each.standby & lost}
    a.leave()
    settle(b, c)
    took_over = {task: each.member_id for each in (b, c) for task in each.active & lost}
    assert took_over == expected


# Topics


def test_internal_topics_are_created_and_the_tasks_assigned_then() -> None:
    cluster = Cluster(AT_ONCE, lines=3)
    a = cluster.member("a", word_count())
    answer = a.join()
    (status,) = answer.status or ()
    assert (status.status_code, status.status_detail) == (
        StatusCode.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: counts, words",
    )
    assert cluster.streams_group.state == "NotReady"
    assert cluster.topics.partitions_of("words") == cluster.topics.partitions_of("counts") == 3
    settle(a)
    assert a.active == {(subtopology, partition) for subtopology in "01" for partition in range(3)}
    assert a.statuses == []


def test_answers_name_a_missing_source_topic_until_it_exists() -> None:
    cluster = Cluster(AT_ONCE)
    a = cluster.member("a", READS_T)
    (status,) = a.join().status or ()
    assert (status.status_code, status.status_detail) == (
        StatusCode.MISSING_SOURCE_TOPICS,
        "Source topics t are missing.",
    )
    cluster.create("t", 1)
    settle(a)
    assert (a.statuses, a.active) == ([], {("0", 0)})


def test_a_source_topic_that_grows_has_more_tasks() -> None:
    cluster = Cluster(AT_ONCE, t=1)
    (a,) = started(cluster, "a")
    cluster.create("t", 2)
    settle(a)
    assert a.active == {("0", 0), ("0", 1)}


def test_answers_name_a_changelog_with_another_number_of_partitions() -> None:
    cluster = Cluster(AT_ONCE, t=2, changelog=3)
    (status,) = cluster.member("a", one_subtopology("t", stateful=True)).join().status or ()
    assert (status.status_code, status.status_detail) == (
        StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
        "Existing topic changelog has different number of partitions: expected 2, found 3",
    )


# Topologies


def test_another_topology_at_the_same_epoch_is_refused_and_an_older_one_is_let_in() -> None:
    cluster = Cluster(AT_ONCE, t=1, lines=1)
    first = word_count(1)
    cluster.member("a", first).join()
    other = one_subtopology("t")
    other.epoch = 1
    answer = cluster.member("b", other).join()
    assert (answer.error_code, answer.error_message) == (
        E.INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )
    b = cluster.member("b", one_subtopology("t"))
    b.join()
    assert StatusCode.STALE_TOPOLOGY in b.statuses


def test_all_members_hear_the_shutdown_of_the_application() -> None:
    cluster = Cluster(AT_ONCE, t=2)
    a, b = started(cluster, "a", "b")
    a.heartbeat(shutdown_application=True)
    b.heartbeat()
    assert a.statuses == b.statuses == [StatusCode.SHUTDOWN_APPLICATION]
    a.leave()
    b.leave()
    b.join()
    assert StatusCode.SHUTDOWN_APPLICATION not in b.statuses


def test_members_hear_where_the_state_of_others_can_be_queried() -> None:
    cluster = Cluster(AT_ONCE, t=2)
    (a,) = started(cluster, "a")
    b = cluster.member("b", READS_T)
    b.join(user_endpoint=Endpoint("b.example", 4711))
    settle(a, b)
    a.endpoint_epoch = 0
    answer = a.heartbeat()
    (entry,) = answer.partitions_by_user_endpoint or ()
    assert (entry.user_endpoint.host, entry.user_endpoint.port) == ("b.example", 4711)
    assert {(each.topic, *each.partitions) for each in entry.active_partitions} == {
        ("t", partition) for _, partition in b.active
    }
    assert a.heartbeat().partitions_by_user_endpoint is None, "it has the newest"


# Fencing and refusal


def test_the_previous_epoch_is_accepted_after_a_lost_answer() -> None:
    cluster = Cluster(AT_ONCE, t=2)
    a = started(cluster, "a", "b")[0]
    cluster.member("c", READS_T).join()
    a.report(lost=True)
    assert a.report().error_code == 0


@pytest.mark.parametrize(("epoch", "word"), [(9, "greater"), (1, "smaller")])
def test_another_epoch_is_fenced(epoch: int, word: str) -> None:
    cluster = Cluster(AT_ONCE, t=2)
    a = started(cluster, "a", "b")[0]
    answer = a.heartbeat(member_epoch=epoch)
    assert answer.error_code == E.FENCED_MEMBER_EPOCH
    assert word in (answer.error_message or "")


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"warmup_tasks": [TaskIds("0", [0])]}, E.INVALID_REQUEST, "WarmupTasks must be empty when (re-)joining."),
        ({"member_id": ""}, E.INVALID_REQUEST, "MemberId can't be empty."),
        ({"group_id": " "}, E.INVALID_REQUEST, "GroupId can't be empty."),
        ({"rebalance_timeout_ms": -1}, E.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request."),
        ({"active_tasks": None}, E.INVALID_REQUEST, "ActiveTasks must be empty when (re-)joining."),
        ({"topology": None}, E.INVALID_REQUEST, "Topology must be non-null when (re-)joining."),
        ({"member_epoch": -3}, E.INVALID_REQUEST, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"member_epoch": 1}, E.INVALID_REQUEST, "Topology can only be provided when (re-)joining."),
        ({"member_epoch": -2}, E.INVALID_REQUEST, "InstanceId can't be null."),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(fields: dict[str, object], code: E, message: str) -> None:
    cluster = Cluster(t=1)
    answer = cluster.member("a", READS_T).join(**fields)
    assert (answer.error_code, answer.error_message) == (code, message)
    assert GROUP not in cluster.service.groups


def test_a_task_that_does_not_exist_is_refused() -> None:
    cluster = Cluster(AT_ONCE, t=1)
    (a,) = started(cluster, "a")
    a.active = {("0", 7)}
    assert a.report().error_code == E.INVALID_REQUEST
    a.active = {("9", 0)}
    assert a.report().error_message == "Subtopology 9 does not exist in the topology."


def test_unknown_members_and_groups_are_refused() -> None:
    cluster = Cluster(AT_ONCE, t=1)
    a = cluster.member("a", READS_T)
    assert a.heartbeat(member_epoch=1).error_code == E.GROUP_ID_NOT_FOUND
    started(cluster, "b")
    assert a.heartbeat(member_epoch=1).error_code == E.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses_more_members() -> None:
    cluster = Cluster(AT_ONCE, "group.streams.max.size=1", t=1)
    started(cluster, "a")
    assert cluster.member("b", READS_T).join().error_code == E.GROUP_MAX_SIZE_REACHED


def test_a_change_of_the_settings_of_a_group_is_a_new_epoch() -> None:
    cluster = Cluster(AT_ONCE, t=2)
    topology = one_subtopology("t", stateful=True)
    a, b = cluster.member("a", topology), cluster.member("b", topology)
    a.join()
    b.join()
    settle(a, b)
    epoch = cluster.streams_group.group_epoch
    cluster.settings_of[GROUP] = {"streams.num.standby.replicas": "1", "streams.heartbeat.interval.ms": "700"}
    assert a.report().heartbeat_interval_ms == 700
    assert cluster.streams_group.group_epoch == epoch + 1
    settle(a, b)
    assert a.standby == b.active
    assert b.standby == a.active


# Other kinds, other requests


def test_an_empty_group_becomes_a_classic_one_and_the_other_way_round() -> None:
    cluster = Cluster(AT_ONCE, t=1)
    (a,) = started(cluster, "a")
    a.leave()
    assert cluster.join("").error == E.MEMBER_ID_REQUIRED
    assert cluster.service.groups[GROUP].type == "classic"
    a.join()
    assert cluster.service.groups[GROUP].type == "streams"
    assert cluster.join("").error == E.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_is_listed_described_and_deleted_once_it_is_empty() -> None:
    cluster = Cluster(AT_ONCE, t=2)
    (a,) = started(cluster, "a")
    (listed,) = cluster.service.list([], ["streams"]).groups
    assert (listed.group_id, listed.group_state, listed.group_type, listed.protocol_type) == (
        GROUP,
        "Stable",
        "streams",
        "streams",
    )
    described = cluster.described_streams()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    assert described.topology is not None
    (subtopology,) = described.topology.subtopologies or ()
    assert (subtopology.subtopology_id, subtopology.source_topics) == ("0", ["t"])
    (member,) = described.members
    assert (member.member_id, member.process_id, member.client_host) == ("a", "a", "/127.0.0.1")
    assert member.assignment == member.target_assignment
    assert member.assignment.active_tasks == [TaskIds("0", [0, 1])]
    assert cluster.service.delete([GROUP], cluster.now)[0].error_code == E.NON_EMPTY_GROUP
    a.leave()
    assert cluster.service.delete([GROUP], cluster.now)[0].error_code == 0
    cluster.settle()
    assert cluster.described_streams().error_code == E.GROUP_ID_NOT_FOUND
    cluster.crash()
    assert GROUP not in cluster.service.groups


def test_a_group_is_the_same_after_a_crash_and_goes_on() -> None:
    cluster = Cluster(AT_ONCE, t=4)
    (a,) = started(cluster, "a")
    b = cluster.member("b", READS_T)
    b.join()
    a.heartbeat()
    before = cluster.described_streams()
    cluster.crash()
    after = cluster.described_streams()
    assert (after.group_state, after.group_epoch, after.members) == (
        before.group_state,
        before.group_epoch,
        before.members,
    )
    settle(a, b)
    assert len(a.active) == len(b.active) == 2
