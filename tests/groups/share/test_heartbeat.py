"""Heartbeats of share groups: epochs, refusals, assignments, records, sessions and topics that change."""

from __future__ import annotations

import pytest

from kafka_shim.apis.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from kafka_shim.apis.alter_share_group_offsets import RequestPartition as AlteredPartition
from kafka_shim.apis.alter_share_group_offsets import RequestTopic as AlteredTopic
from kafka_shim.apis.alter_share_group_offsets import error as alter_refused
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kafka_shim.apis.delete_share_group_offsets import RequestTopic as DeletedTopic
from kafka_shim.apis.delete_share_group_offsets import error as delete_refused
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.groups.share.persister import Place
from kafka_shim.groups.share.records import Initialized
from kafka_shim.persistence.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from tests.groups.context import GROUP

from .context import Cluster, settle


def keys(cluster: Cluster) -> list[tuple[type, bool]]:
    """Types of the records written since this was last asked, and whether each has a value."""
    written = [(type(key), value is not None) for key, value in cluster.written]
    cluster.written.clear()
    return written


def test_a_member_is_assigned_nothing_first_and_everything_at_its_next_heartbeat() -> None:
    cluster = Cluster(t=2)
    member = cluster.sharer("a", "t")
    answer = member.join()
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 2, 5000)
    assert member.assigned == set()
    assert answer.assignment is not None
    assert keys(cluster) == [
        (ShareGroupMemberMetadataKey, True),
        (ShareGroupMetadataKey, True),
        (ShareGroupTargetAssignmentMemberKey, True),
        (ShareGroupTargetAssignmentMetadataKey, True),
        (ShareGroupCurrentMemberAssignmentKey, True),
        (ShareGroupStatePartitionMetadataKey, True),
    ]
    member.heartbeat()
    assert (member.epoch, member.assigned) == (3, {("t", 0), ("t", 1)})
    assert cluster.shown().group_state == "Stable"


def test_a_steady_heartbeat_writes_nothing_and_carries_no_assignment() -> None:
    cluster = Cluster(t=2)
    member = cluster.sharer("a", "t")
    member.join()
    settle(member)
    keys(cluster)
    assert member.heartbeat().assignment is None
    assert keys(cluster) == []
    assert member.heartbeat(topics=["t"]).assignment is not None, "whoever names its topics hears its assignment"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (ShareGroupHeartbeatRequest(GROUP, " ", 0, None, ["t"]), "MemberId can't be empty."),
        (ShareGroupHeartbeatRequest(GROUP, "a" * 37, 0, None, ["t"]), "Invalid member id in the request."),
        (ShareGroupHeartbeatRequest("", "a", 0, None, ["t"]), "GroupId can't be empty."),
        (ShareGroupHeartbeatRequest(GROUP, "a", 0, "", ["t"]), "RackId can't be empty."),
        (ShareGroupHeartbeatRequest(GROUP, "a", 0, None, []), "SubscribedTopicNames must be set in first request."),
        (ShareGroupHeartbeatRequest(GROUP, "a", 0), "SubscribedTopicNames must be set in first request."),
        (ShareGroupHeartbeatRequest(GROUP, "a", -2), "MemberEpoch is invalid."),
    ],
)
def test_a_contradictory_heartbeat_is_an_invalid_request(request_: ShareGroupHeartbeatRequest, message: str) -> None:
    answer = Cluster(t=1).share_beat(request_)
    assert (answer.error_code, answer.error_message) == (E.INVALID_REQUEST, message)


def test_an_unknown_member_and_a_wrong_epoch_are_refused() -> None:
    cluster = Cluster(t=1)
    member, stranger = cluster.sharer("a", "t"), cluster.sharer("b", "t")
    assert stranger.leave().error_message == f"Group {GROUP} not found."
    assert stranger.heartbeat(epoch=3).error_code == E.GROUP_ID_NOT_FOUND
    member.join()
    settle(member)
    assert stranger.heartbeat(epoch=1).error_code == E.UNKNOWN_MEMBER_ID
    assert member.heartbeat(epoch=4).error_code == E.FENCED_MEMBER_EPOCH
    stranger.join()
    settle(member, stranger)
    assert member.epoch == 4
    assert member.heartbeat(epoch=3).error_code == 0, "the answer that brought epoch 4 may have got lost"
    assert member.heartbeat(epoch=2).error_code == E.FENCED_MEMBER_EPOCH
    assert member.heartbeat(epoch=0, topics=["t"]).error_code == 0


def test_a_full_group_refuses_more_members() -> None:
    cluster = Cluster("group.share.max.size=1", t=1)
    cluster.sharer("a", "t").join()
    assert cluster.sharer("b", "t").join().error_code == E.GROUP_MAX_SIZE_REACHED
    assert cluster.sharer("a", "t").join().error_code == 0


def test_partitions_of_a_member_that_leaves_go_to_the_others() -> None:
    cluster = Cluster(t=2)
    one, other = cluster.sharer("a", "t"), cluster.sharer("b", "t")
    one.join()
    other.join()
    settle(one, other)
    assert one.assigned | other.assigned == {("t", 0), ("t", 1)}
    assert not one.assigned & other.assigned
    epoch = one.epoch
    answer = other.leave()
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, -1, 0)
    one.heartbeat()
    assert (one.epoch, one.assigned) == (epoch + 1, {("t", 0), ("t", 1)})
    one.leave()
    assert (cluster.shown().group_state, cluster.shown().group_epoch) == ("Empty", epoch + 2)


def test_a_leaving_member_makes_one_epoch_if_others_share_its_partitions() -> None:
    cluster = Cluster(t=1)
    members = [cluster.sharer(name, "t") for name in "abc"]
    for each in members:
        each.join()
    settle(*members)
    epoch = members[0].epoch
    members[2].leave()
    settle(*members[:2])
    assert [(each.epoch, each.assigned) for each in members[:2]] == [(epoch + 1, {("t", 0)})] * 2
    assert cluster.service.counters.new_epochs["share"] == epoch - 1, "who leaves does not count"


def test_a_silent_member_is_removed_when_its_session_ends() -> None:
    cluster = Cluster(t=1)
    one, other = cluster.sharer("a", "t"), cluster.sharer("b", "t")
    one.join()
    other.join()
    cluster.advance(44_999)
    one.heartbeat()
    assert set(cluster.share_group.members) == {"a", "b"}
    cluster.advance(1)
    assert set(cluster.share_group.members) == {"a"}
    assert other.heartbeat(epoch=1).error_code == E.UNKNOWN_MEMBER_ID


def test_settings_of_the_group_come_first() -> None:
    cluster = Cluster(t=1)
    cluster.settings_of[GROUP] = {"share.session.timeout.ms": "50000", "share.heartbeat.interval.ms": "6000"}
    assert cluster.sharer("a", "t").join().heartbeat_interval_ms == 6000
    cluster.advance(49_999)
    assert "a" in cluster.share_group.members
    cluster.advance(1)
    assert not cluster.share_group.members


def test_topics_that_come_grow_and_go_make_epochs() -> None:
    cluster = Cluster()
    member = cluster.sharer("a", "t")
    member.join()
    cluster.create("t", 1)
    member.heartbeat()
    assert (member.epoch, member.assigned) == (3, set())
    member.heartbeat()
    assert (member.epoch, member.assigned) == (4, {("t", 0)})
    cluster.create("t", 2)
    settle(member)
    assert (member.epoch, member.assigned) == (6, {("t", 0), ("t", 1)})
    (place,) = [Place(GROUP, topic_id, 1) for topic_id in cluster.share_group.initialized]
    states = cluster.share_group.share_states
    assert states.get(place) is not None
    cluster.delete_topic("t")
    assert states.get(place) is None
    settle(member)
    assert member.assigned == set()
    assert cluster.share_group.initialized == {}


def test_a_recreated_topic_is_another_topic() -> None:
    cluster = Cluster(t=1)
    member = cluster.sharer("a", "t")
    member.join()
    settle(member)
    (before,) = cluster.share_group.initialized
    cluster.delete_topic("t")
    cluster.create("t", 1)
    settle(member)
    (after,) = cluster.share_group.initialized
    assert after != before
    assert member.assigned == {("t", 0)}


def test_a_group_survives_a_crash_by_its_records() -> None:
    cluster = Cluster(t=3)
    one, other = cluster.sharer("a", "t"), cluster.sharer("b", "t")
    one.join()
    other.join()
    settle(one, other)
    before = cluster.shown()
    cluster.crash()
    assert cluster.shown() == before
    keys(cluster)
    settle(one, other)
    assert keys(cluster) == []
    cluster.advance(45_000)
    assert cluster.shown().group_state == "Empty"


def test_no_other_kind_of_group_replaces_a_share_group() -> None:
    cluster = Cluster(t=1)
    member = cluster.sharer("a", "t")
    member.join()
    member.leave()
    refused = cluster.beat(
        ConsumerGroupHeartbeatRequest(
            GROUP, "c", 0, rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
        )
    )
    assert refused.error_code == E.GROUP_ID_NOT_FOUND
    refused = cluster.join("a").response
    assert (refused.error_code, refused.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, "")
    (deleted,) = cluster.service.delete([GROUP], cluster.now)
    assert deleted.error_code == 0
    cluster.settle()
    assert all(not records for records in cluster.durable.values())


def test_a_share_group_replaces_no_other_group() -> None:
    cluster = Cluster(t=1)
    cluster.consumer("c", "t").join()
    assert cluster.sharer("a", "t").join().error_message == f"Group {GROUP} is not a share group."


def test_a_group_with_members_is_not_deleted_nor_altered() -> None:
    cluster = Cluster(t=1)
    member = cluster.sharer("a", "t")
    member.join()
    (deleted,) = cluster.service.delete([GROUP], cluster.now)
    assert deleted.error_code == E.NON_EMPTY_GROUP
    alter = AlterShareGroupOffsetsRequest(GROUP, [AlteredTopic("t", [AlteredPartition(0, 7)])])
    delete = DeleteShareGroupOffsetsRequest(GROUP, [DeletedTopic("t"), DeletedTopic("u")])
    assert cluster.service.ask(alter, alter_refused).error_code == E.NON_EMPTY_GROUP
    assert cluster.service.ask(delete, delete_refused).error_code == E.NON_EMPTY_GROUP
    member.leave()
    assert cluster.service.ask(alter, alter_refused).responses[0].partitions[0].error_code == 0
    (topic_id,) = cluster.share_group.initialized
    state = cluster.share_group.share_states.get(Place(GROUP, topic_id, 0))
    assert state is not None
    assert state.start_offset == 7
    cluster.create("u", 1)
    assert [(each.topic_id, each.error_code) for each in cluster.service.ask(delete, delete_refused).responses] == [
        (topic_id, 0),
        (bytes(16), E.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert cluster.share_group.initialized == {}


@pytest.mark.parametrize(("release", "epoch"), [("4.2", 0), ("4.4", 1)])
def test_altering_offsets_makes_a_group(release: str, epoch: int) -> None:
    cluster = Cluster(release=release, t=1)
    alter = AlterShareGroupOffsetsRequest(
        GROUP, [AlteredTopic("t", [AlteredPartition(0, 7), AlteredPartition(1, 7)]), AlteredTopic("u", [])]
    )
    answer = cluster.service.ask(alter, alter_refused)
    cluster.settle()
    assert [each.error_code for each in answer.responses[0].partitions] == [0, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert (cluster.shown().group_state, cluster.shown().group_epoch) == ("Empty", epoch)


@pytest.mark.parametrize("together", [True, False])
def test_the_partitions_of_an_altered_topic_are_copied_once(monkeypatch: pytest.MonkeyPatch, *, together: bool) -> None:
    cluster = Cluster(t=100)
    partitions = [AlteredPartition(index, 7) for index in range(100)]
    topics = [AlteredTopic("t", partitions)] if together else [AlteredTopic("t", [each]) for each in partitions]
    copies = 0
    replace = Initialized._replace

    def counted(topic: Initialized, **fields: frozenset[int]) -> Initialized:
        nonlocal copies
        copies += 1
        return replace(topic, **fields)

    monkeypatch.setattr(Initialized, "_replace", counted)
    cluster.service.ask(AlterShareGroupOffsetsRequest(GROUP, topics), alter_refused)
    cluster.settle()
    (topic,) = cluster.share_group.initialized.values()
    assert topic == Initialized("t", frozenset(range(100)))
    assert copies == 1


def test_altering_offsets_of_partitions_that_are_not_there_makes_no_group() -> None:
    cluster = Cluster(t=1)
    alter = AlterShareGroupOffsetsRequest(
        GROUP, [AlteredTopic("t", [AlteredPartition(1, 7)]), AlteredTopic("u", [AlteredPartition(0, 7)])]
    )
    answer = cluster.service.ask(alter, alter_refused)
    cluster.settle()
    assert [topic.partitions[0].error_code for topic in answer.responses] == [E.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert cluster.shown().error_code == E.GROUP_ID_NOT_FOUND


def test_offset_commits_to_a_share_group_are_refused() -> None:
    cluster = Cluster(t=1)
    cluster.sharer("a", "t").join()
    group = cluster.service.groups[GROUP]
    assert group.check_commit("", None, -1, member_epochs=True) == E.GROUP_ID_NOT_FOUND
    assert group.check_commit_in_transaction("", None, -1) == E.GROUP_ID_NOT_FOUND
    assert group.check_delete_offsets() == E.GROUP_ID_NOT_FOUND
    assert group.check_fetch(None, -1) == 0
    assert cluster.service.heartbeat(GROUP, 1, "a", None, cluster.now) == E.UNKNOWN_MEMBER_ID
    (expelled,) = group.expel(cluster.now)
    assert expelled.member_id == "a"
    assert not cluster.share_group.members


def test_a_share_group_is_listed_and_described() -> None:
    cluster = Cluster(t=1)
    member = cluster.sharer("a", "t")
    member.join()
    settle(member)
    (listed,) = cluster.service.list([], ["share"]).groups
    assert (listed.protocol_type, listed.group_state, listed.group_type) == ("share", "Stable", "share")
    group = cluster.service.groups[GROUP]
    (described,) = group.describe_members()
    assert (group.describe().protocol, described.assignment) == ("simple", {"t": [0]})
    kinds = {event["event"] for event in cluster.events}
    assert {"group", "member", "epoch", "target", "reconciliation", "state"} <= kinds


@pytest.mark.parametrize(("release", "added"), [("4.3", -1), ("4.4", 0)])
def test_partitions_that_are_added_start_at_0_from_4_4_on(release: str, added: int) -> None:
    cluster = Cluster(release=release, t=1)
    one = cluster.sharer("one", "t")
    one.join()
    settle(one)
    cluster.create("t", 2)
    settle(one)
    topic_id = cluster.topics.topic_id("t")
    assert topic_id is not None
    share_states = cluster.share_group.share_states
    states = [share_states.get(Place(GROUP, topic_id, partition)) for partition in range(2)]
    assert [None if state is None else state.start_offset for state in states] == [-1, added]
    assert len(one.assigned) == 2


def test_a_waiting_share_group_makes_one_epoch() -> None:
    for release, epoch in (("4.2", 2), ("4.3", 3), ("4.4", 3)):
        cluster = Cluster(release=release, t=1)
        one = cluster.sharer("one", "t")
        one.join()
        for _ in range(4):
            one.heartbeat()
        assert cluster.shown().group_epoch == epoch
