"""Rules of consumer groups that differ by release of Kafka: the newest of them, and the older ones beside them."""

from __future__ import annotations

import pytest

from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.groups.assignors.range import RangeAssignor
from kafka_shim.groups.assignors.registry import Assignors
from kafka_shim.groups.assignors.uniform import UniformAssignor
from kafka_shim.persistence.records import ConsumerGroupCurrentMemberAssignmentKey
from tests.groups.consumer.context import Cluster, Consumer
from tests.groups.context import GROUP, KAFKA_INTERVALS, subscription

RANGE = ("range", subscription("t"))


def commit(cluster: Cluster, member_id: str, epoch: int, *partitions: int) -> set[int]:
    """Commit these partitions of topic `t`; return the errors."""
    places = [OffsetCommitRequestPartition(number, 7) for number in partitions]
    request = OffsetCommitRequest(GROUP, epoch, member_id, topics=[OffsetCommitRequestTopic("t", partitions=places)])
    answer = cluster.service.commit(request, cluster.now, unknown_group_is_69=True)
    cluster.settle()
    return {each.error_code for topic in answer.topics for each in topic.partitions}


def shrinking(release: str) -> tuple[Cluster, Consumer, Consumer]:
    """Return a group with a member that has to give up two of its four partitions."""
    cluster = Cluster(release=release, t=4)
    one, two = cluster.consumer("one", "t"), cluster.consumer("two", "t")
    one.join()
    two.join()
    one.heartbeat()
    assert len(one.assigned) == 2
    return cluster, one, two


def numbers(partitions: set[tuple[str, int]]) -> list[int]:
    return sorted(number for _, number in partitions)


def test_a_commit_at_an_older_epoch_of_kept_partitions_is_accepted() -> None:
    cluster, one, two = shrinking("4.4")
    retained, revoked = numbers(one.assigned), numbers(one.owned - one.assigned)
    assert commit(cluster, "one", 2, *retained, *revoked) == {0}
    one.obey()
    assert one.epoch == 3
    assert commit(cluster, "one", 2, *retained) == {0}
    assert commit(cluster, "one", 1, *retained) == {113}
    assert commit(cluster, "one", 4, *retained) == {113}
    assert commit(cluster, "one", 2, *retained, revoked[0]) == {113}
    assert commit(cluster, "one", 3, *retained, *revoked) == {0}
    two.heartbeat()
    assert commit(cluster, "two", 2, *revoked) == {113}
    cluster.crash()
    assert commit(cluster, "one", 2, *retained) == {0}
    assert commit(cluster, "one", 1, *retained) == {113}


def test_a_commit_at_an_older_epoch_is_refused_before_4_3() -> None:
    cluster, one, _ = shrinking("4.2")
    one.obey()
    assert commit(cluster, "one", one.epoch - 1, *numbers(one.assigned)) == {113}


def test_records_carry_assignment_epochs_from_4_3_on() -> None:
    for release, epochs in (("4.2", None), ("4.3", [2, 2])):
        cluster, one, _ = shrinking(release)
        one.obey()
        key = ConsumerGroupCurrentMemberAssignmentKey(GROUP, "one")
        value = next(records[key] for records in cluster.durable.values() if key in records)
        assert [topic.assignment_epochs for topic in value.assigned_partitions] == [epochs]


def test_the_successor_of_a_static_member_inherits_its_partitions_since_epoch_0() -> None:
    cluster = Cluster(t=2)
    one = cluster.consumer("one", "t", instance_id="i")
    one.join()
    one.heartbeat(member_epoch=-2)
    successor = cluster.consumer("successor", "t", instance_id="i")
    successor.join()
    assert (successor.epoch, len(successor.assigned)) == (2, 2)
    assert commit(cluster, "successor", 0, 0, 1) == {0}


def test_a_classic_member_commits_at_an_older_generation() -> None:
    cluster = Cluster(t=4)
    one = cluster.consumer("one", "t")
    one.join()
    member_id = cluster.join("", RANGE).response.member_id
    cluster.join(member_id, RANGE)
    one.heartbeat()
    one.obey()
    generation = cluster.join(member_id, RANGE).response.generation_id
    (owned,) = cluster.consumer_group.members[member_id].assigned.values()
    three = cluster.consumer("three", "t")
    three.join()
    owner = cluster.join(member_id, ("range", subscription("t", owned={"t": sorted(owned)})))
    cluster.join(member_id, ("range", subscription("t", owned={"t": []})))
    (retained,) = cluster.consumer_group.members[member_id].assigned.values()
    newest = cluster.consumer_group.members[member_id].epoch
    assert (owner.error, newest) == (0, generation + 1)
    assert commit(cluster, member_id, generation, *retained) == {0}
    assert commit(cluster, member_id, generation - 1, *retained) == {22}


@pytest.mark.parametrize(("release", "count"), [("4.2", 2), ("4.3", 4), ("4.4", 4)])
def test_a_description_lists_partitions_to_be_revoked_from_4_3_on(release: str, count: int) -> None:
    cluster, one, _ = shrinking(release)
    described = next(member for member in cluster.described().members if member.member_id == "one")
    assert sum(len(topic.partitions) for topic in described.assignment.topic_partitions) == count
    assert sum(len(topic.partitions) for topic in described.target_assignment.topic_partitions) == 2
    one.obey()
    described = next(member for member in cluster.described().members if member.member_id == "one")
    assert described.assignment == described.target_assignment


@pytest.mark.parametrize(("release", "epochs"), [("4.3", (2, 2, 2)), ("4.4", (3, 3, 4))])
def test_a_new_preferred_assignor_makes_an_epoch_from_4_4_on(release: str, epochs: tuple[int, int, int]) -> None:
    cluster = Cluster(release=release, t=4)
    one = cluster.consumer("one", "t")
    one.join()
    seen = []
    for assignor in ("range", "range", "uniform"):
        one.full(server_assignor=assignor)
        seen.append(cluster.described().group_epoch)
    assert tuple(seen) == epochs
    assert {event["cause"] for event in cluster.of("epoch")[1:]} <= {"SUBSCRIPTION_CHANGED"}


def test_a_vote_that_changes_no_majority_makes_no_epoch() -> None:
    cluster = Cluster(t=4)
    members = [cluster.consumer(name, "t", assignor="range") for name in ("one", "two", "three")]
    for member in members:
        member.join()
    epoch = cluster.described().group_epoch
    members[0].full(server_assignor="uniform")
    assert cluster.described().group_epoch == epoch
    members[1].full(server_assignor="uniform")
    assert cluster.described().group_epoch == epoch + 1


@pytest.mark.parametrize("release", ["4.3", "4.4"])
def test_another_default_assignor_after_a_restart_rebalances_nobody(release: str) -> None:
    cluster = Cluster(release=release, t=4)
    one, two = (cluster.consumer(name, "t") for name in ("one", "two"))
    for member in (one, two):
        member.join()
    for member in (one, two, one, two):
        member.obey()
    before = cluster.described()
    assert (before.group_state, before.assignor_name) == ("Stable", "uniform")
    cluster.serve(topics=cluster.topics, assignors=Assignors([RangeAssignor(), UniformAssignor()]))
    for answer in (one.heartbeat(), two.full()):
        assert (answer.error_code, answer.member_epoch) == (0, before.group_epoch)
    after = cluster.described()
    assert (after.group_epoch, after.group_state, after.assignor_name) == (before.group_epoch, "Stable", "range")
    two.leave()
    assert one.heartbeat().member_epoch == before.group_epoch + 1


@pytest.mark.parametrize(("release", "errors"), [("4.3", (81, 81, 81)), ("4.4", (111, 0, 81))])
def test_a_static_member_is_replaced_in_a_full_group_from_4_4_on(release: str, errors: tuple[int, int, int]) -> None:
    cluster = Cluster("group.consumer.max.size=1", release=release, t=4)
    one = cluster.consumer("one", "t", instance_id="i")
    one.join()
    present = cluster.consumer("two", "t", instance_id="i").join().error_code
    one.heartbeat(member_epoch=-2)
    away = cluster.consumer("two", "t", instance_id="i").join().error_code
    assert (present, away, cluster.consumer("three", "t", instance_id="j").join().error_code) == errors
    assert cluster.join("", RANGE, instance="j").error == 81


@pytest.mark.parametrize(("release", "error"), [("4.3", 25), ("4.4", 0)])
def test_a_member_gives_up_its_old_instance_id_from_4_4_on(release: str, error: int) -> None:
    cluster = Cluster(release=release, t=4)
    one = cluster.consumer("one", "t", instance_id="i")
    one.join()
    one.instance_id = "j"
    one.join()
    one.heartbeat(member_epoch=-1)
    assert cluster.consumer("two", "t", instance_id="i").join().error_code == error


@pytest.mark.parametrize(("release", "error"), [("4.2", 27), ("4.4", 0)])
def test_a_classic_member_joins_again_for_an_assignment_alone_from_4_3_on(release: str, error: int) -> None:
    cluster = Cluster(*KAFKA_INTERVALS, release=release, t=4)
    one = cluster.consumer("one", "t")
    one.join()
    member_id = cluster.join("", RANGE).response.member_id
    generation = cluster.join(member_id, RANGE).response.generation_id
    cluster.advance(1000)
    one.heartbeat()
    one.obey()
    generation = cluster.join(member_id, RANGE).response.generation_id
    assert cluster.sync(member_id, generation).error == 0
    cluster.consumer("three", "t").join()
    if release == "4.2":
        assert cluster.described().group_epoch == cluster.described().assignment_epoch
    assert cluster.heartbeat(member_id, generation) == error
    cluster.advance(1000)
    one.heartbeat()
    assert cluster.heartbeat(member_id, generation) == 27


@pytest.mark.parametrize(("release", "state"), [("4.2", "Stable"), ("4.4", "PreparingRebalance")])
def test_a_downgrade_rebalances_if_its_assignment_is_old_from_4_3_on(release: str, state: str) -> None:
    cluster = Cluster(*KAFKA_INTERVALS, release=release, t=4)
    one = cluster.consumer("one", "t", instance_id="i")
    one.join()
    member_id = cluster.join("", RANGE).response.member_id
    cluster.join(member_id, RANGE)
    answer = cluster.join("", RANGE, instance="i")
    assert (answer.error, cluster.service.groups[GROUP].type) == (0, "classic")
    assert cluster.describe().group_state == state
