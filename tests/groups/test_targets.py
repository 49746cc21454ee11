"""Target assignments of all kinds of groups with epochs: their changes, and the interval between them (KIP-1263)."""

from __future__ import annotations

from kafka_shim.groups.epochs.records import target
from kafka_shim.groups.share import records
from tests.groups.consumer.context import Cluster as ConsumerCluster
from tests.groups.context import GROUP, KAFKA_INTERVALS
from tests.groups.share.context import Cluster as ShareCluster
from tests.groups.share.context import settle as settle_sharers
from tests.groups.streams.context import Cluster as StreamsCluster
from tests.groups.streams.context import one_subtopology

TOPIC = b"t" * 16


def test_a_target_has_records_of_its_changes() -> None:
    previous = {"one": {TOPIC: frozenset({0, 1})}, "two": {TOPIC: frozenset({2, 3})}, "former": {}}
    assigned = {"one": {TOPIC: frozenset({0, 1})}, "two": {TOPIC: frozenset({2})}, "new": {}}
    new = target(records.CLASSES, GROUP, 7, "simple", assigned, previous)
    assert new.changed == {"two": {TOPIC: frozenset({2})}, "new": {}}
    assert [key.member_id for key, _ in new.records] == ["two", "new"]


def test_a_member_joins_a_consumer_group_at_the_epoch_of_its_last_target() -> None:
    cluster = ConsumerCluster(*KAFKA_INTERVALS, t=4)
    one, two = cluster.consumer("one", "t"), cluster.consumer("two", "t")
    one.join()
    assert (one.epoch, len(one.assigned)) == (2, 4)
    two.join()
    assert (two.epoch, two.assigned, cluster.described().group_state) == (2, set(), "Assigning")
    assert (cluster.described().group_epoch, cluster.described().assignment_epoch) == (3, 2)
    cluster.advance(999)
    assert one.obey().assignment is None
    assert cluster.described().group_state == "Assigning"
    cluster.advance(1)
    assert cluster.described().group_state == "Assigning"
    two.heartbeat()
    assert (two.epoch, two.assigned, cluster.described().group_state) == (3, set(), "Reconciling")
    one.heartbeat()
    assert (one.epoch, len(one.assigned)) == (2, 2)
    one.obey()
    two.heartbeat()
    assert (one.epoch, len(two.assigned), cluster.described().group_state) == (3, 2, "Stable")


def test_a_group_of_a_coordinator_with_a_clock_ahead_is_assigned_at_once_without_an_interval() -> None:
    for settings, epoch in (((), 3), (KAFKA_INTERVALS, 2)):
        cluster = ConsumerCluster(*settings, t=4)
        cluster.now += 3600
        one, two = cluster.consumer("one", "t"), cluster.consumer("two", "t")
        one.join()
        cluster.now -= 3600
        cluster.crash()
        two.join()
        assert (two.epoch, cluster.described().assignment_epoch) == (epoch, epoch)


def test_a_member_joins_a_share_group_at_the_epoch_of_its_last_target() -> None:
    cluster = ShareCluster(*KAFKA_INTERVALS, t=4)
    one, two = cluster.sharer("one", "t"), cluster.sharer("two", "t")
    one.join()
    assert (one.epoch, one.assigned) == (2, set())
    for _ in range(3):
        one.heartbeat()
    assert (one.epoch, cluster.shown().group_epoch, cluster.shown().assignment_epoch) == (2, 3, 2)
    assert cluster.shown().group_state == "Stable"
    cluster.advance(1000)
    one.heartbeat()
    assert (one.epoch, len(one.assigned)) == (3, 4)
    two.join()
    assert (two.epoch, two.assigned) == (3, set())
    assert (cluster.shown().group_epoch, cluster.shown().assignment_epoch) == (4, 3)
    cluster.advance(1000)
    settle_sharers(two, one)
    assert (one.epoch, two.epoch, cluster.share_group.group_epoch) == (4, 4, 4)
    assert one.assigned | two.assigned == {("t", number) for number in range(4)}
    assert two.assigned


def test_a_member_joins_a_streams_group_at_the_epoch_of_its_last_target() -> None:
    cluster = StreamsCluster("group.streams.initial.rebalance.delay.ms=0", *KAFKA_INTERVALS, t=4)
    one, two = (cluster.member(name, one_subtopology("t")) for name in ("one", "two"))
    one.join()
    assert (one.epoch, len(one.active)) == (2, 4)
    answer = two.join()
    assert (two.epoch, two.active, cluster.described_streams().group_state) == (2, set(), "Assigning")
    assert [(each.status_code, each.status_detail) for each in answer.status or ()] == [
        (5, "Assignment delayed due to the configured assignment interval.")
    ]
    one.report()
    assert (len(one.active), one.statuses) == (4, [5])
    cluster.advance(1000)
    for _ in range(3):
        two.report()
        one.report()
    assert (one.epoch, two.epoch) == (3, 3)
    assert (len(one.active), len(two.active), two.statuses) == (2, 2, [])


def test_a_group_computes_at_once_before_4_3_and_without_an_interval() -> None:
    of_group = ConsumerCluster(*KAFKA_INTERVALS, t=4)
    of_group.settings_of[GROUP] = {"consumer.assignment.interval.ms": "0"}
    without = ConsumerCluster(t=4)
    for cluster, epoch in ((ConsumerCluster(*KAFKA_INTERVALS, release="4.2", t=4), 2), (without, 3), (of_group, 3)):
        one, two = cluster.consumer("one", "t"), cluster.consumer("two", "t")
        one.join()
        two.join()
        assert (two.epoch, cluster.described().group_state) == (epoch, "Reconciling")


def test_the_interval_counts_on_after_a_load() -> None:
    cluster = ConsumerCluster(*KAFKA_INTERVALS, t=4)
    one, two = cluster.consumer("one", "t"), cluster.consumer("two", "t")
    one.join()
    cluster.advance(600)
    two.join()
    cluster.crash()
    cluster.advance(399)
    two.heartbeat()
    assert two.epoch == 2
    cluster.advance(1)
    two.heartbeat()
    assert two.epoch == 3


def test_the_last_leave_ends_the_wait_from_4_4_on() -> None:
    for release, empty, epoch, count in (("4.2", (2, 1), 3, 4), ("4.3", (3, 2), 2, 0), ("4.4", (3, 3), 4, 4)):
        cluster = ConsumerCluster(*KAFKA_INTERVALS, release=release, t=4)
        one, two = cluster.consumer("one", "t"), cluster.consumer("two", "t")
        one.join()
        one.heartbeat(member_epoch=-1)
        assert cluster.described().group_state == "Empty"
        assert (cluster.described().group_epoch, cluster.described().assignment_epoch) == empty
        two.join()
        assert (two.epoch, len(two.assigned)) == (epoch, count)


def test_the_last_leave_ends_the_wait_of_share_and_streams_groups() -> None:
    sharers = ShareCluster(*KAFKA_INTERVALS, t=4)
    sharer = sharers.sharer("one", "t")
    sharer.join()
    sharer.leave()
    assert (sharers.shown().group_epoch, sharers.shown().assignment_epoch) == (3, 3)
    threads = StreamsCluster("group.streams.initial.rebalance.delay.ms=0", *KAFKA_INTERVALS, t=4)
    thread = threads.member("one", one_subtopology("t"))
    thread.join()
    thread.leave()
    assert (threads.described_streams().group_epoch, threads.described_streams().assignment_epoch) == (3, 3)
    thread.join()
    assert (thread.epoch, len(thread.active)) == (4, 4)


def test_the_assignment_after_an_initial_delay_keeps_the_interval() -> None:
    cluster = StreamsCluster(*KAFKA_INTERVALS, t=4)
    one, two = (cluster.member(name, one_subtopology("t")) for name in ("one", "two"))
    one.join()
    two.join()
    assert (one.epoch, two.epoch, cluster.described_streams().assignment_epoch) == (1, 1, 1)
    cluster.advance(3000)
    assert cluster.described_streams().assignment_epoch == 3
    three = cluster.member("three", one_subtopology("t"))
    three.join()
    assert (three.epoch, three.statuses) == (3, [5])


def test_a_first_join_without_topics_makes_no_epoch() -> None:
    cluster = ConsumerCluster(*KAFKA_INTERVALS, t=1)
    one = cluster.consumer("one")
    one.join()
    assert (one.epoch, cluster.described().group_epoch, cluster.described().group_state) == (1, 1, "Stable")
    cluster.crash()
    assert (one.heartbeat().error_code, cluster.described().group_epoch) == (0, 1)
    one.full(subscribed_topic_names=["t"])
    assert (one.epoch, one.assigned, cluster.described().group_epoch) == (2, {("t", 0)}, 2)


def test_the_trace_of_a_share_group_has_changed_assignments_alone() -> None:
    cluster = ShareCluster(t=1, u=1)
    one, two = cluster.sharer("one", "t"), cluster.sharer("two", "u")
    one.join()
    settle_sharers(one)
    cluster.events.clear()
    two.join()
    settle_sharers(two, one)
    targets = [event["assignments"] for event in cluster.events if event["event"] == "target"]
    assert targets == [{"two": {}}, {"two": {"u": [0]}}]


def test_the_trace_has_the_wait_for_the_interval() -> None:
    cluster = ConsumerCluster(*KAFKA_INTERVALS, t=4)
    one, two = cluster.consumer("one", "t"), cluster.consumer("two", "t")
    one.join()
    cluster.advance(400)
    two.join()
    assert [event.get("waits_ms") for event in cluster.of("epoch")] == [None, 600]
