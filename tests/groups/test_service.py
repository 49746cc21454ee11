"""Refusals before any look at a group, and partitions that load and unload: semantics 2.2, 2.11, 5.4."""

import pytest

from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_shim.apis.consumer_group_describe import group_error as consumer_error
from kafka_shim.apis.share_group_describe import ShareGroupDescribeRequest
from kafka_shim.apis.share_group_describe import group_error as share_error
from kafka_shim.apis.streams_group_describe import StreamsGroupDescribeRequest
from kafka_shim.apis.streams_group_describe import group_error as streams_error
from kafka_shim.groups.config import ConfigError, GroupConfig
from kafka_shim.persistence.records import GroupMetadataKey, UnknownKey
from tests.groups.context import GROUP


def errors(coordinator, group=GROUP):
    """The error each API answers."""
    return {
        "join": coordinator.join(group=group).error,
        "sync": coordinator.sync("m", 1, group=group).error,
        "heartbeat": coordinator.heartbeat("m", 1, group=group),
        "leave": coordinator.leave("m", group=group).error_code,
        "describe": coordinator.describe(group, version=5).error_code,
        "list": coordinator.list().error_code,
        "delete": coordinator.delete(group)[0][1],
    }


def test_an_empty_group_id_is_refused_where_members_speak(coordinator):
    assert errors(coordinator, "") == {
        "join": 24,
        "sync": 24,
        "heartbeat": 24,
        "leave": 24,
        "describe": 0,
        "list": 0,
        "delete": 69,
    }


def test_kinds_that_came_later_refuse_to_describe_an_empty_group_id_before_all_others(coordinator):
    service = coordinator.service
    for request, refused in (
        (ConsumerGroupDescribeRequest, consumer_error),
        (ShareGroupDescribeRequest, share_error),
        (StreamsGroupDescribeRequest, streams_error),
    ):
        answers = service.ask_each(request, ["none", ""], refused)
        assert [(each.group_id, each.error_code) for each in answers] == [("", 24), ("none", 69)]


def test_a_loading_partition_answers_heartbeats_0_and_other_requests_14(coordinator):
    coordinator.form()
    partition = coordinator.service.partition_of(GROUP)
    coordinator.service.unload(partition, coordinator.now)
    coordinator.service.begin_loading(partition)
    answers = errors(coordinator)
    assert answers.pop("heartbeat") == 0
    assert set(answers.values()) == {14}
    assert coordinator.service.partitions()[partition] == "loading"


def test_a_partition_that_is_not_here_answers_16_and_its_groups_are_not_listed(coordinator):
    coordinator.form()
    coordinator.service.unload(coordinator.service.partition_of(GROUP), coordinator.now)
    answers = errors(coordinator)
    assert answers.pop("list") == 0
    assert set(answers.values()) == {16}
    assert coordinator.list().groups == []


def test_a_partition_that_failed_to_load_answers_16_until_its_next_load(coordinator):
    partition = coordinator.service.partition_of(GROUP)
    coordinator.service.unload(partition, coordinator.now)
    coordinator.service.begin_loading(partition)
    with pytest.raises(AttributeError):
        coordinator.service.load(partition, [(GroupMetadataKey(GROUP), "garbage")], coordinator.now)
    assert coordinator.service.partitions()[partition] == "failed"
    assert coordinator.join().error == 16
    coordinator.service.begin_loading(partition)
    assert coordinator.service.partitions()[partition] == "loading"
    coordinator.service.load(partition, [], coordinator.now)
    assert coordinator.join().error == 79


def test_records_of_unknown_types_are_skipped_and_counted(coordinator):
    coordinator.service.unload(0, coordinator.now)
    coordinator.service.load(0, [(UnknownKey(b"\x00\x63", 99), b"x")], coordinator.now)
    coordinator.settle()
    assert coordinator.of("partition")[-1]["unknown_records"] == 1


def test_the_last_record_of_a_group_wins(coordinator):
    ids = coordinator.form(2)
    first = coordinator.written[-1]
    coordinator.leave(ids[0])
    coordinator.join(ids[1])
    coordinator.sync_all([ids[1]])
    last = coordinator.written[-1]
    partition = coordinator.service.partition_of(GROUP)
    coordinator.service.unload(partition, coordinator.now)
    coordinator.service.load(partition, [first, last], coordinator.now)
    assert list(coordinator.group.members) == [ids[1]]
    assert coordinator.group.supporters == {"range": 1}


def test_unloading_answers_parked_requests_16_and_leaves_no_timer(coordinator):
    ids = coordinator.prepare(2)
    coordinator.end_round()
    sync = coordinator.sync(ids[1], 1)
    joining = coordinator.join("", group="other", version=3)
    for partition in list(coordinator.service.shards):
        coordinator.service.unload(partition, coordinator.now)
    coordinator.settle()
    assert (sync.error, joining.error) == (16, 16)
    assert list(coordinator.service.timers.armed()) == []
    assert coordinator.service.groups == {}


@pytest.mark.parametrize(("session", "error"), [(5999, 26), (6000, 79), (1_800_000, 79), (1_800_001, 26)])
def test_session_timeouts_out_of_bounds_are_refused(coordinator, session, error):
    assert coordinator.join(session=session).error == error


def test_after_a_restart_members_have_their_whole_session_to_come_back(coordinator):
    ids = coordinator.form(2, session=20_000)
    coordinator.crash()
    assert coordinator.state == "Stable"
    assert coordinator.armed("session") == dict.fromkeys(ids, 20_000)
    assert coordinator.sync(ids[1], 1).assignment == b"1"
    assert coordinator.join(ids[1]).generation_id == 1


def test_a_group_that_was_rebalancing_comes_back_as_its_last_stable_generation(coordinator):
    ids = coordinator.form(2)
    coordinator.join(ids[0])
    coordinator.join(ids[1])
    assert coordinator.group.generation == 2
    coordinator.crash()
    assert (coordinator.state, coordinator.group.generation) == ("Stable", 1)


def test_a_rebalance_timeout_of_minus_one_is_the_session_timeout(coordinator):
    coordinator.form(1, session=20_000)
    partition = coordinator.service.partition_of(GROUP)
    stored = coordinator.durable[partition][GroupMetadataKey(GROUP)]
    stored.members[0].rebalance_timeout = -1
    coordinator.crash()
    (member,) = coordinator.group.members.values()
    assert member.rebalance_timeout_ms == 20_000


def test_settings_have_kafkas_names():
    config = GroupConfig().with_settings(["group.max.size=5", "group.initial.rebalance.delay.ms = 0"])
    assert (config.group_max_size, config.group_initial_rebalance_delay_ms) == (5, 0)


@pytest.mark.parametrize(
    "settings",
    [
        ["group.max.size"],
        ["group.maxsize=1"],
        ["group.max.size=many"],
        ["group.max.size=0"],
        ["group.initial.rebalance.delay.ms=-1"],
        ["group.min.session.timeout.ms=10", "group.max.session.timeout.ms=9"],
        ["offsets.topic.num.partitions=0"],
        ["offsets.retention.minutes=99999999999"],
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings):
    with pytest.raises(ConfigError, match=r"must|is not|is greater"):
        GroupConfig().with_settings(settings)
