"""Heartbeats of KIP-848 members remembered by their bytes: the answers are the same as without the shortcut."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.server.remembered.heartbeats import RememberedConsumerHeartbeat
from tests.server.test_remembered import NOW, alike
from tests.server.wire import Wire, request


class Member:
    """A member with its own connection. With `forgetful`, every request is served without the shortcut."""

    def __init__(self, cluster: Any, name: str, forgetful: bool = False) -> None:
        self.cluster = cluster
        self.name = name
        self.forgetful = forgetful
        self.wire = Wire(cluster)
        self.epoch = 0
        self.numbers = count(1)

    def beat(self, now: float = NOW, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        heartbeat = ConsumerGroupHeartbeatRequest("billing", self.name, self.epoch, **fields)
        if self.forgetful:
            self.wire.session.remembered.clear()
        self.wire.receive(request(heartbeat, 1, next(self.numbers)), now)
        _, answer = self.wire.answer(ConsumerGroupHeartbeatResponse, 1)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
        return answer

    def join(self, now: float = NOW) -> ConsumerGroupHeartbeatResponse:
        self.epoch = 0
        return self.beat(now, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"], topic_partitions=[])

    @property
    def is_remembered(self) -> bool:
        return any(isinstance(each, RememberedConsumerHeartbeat) for each in self.wire.session.remembered.values())


@pytest.mark.parametrize("forgetful", [False, True])
def test_a_remembered_heartbeat_is_answered_as_any_other(forgetful: bool) -> None:
    cluster = alike()
    one, other = Member(cluster, "one", forgetful), Member(cluster, "other")
    assert one.join().member_epoch == 2
    answers = [one.beat() for _ in range(4)]
    assert all(answer == answers[0] for answer in answers)
    assert (answers[0].member_epoch, answers[0].assignment, answers[0].heartbeat_interval_ms) == (2, None, 5000)
    assert one.is_remembered, "unless it is cleared before each heartbeat it is served the short way"

    cluster.topics.settings.groups["billing"] = {"consumer.heartbeat.interval.ms": "6000"}
    assert one.beat().heartbeat_interval_ms == 6000
    assert other.join().member_epoch == 3
    assert one.beat().assignment is not None, "it hears what it is to give up"
    assert one.beat(topic_partitions=[]).member_epoch == 3
    while other.beat(topic_partitions=[]).assignment is not None:
        pass
    assert one.beat() == one.beat()

    topic = cluster.topics.named("orders")
    assert topic is not None
    cluster.topics.grow(topic, [[1]])
    assert one.beat().member_epoch == 4

    for seconds in range(0, 120, 40):
        assert one.beat(NOW + seconds).error_code == 0, "its session is renewed"
        for node in cluster.nodes.values():
            node.groups.fire(NOW + seconds)
    for node in cluster.nodes.values():
        node.groups.fire(NOW + 80 + 46)
    assert one.beat(NOW + 127).error_code == E.UNKNOWN_MEMBER_ID


def test_when_the_protocol_is_turned_off_a_remembered_heartbeat_is_refused_too() -> None:
    cluster = alike()
    one = Member(cluster, "one")
    one.join()
    one.beat()
    assert one.is_remembered
    settings = cluster.topics.settings
    for level, error in ((0, E.UNSUPPORTED_VERSION), (1, E.NONE)):
        settings.features = {"group.version": level}
        settings.features_epoch += 1
        assert [one.beat().error_code for _ in range(3)] == [error] * 3


def test_an_answer_that_is_not_durable_yet_is_held() -> None:
    """The shortcut leaves an answer that must wait to the ordinary way."""
    cluster = alike()
    one = Member(cluster, "one")
    one.join()
    one.beat()
    one.beat()
    assert one.is_remembered
    (node,) = cluster.nodes.values()
    group = node.groups.groups["billing"]
    (shard,) = [each for each in node.groups.shards.values() if each.partition == group.partition]
    shard.batch = node.durability.durable + 1
    (remembered,) = one.wire.session.remembered.values()
    data = request(ConsumerGroupHeartbeatRequest("billing", "one", 1), 1, 9)
    assert not remembered.serve(one.wire.session, data, NOW)
