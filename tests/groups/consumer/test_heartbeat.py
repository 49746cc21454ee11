"""Heartbeats of consumer groups: epochs, fencing, records, and when the answer carries an assignment."""

from __future__ import annotations

import pytest

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.groups.epochs.requests import check_not_blank
from kafka_shim.groups.interface import Refusal
from kafka_shim.persistence.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

from .context import Cluster, settle


def keys(cluster: Cluster) -> list[tuple[type, bool]]:
    """Types of the records written since this was last asked, and whether each has a value."""
    written = [(type(key), value is not None) for key, value in cluster.written]
    cluster.written.clear()
    return written


def test_the_first_member_is_given_everything_and_five_records_are_written() -> None:
    cluster = Cluster(t=2)
    answer = cluster.consumer("a", "t").join()
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5000)
    assert answer.assignment is not None
    assert cluster.named(answer.assignment.topic_partitions) == {("t", 0), ("t", 1)}
    assert keys(cluster) == [
        (ConsumerGroupMemberMetadataKey, True),
        (ConsumerGroupMetadataKey, True),
        (ConsumerGroupTargetAssignmentMemberKey, True),
        (ConsumerGroupTargetAssignmentMetadataKey, True),
        (ConsumerGroupCurrentMemberAssignmentKey, True),
    ]


def test_a_steady_heartbeat_writes_nothing_and_carries_no_assignment() -> None:
    cluster = Cluster(t=2)
    member = cluster.consumer("a", "t")
    member.join()
    settle(member)
    keys(cluster)
    answer = member.heartbeat()
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, 2, None)
    assert keys(cluster) == []
    assert member.full().assignment is not None, "a full request is answered with the assignment"


def test_the_fast_path_of_a_heartbeat_has_the_result_of_the_full_one() -> None:
    cluster = Cluster(t=2)
    member = cluster.consumer("a", "t")
    member.join()
    settle(member)
    short = member.heartbeat()
    cluster.consumer_group.metadata_stale = True
    assert member.heartbeat() == short


def test_a_partition_changes_hands_when_its_owner_gave_it_up() -> None:
    cluster = Cluster(t=2)
    one, other = cluster.consumer("a", "t"), cluster.consumer("b", "t")
    one.join()
    settle(one)
    assert other.join().member_epoch == 3
    assert other.assigned == set()
    assert cluster.described().group_state == "Reconciling"
    one.full()
    assert (one.epoch, len(one.assigned)) == (2, 1), "it stays at its epoch while it owns what it is to give up"
    assert cluster.armed("rebalance") == {"a": 30_000}
    other.heartbeat()
    assert other.assigned == set()
    one.obey()
    assert one.epoch == 3
    assert cluster.armed("rebalance") == {}
    other.heartbeat()
    assert other.assigned == {("t", 0), ("t", 1)} - one.owned
    settle(one, other)
    assert cluster.described().group_state == "Stable"


def test_a_lost_answer_is_repeated_for_the_epoch_before() -> None:
    cluster = Cluster(t=2)
    one, other = cluster.consumer("a", "t"), cluster.consumer("b", "t")
    one.join()
    settle(one)
    other.join()
    one.full()
    one.owned = set(one.assigned)
    assert one.heartbeat(lost=True, topic_partitions=one.owned_by_topic()).member_epoch == 3
    assert one.heartbeat(topic_partitions=one.owned_by_topic()).member_epoch == 3
    assert one.heartbeat(member_epoch=2).error_code == E.FENCED_MEMBER_EPOCH, "it does not say what it owns"


@pytest.mark.parametrize("epoch", [4, 2])
def test_another_epoch_is_fenced(epoch: int) -> None:
    cluster = Cluster(t=2)
    member = cluster.consumer("a", "t")
    member.join()
    member.full(subscribed_topic_names=["t", "u"])
    assert member.epoch == 3
    assert member.heartbeat(member_epoch=epoch).error_code == E.FENCED_MEMBER_EPOCH
    assert "a" in cluster.consumer_group.members


def test_epoch_0_of_a_member_gets_its_present_assignment() -> None:
    cluster = Cluster(t=2)
    member = cluster.consumer("a", "t")
    member.join()
    settle(member)
    keys(cluster)
    assert member.join().member_epoch == 2
    assert member.assigned == {("t", 0), ("t", 1)}
    assert keys(cluster) == []


def test_a_refused_heartbeat_changes_nothing() -> None:
    cluster = Cluster(t=2)
    member = cluster.consumer("a", "t")
    member.join()
    keys(cluster)
    refused = member.full(subscribed_topic_names=["u"], subscribed_topic_regex="(")
    assert refused.error_code == E.INVALID_REGULAR_EXPRESSION
    assert refused.error_message is not None
    assert refused.error_message.startswith("SubscribedTopicRegex `(` is not a valid regular expression: ")
    assert keys(cluster) == []
    assert cluster.consumer_group.members["a"].topic_names == {"t"}


def test_topics_are_looked_at_again_when_they_change() -> None:
    cluster = Cluster(t=2)
    member = cluster.consumer("a", "t", "later")
    member.join()
    settle(member)
    cluster.create("other", 5)
    assert member.heartbeat().member_epoch == 2
    cluster.create("later", 1)
    settle(member)
    assert (member.epoch, len(member.owned)) == (3, 3)
    cluster.create("t", 4)
    settle(member)
    assert (member.epoch, len(member.owned)) == (4, 5)
    cluster.delete_topic("later")
    settle(member)
    assert (member.epoch, member.owned) == (5, {("t", number) for number in range(4)})
    assert [event["cause"] for event in cluster.of("epoch")] == ["NEW_MEMBER", *["TOPIC_METADATA_CHANGED"] * 3]


def test_a_member_that_leaves_makes_an_epoch_that_the_next_heartbeat_assigns() -> None:
    cluster = Cluster(t=2)
    one, other = cluster.consumer("a", "t"), cluster.consumer("b", "t")
    one.join()
    other.join()
    settle(one, other)
    epoch = other.epoch
    assert one.leave().member_epoch == -1
    assert cluster.described().group_state == "Assigning"
    settle(other)
    assert (other.epoch, len(other.owned)) == (epoch + 1, 2)
    assert one.heartbeat(member_epoch=2).error_code == E.UNKNOWN_MEMBER_ID
    other.leave()
    assert cluster.described().group_state == "Empty"
    assert cluster.armed("session") == {}


def test_a_silent_member_is_out_after_its_session() -> None:
    cluster = Cluster(t=2)
    member = cluster.consumer("a", "t")
    member.join()
    cluster.advance(44_999)
    assert member.heartbeat().error_code == 0
    cluster.advance(45_000)
    assert member.heartbeat().error_code == E.UNKNOWN_MEMBER_ID
    assert cluster.of("epoch")[-1]["cause"] == "SESSION_EXPIRED"


@pytest.mark.parametrize("settings", [{}, {"consumer.session.timeout.ms": "50000"}])
def test_a_heartbeat_that_changes_nothing_renews_the_session(settings: dict[str, str]) -> None:
    cluster = Cluster(t=2)
    cluster.settings_of["group"] = settings
    member = cluster.consumer("a", "t")
    member.join()
    settle(member)
    for _ in range(3):
        cluster.advance(44_999)
        answer = member.heartbeat()
        assert (answer.error_code, answer.assignment) == (0, None)


def test_a_member_that_holds_on_is_out_after_its_rebalance_timeout() -> None:
    cluster = Cluster(t=2)
    stubborn, other = cluster.consumer("a", "t", rebalance_timeout_ms=400), cluster.consumer("b", "t")
    stubborn.join()
    settle(stubborn)
    other.join()
    stubborn.full()
    cluster.advance(399)
    assert stubborn.full().error_code == 0
    cluster.advance(1)
    assert stubborn.full().error_code == E.UNKNOWN_MEMBER_ID
    settle(other)
    assert len(other.owned) == 2
    assert cluster.of("epoch")[-1]["cause"] == "REBALANCE_TIMEOUT"


def test_a_group_of_its_own_settings_and_a_full_one() -> None:
    cluster = Cluster("group.consumer.max.size=1", t=2)
    cluster.settings_of["group"] = {
        "consumer.session.timeout.ms": "50000",
        "consumer.heartbeat.interval.ms": "6000",
    }
    assert cluster.consumer("a", "t").join().heartbeat_interval_ms == 6000
    assert cluster.armed("session") == {"a": 50_000}
    assert cluster.consumer("b", "t").join().error_code == E.GROUP_MAX_SIZE_REACHED


def test_a_static_member_is_away_and_comes_back_under_another_id() -> None:
    cluster = Cluster(t=2)
    one, other = cluster.consumer("a", "t", instance_id="i"), cluster.consumer("b", "t")
    one.join()
    other.join()
    settle(one, other)
    epoch, had = one.epoch, set(one.owned)
    assert cluster.consumer("c", "t", instance_id="i").join().error_code == E.UNRELEASED_INSTANCE_ID
    assert one.leave(-2).member_epoch == -2
    back = cluster.consumer("c", "t", instance_id="i")
    assert back.join().member_epoch == epoch
    assert back.assigned == had
    assert sorted(cluster.armed("session")) == ["b", "c"], "the session of the one that was replaced is over"
    assert one.heartbeat(member_epoch=epoch).error_code == E.FENCED_INSTANCE_ID
    settle(back, other)
    assert (back.epoch, other.epoch) == (epoch, epoch)


def test_an_instance_id_that_its_member_gave_up_for_another_is_unknown_once_it_left() -> None:
    cluster = Cluster(release="4.2", t=2)
    member = cluster.consumer("a", "t", instance_id="i")
    cluster.consumer("b", "t").join()
    member.join()
    member.instance_id = "j"
    assert member.join().error_code == 0
    assert member.leave().error_code == 0
    other = cluster.consumer("c", "t", instance_id="i")
    assert other.leave().error_code == E.UNKNOWN_MEMBER_ID
    assert other.join().error_code == E.UNKNOWN_MEMBER_ID


def test_a_pattern_must_not_match_single_bytes() -> None:
    cluster = Cluster(t=1)
    for pattern, error in ((r"t\C", E.INVALID_REGULAR_EXPRESSION), (r"t\\C", 0), (r"\Q\C\E", 0)):
        member = cluster.consumer(f"m{error}{len(pattern)}", regex=pattern)
        assert member.join(subscribed_topic_names=None).error_code == error, pattern


def test_patterns_are_resolved_after_the_heartbeat_that_brings_them() -> None:
    cluster = Cluster(ta=1, tb=1, other=1)
    member = cluster.consumer("a", regex="t.*")
    assert member.join(subscribed_topic_names=None).assignment is not None
    assert member.assigned == set()
    settle(member)
    assert member.owned == {("ta", 0), ("tb", 0)}
    cluster.advance(10_001)
    cluster.create("tc", 1)
    member.heartbeat()
    settle(member)
    assert member.owned == {("ta", 0), ("tb", 0), ("tc", 0)}
    member.full(subscribed_topic_names=["other"], subscribed_topic_regex="")
    settle(member)
    assert member.owned == {("other", 0)}
    assert cluster.consumer_group.subscriptions.resolved == {}


def test_a_deleted_topic_that_a_pattern_matched_makes_one_epoch() -> None:
    cluster = Cluster(ta=1, tb=1)
    member = cluster.consumer("a", regex="t.*")
    member.join(subscribed_topic_names=None)
    settle(member)
    epoch = member.epoch
    cluster.advance(10_001)
    cluster.delete_topic("tb")
    settle(member)
    cluster.advance(10_001)
    member.heartbeat()
    settle(member)
    assert (member.owned, member.epoch) == ({("ta", 0)}, epoch + 1)


def test_patterns_are_not_resolved_twice_within_ten_seconds() -> None:
    cluster = Cluster(ta=1)
    member = cluster.consumer("a", regex="t.*")
    member.join(subscribed_topic_names=None)
    settle(member)
    cluster.create("tb", 1)
    member.heartbeat()
    settle(member)
    assert member.owned == {("ta", 0)}
    cluster.advance(10_001)
    member.heartbeat()
    settle(member)
    assert member.owned == {("ta", 0), ("tb", 0)}


def test_a_group_is_deleted_with_all_its_records() -> None:
    cluster = Cluster(t=2)
    one = cluster.consumer("a", "t", regex="x.*")
    one.join()
    assert cluster.delete("group") == [("group", E.NON_EMPTY_GROUP)]
    one.leave()
    assert cluster.delete("group") == [("group", 0)]
    assert not any(cluster.durable.values())


def test_a_load_restores_the_group_and_arms_its_timers() -> None:
    cluster = Cluster(t=2)
    one, other = cluster.consumer("a", "t"), cluster.consumer("b", "t")
    one.join()
    settle(one)
    other.join()
    one.full()
    before = cluster.described()
    cluster.crash()
    assert cluster.described() == before
    assert cluster.armed("session") == {"a": 45_000, "b": 45_000}
    assert cluster.armed("rebalance") == {"a": 30_000}
    settle(one, other)
    assert one.owned | other.owned == {("t", 0), ("t", 1)}


def test_requests_are_checked_in_the_order_of_kafka() -> None:
    cluster = Cluster(t=1)
    with pytest.raises(Refusal, match="MemberId can't be empty"):
        check_not_blank("MemberId", " ")
    member = cluster.consumer("a", "t", assignor="best")
    refused = member.join()
    assert refused.error_code == E.UNSUPPORTED_ASSIGNOR
    assert refused.error_message == "ServerAssignor best is not supported. Supported assignors: uniform, range."


def test_a_member_that_keeps_changing_its_subscription_is_assigned_each_time() -> None:
    cluster = Cluster(t=2, u=2)
    member = cluster.consumer("a", "t")
    for topics in (["t"], ["u"], ["t", "u"], ["t", "missing"], ["u", "missing"], ["t"], ["u"], ["t", "u", "missing"]):
        member.topics = topics
        assert member.join().error_code == 0
        assert {topic for topic, _ in member.owned} == set(topics) - {"missing"}
    member.topics = ["t"]
    assert member.join(subscribed_topic_regex="t.*").error_code == 0


def test_a_successor_of_a_static_member_gets_its_own_partitions_with_the_next_epoch() -> None:
    cluster = Cluster(t=4, u=2)
    gone, member = cluster.consumer("s", "t", instance_id="i"), cluster.consumer("b", "t")
    gone.join()
    member.join()
    settle(gone, member)
    gone.leave(-2)
    had = set(member.assigned)
    member.topics, member.instance_id = ["t", "u"], "i"
    assert member.join().error_code == 0
    assert member.assigned == gone.assigned | {("u", 0), ("u", 1)}
    cluster.create("u", 3)
    settle(member)
    assert member.assigned == gone.assigned | had | {("u", 0), ("u", 1), ("u", 2)}
