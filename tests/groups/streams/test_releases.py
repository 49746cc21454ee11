"""Rules of streams groups since Kafka 4.4: static members, offsets of tasks, endpoints, roles that change in place."""

from __future__ import annotations

import pytest

from kafka_shim.apis.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, shape
from kafka_shim.groups.streams.reconcile import reconcile
from kafka_shim.groups.streams.records import AssignedTasks, Member, Tasks
from kafka_shim.groups.streams.states import MemberState
from kafka_shim.persistence.records import StreamsGroupCurrentMemberAssignmentKey, StreamsGroupMetadataKey
from tests.groups.context import GROUP

from .context import Cluster, one_subtopology

SETTINGS = ("group.streams.initial.rebalance.delay.ms=0",)
READS_T = one_subtopology("t")


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(*SETTINGS, t=2)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"task_offsets": [TaskOffset("0", 0, 1)]}, "TaskOffsets are not supported yet."),
        ({"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
        ({"warmup_tasks": [TaskIds("0", [0])]}, "WarmupTasks are not supported yet."),
    ],
)
def test_features_of_4_4_are_refused_before(fields: dict[str, object], message: str) -> None:
    answer = Cluster(*SETTINGS, release="4.3", t=2).member("a", READS_T).join(**fields)
    assert (answer.error_code, answer.error_message) == (42, message)


@pytest.mark.parametrize("release", ["4.2", "4.3", "4.4"])
def test_the_first_epoch_is_two_in_each_release(release: str) -> None:
    cluster = Cluster(*SETTINGS, release=release, t=2)
    assert [cluster.member("a", READS_T).join().member_epoch, cluster.streams_group.group_epoch] == [2, 2]


def test_an_answer_tells_how_often_offsets_are_reported(cluster: Cluster) -> None:
    answer = cluster.member("a", READS_T).join()
    assert (answer.task_offset_interval_ms, answer.acceptable_recovery_lag) == (60_000, 10_000)
    assert cluster.described_streams().assignor_name == "sticky"
    before = Cluster(*SETTINGS, release="4.3", t=2).member("a", READS_T).join()
    assert before.task_offset_interval_ms == 0
    refused = cluster.member("b", READS_T).heartbeat(member_epoch=5)
    assert (refused.error_code, refused.task_offset_interval_ms, refused.acceptable_recovery_lag) == (25, 0, -1)


def test_an_instance_id_belongs_to_one_member(cluster: Cluster) -> None:
    one, two = cluster.member("one", READS_T), cluster.member("two", READS_T)
    assert one.join(instance_id="i").error_code == 0
    answer = two.join(instance_id="i")
    assert (answer.error_code, answer.error_message) == (
        111,
        "Static member two with instance id i cannot join the group because the instance id is owned by one member.",
    )
    answer = two.heartbeat(instance_id="i", member_epoch=2)
    assert (answer.error_code, answer.error_message) == (
        82,
        "Static member two with instance id i was fenced by member one.",
    )
    answer = one.heartbeat(instance_id="j")
    assert (answer.error_code, answer.error_message) == (25, "Instance id j is unknown.")
    answer = one.heartbeat(member_epoch=-2)
    assert (answer.error_code, answer.error_message) == (42, "InstanceId can't be null.")


def test_the_successor_of_a_static_member_takes_over_its_tasks_at_the_same_epoch(cluster: Cluster) -> None:
    one, two = cluster.member("one", READS_T, process="p"), cluster.member("two", READS_T, process="p")
    one.join(instance_id="i")
    answer = one.heartbeat(instance_id="i", member_epoch=-2)
    assert (answer.error_code, answer.member_epoch) == (0, -2)
    assert cluster.described_streams().group_state == "Reconciling"
    key = next(key for key, _ in cluster.written if isinstance(key, StreamsGroupCurrentMemberAssignmentKey))
    away = next(records[key] for records in cluster.durable.values() if key in records)
    assert [(each.partitions, each.assignment_epochs) for each in away.active_tasks] == [([0, 1], [0, 0])]
    two.join(instance_id="i")
    described = cluster.described_streams()
    assert (two.epoch, len(two.active), described.group_epoch, described.group_state) == (2, 2, 2, "Stable")
    assert [(member.member_id, member.instance_id) for member in described.members] == [("two", "i")]
    cluster.crash()
    assert two.report(instance_id="i").error_code == 0
    assert two.heartbeat(instance_id="i", member_epoch=-1).member_epoch == -1
    assert cluster.described_streams().group_state == "Empty"


def test_only_another_member_fences_a_static_member_in_the_trace(cluster: Cluster) -> None:
    one, two = cluster.member("one", READS_T, process="p"), cluster.member("two", READS_T, process="p")
    one.join(instance_id="i")
    for successor in (one, two):
        one.heartbeat(instance_id="i", member_epoch=-2)
        successor.join(instance_id="i")
    changes = [(each["member_id"], each["change"]) for each in cluster.events if each["event"] == "member"]
    assert changes == [("one", "added"), ("one", "fenced"), ("two", "replaced")]


@pytest.mark.parametrize(
    ("fields", "epoch"),
    [({}, 2), ({"rack_id": "r"}, 3), ({"process_id": "q"}, 3), ({"client_tags": [KeyValue("k", "v")]}, 3)],
)
def test_only_a_change_that_counts_for_an_assignment_makes_an_epoch(
    cluster: Cluster, fields: dict[str, object], epoch: int
) -> None:
    one, two = cluster.member("one", READS_T, process="p"), cluster.member("two", READS_T, process="p")
    one.join(instance_id="i")
    one.heartbeat(instance_id="i", member_epoch=-2)
    two.join(instance_id="i", **fields)
    assert (two.epoch, len(two.active), cluster.described_streams().group_epoch) == (epoch, 2, epoch)


def test_a_full_group_has_room_for_members_that_it_knows() -> None:
    cluster = Cluster(*SETTINGS, "group.streams.max.size=1", t=2)
    one = cluster.member("one", READS_T)
    assert one.join(instance_id="i").error_code == 0
    one.heartbeat(instance_id="i", member_epoch=-2)
    two = cluster.member("two", READS_T)
    assert two.join(instance_id="i").error_code == 0
    assert cluster.member("three", READS_T).join().error_code == 81


@pytest.mark.parametrize(("release", "error"), [("4.2", 81), ("4.3", 81), ("4.4", 0)])
def test_a_member_of_a_full_group_joins_again_from_4_4_on(release: str, error: int) -> None:
    cluster = Cluster(*SETTINGS, "group.streams.max.size=2", release=release, t=2)
    one, two = cluster.member("one", READS_T), cluster.member("two", READS_T)
    assert [one.join().error_code, one.join().error_code, two.join().error_code] == [0, 0, 0]
    answer = one.join()
    message = "The streams group has reached its maximum capacity of 2 members." if error else None
    assert (answer.error_code, answer.error_message) == (error, message)
    assert two.heartbeat().error_code == 0


def test_the_last_reports_of_offsets_are_described(cluster: Cluster) -> None:
    one = cluster.member("one", READS_T)
    one.join(task_offsets=[TaskOffset("0", 0, 1)])
    (member,) = cluster.described_streams().members
    assert (member.task_offsets, member.task_end_offsets) == ([], [])
    reported = [TaskOffset("zz", 1, 7), TaskOffset("0", 1, 5), TaskOffset("0", 0, 4)]
    assert one.report(task_offsets=reported, task_end_offsets=[TaskOffset("0", 0, 9)]).error_code == 0
    assert one.report(task_offsets=[TaskOffset("0", 0, 8)]).error_code == 0
    (member,) = cluster.described_streams().members
    assert member.task_offsets == [TaskOffset("0", 0, 8)]
    assert member.task_end_offsets == [TaskOffset("0", 0, 9)]
    answer = one.report(task_offsets=[TaskOffset("0", 0, 1), TaskOffset("0", 0, 2)])
    assert (answer.error_code, answer.error_message) == (
        42,
        "Task offsets contain a duplicate entry for subtopology 0 and partition 0.",
    )
    answer = one.report(warmup_tasks=[TaskIds("zz", [0])])
    assert (answer.error_code, answer.error_message) == (42, "Subtopology zz does not exist in the topology.")
    cluster.crash()
    (member,) = cluster.described_streams().members
    assert member.task_offsets == []


def test_a_join_without_endpoint_removes_the_old_one(cluster: Cluster) -> None:
    one = cluster.member("one", READS_T)
    one.join(user_endpoint=Endpoint("h", 1))
    one.report()
    epoch = one.endpoint_epoch
    assert cluster.described_streams().members[0].user_endpoint == Endpoint("h", 1)
    one.join()
    assert cluster.described_streams().members[0].user_endpoint is None
    assert one.endpoint_epoch == epoch + 1
    one.join()
    assert one.endpoint_epoch == epoch + 1


class NoOthers:
    """Owners of tasks in a group of one member, which has task 0 of subtopology `s` as `active` or as a standby."""

    def __init__(self, *, active: bool) -> None:
        self._active = active

    def active(self, subtopology: str, partition: int) -> str | None:
        return "p" if self._active else None

    def has_copy(self, process_id: str, subtopology: str, partition: int) -> bool:
        return not self._active


@pytest.mark.parametrize(("in_place", "state"), [(True, MemberState.STABLE), (False, MemberState.UNREVOKED_TASKS)])
def test_a_standby_becomes_active_in_one_step(in_place: bool, state: MemberState) -> None:
    member = Member("m", 3, 2, process_id="p", assigned=AssignedTasks(standby={"s": frozenset({0})}))
    target, owned = Tasks(active={"s": frozenset({0})}), Tasks(standby={"s": frozenset({0})})
    after = reconcile(member, 4, target, owned, NoOthers(active=False), in_place=in_place)
    assert after.state is state
    if in_place:
        assert after.assigned == AssignedTasks(active={"s": {0: 4}})


def test_a_standby_stays_until_its_active_task_is_granted() -> None:
    class WithOther(NoOthers):
        def active(self, subtopology: str, partition: int) -> str | None:
            return "other"

    member = Member("m", 3, 2, process_id="p", assigned=AssignedTasks(standby={"s": frozenset({0})}))
    target, owned = Tasks(active={"s": frozenset({0})}), Tasks(standby={"s": frozenset({0})})
    after = reconcile(member, 4, target, owned, WithOther(active=False), in_place=True)
    assert (after.state, after.assigned) == (MemberState.UNRELEASED_TASKS, member.assigned)


def test_an_active_task_becomes_a_standby_beside_its_revocation() -> None:
    member = Member("m", 3, 2, process_id="p", assigned=AssignedTasks(active={"s": {0: 2}}))
    target, owned = Tasks(standby={"s": frozenset({0})}), Tasks(active={"s": frozenset({0})})
    after = reconcile(member, 4, target, owned, NoOthers(active=True), in_place=True)
    assert after.state is MemberState.UNREVOKED_TASKS
    assert after.assigned == AssignedTasks(standby={"s": frozenset({0})})
    assert after.pending_revocation == AssignedTasks(active={"s": {0: 2}})
    done = reconcile(after, 4, target, Tasks(), NoOthers(active=True), in_place=True)
    assert (done.state, done.assigned) == (MemberState.STABLE, AssignedTasks(standby={"s": frozenset({0})}))


def test_a_warm_up_becomes_a_standby_in_one_step() -> None:
    member = Member("m", 3, 2, process_id="p", assigned=AssignedTasks(warmup={"s": frozenset({0})}))
    target, owned = Tasks(standby={"s": frozenset({0})}), Tasks(warmup={"s": frozenset({0})})
    after = reconcile(member, 4, target, owned, NoOthers(active=False), in_place=True)
    assert (after.state, after.assigned) == (MemberState.STABLE, AssignedTasks(standby={"s": frozenset({0})}))


def test_a_member_learns_of_the_client_tags_that_it_lacks() -> None:
    cluster = Cluster(*SETTINGS, t=2)
    member = cluster.member("a", READS_T)
    member.join(client_tags=[KeyValue("zone", "1")])
    epoch = member.epoch
    cluster.settings_of[GROUP] = {"streams.rack.aware.assignment.tags": "zone,cluster"}
    answer = member.report()
    assert (member.epoch, member.statuses) == (epoch + 1, [6])
    assert "standby assignment: [cluster]. Configure" in answer.status[0].status_detail
    assert shape(answer, 1).status
    assert shape(answer, 0).status == []
    (value,) = (
        each
        for records in cluster.durable.values()
        for key, each in records.items()
        if isinstance(key, StreamsGroupMetadataKey)
    )
    configs = [(each.key, each.value) for each in value.last_assignment_configs]
    assert configs == [("num.standby.replicas", "0"), ("rack.aware.assignment.tags", "zone,cluster")]
    member.heartbeat(client_tags=[KeyValue("cluster", "1"), KeyValue("zone", "1")])
    assert member.statuses == []


def test_the_broker_requires_client_tags_of_all_groups() -> None:
    cluster = Cluster(*SETTINGS, "group.streams.rack.aware.assignment.tags=zone", t=2)
    member = cluster.member("a", READS_T)
    member.join()
    assert member.statuses == [6]
    before = Cluster(*SETTINGS, "group.streams.rack.aware.assignment.tags=zone", release="4.3", t=2)
    member = before.member("a", READS_T)
    member.join()
    assert member.statuses == []
