"""The checks at the end of every consumer protocol case, on heartbeats made by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafka_shim.apis.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT
from kafka_shim.conformance.clients.consumer_scenario import (
    HEARTBEAT,
    ConsumerScenario,
    assignment_in,
    count,
    is_full,
    owned,
)
from kafka_shim.conformance.clients.relay import Exchange
from kafka_shim.conformance.targets.base import Instance, Limits
from kafka_shim.conformance.verdict import Failed

TOPIC = b"t" * 16
MEMBER: Any = SimpleNamespace(name="member")


def beat(at: float, epoch: int, in_answer: int, answered: float | None = None, **fields: Any) -> Exchange:
    """Return a heartbeat at a time, answered with an epoch 0.1 s later unless `answered` differs."""
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["t"], "topic_partitions": []} | fields
    return Exchange(
        connection=1,
        client_id="member",
        broker=1,
        api=HEARTBEAT,
        version=1,
        request=ConsumerGroupHeartbeatRequest("group", "id", epoch, **fields),
        at=at,
        response=ConsumerGroupHeartbeatResponse(error_code=0, member_id="id", member_epoch=in_answer),
        answered=at + 0.1 if answered is None else answered,
    )


def check_heartbeats(*beats: Exchange) -> None:
    scenario = ConsumerScenario(Instance("127.0.0.1", 1, "default", Limits()), next(iter(EVERY_CLIENT.values())))
    scenario.relay.exchanges.extend(beats)
    scenario._members.append(MEMBER)
    try:
        scenario.aftermath()
    finally:
        scenario.relay.__exit__()


def test_correct_heartbeats_pass() -> None:
    check_heartbeats(beat(1, 0, 1), beat(2, 1, 2), beat(3, 2, 2), beat(4, 0, 3), beat(5, 3, 3), beat(6, -1, -1))


def test_a_leaving_member_need_not_wait_for_an_answer() -> None:
    check_heartbeats(beat(1, 0, 1), beat(2, 1, 1, answered=5), beat(3, -1, -1))


def test_a_lost_answer_gives_no_epoch() -> None:
    unanswered = beat(2, 1, 2)
    unanswered.answered = None
    after = beat(3, 1, 2)
    after.connection = 2
    check_heartbeats(beat(1, 0, 1), unanswered, after)


@pytest.mark.parametrize(
    ("beats", "why"),
    [
        ([beat(1, 0, 1, answered=3), beat(2, 0, 1)], "sends a heartbeat before the last one"),
        ([beat(1, 0, 1), beat(2, 2, 2)], "sends epoch 2, the last answer had 1"),
        ([beat(1, 0, 1), beat(2, 1, 2), beat(3, 1, 2)], "sends epoch 1, the last answer had 2"),
        ([beat(1, 3, 3)], "sends epoch 3, no answer had one"),
        ([beat(1, 0, 1, subscribed_topic_names=None)], "an incomplete heartbeat"),
        ([beat(1, 0, 1, rebalance_timeout_ms=-1)], "an incomplete heartbeat"),
        ([beat(1, 0, 1, topic_partitions=[TopicPartitions(TOPIC, [1])])], "joins and owns partitions"),
    ],
)
def test_wrong_heartbeats_fail(beats: list[Exchange], why: str) -> None:
    with pytest.raises(Failed, match=why):
        check_heartbeats(*beats)


def test_fields_of_a_heartbeat_and_its_answer_are_read() -> None:
    first = beat(1, 0, 1)
    assert is_full(first)
    assert (owned(first), assignment_in(first)) == ({}, None)
    first.response.assignment = Assignment([TopicPartitions(TOPIC, [2, 0])])
    assert assignment_in(first) == {TOPIC: frozenset({0, 2})}
    assert [count(assignment_in(first)), count(owned(first)), count(owned(beat(2, 1, 1)))] == [2, 0, -1]
    assert not is_full(beat(2, 1, 1))
    assert is_full(beat(2, 0, 1, subscribed_topic_names=None, subscribed_topic_regex="t.*"))
