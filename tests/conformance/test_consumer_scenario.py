"""The checks at the end of every consumer protocol case, and those of R19, on requests made by hand."""

from collections.abc import Callable
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_shim.apis.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_shim.conformance.clients.cases import loading as loading_classic
from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT
from kafka_shim.conformance.clients.consumer_cases import loading as loading_consumer
from kafka_shim.conformance.clients.consumer_scenario import (
    HEARTBEAT,
    ConsumerScenario,
    assignment_in,
    count,
    is_full,
    owned,
)
from kafka_shim.conformance.clients.relay import Exchange, Plan
from kafka_shim.conformance.clients.scenario import FEWEST_REFUSALS
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


class Refused:
    """A scenario with a member that joins again and again, each time so many milliseconds after the last try."""

    def __init__(self, *apart: int) -> None:
        times = accumulate((each / 1000 for each in apart), initial=1.0)
        self._tries = [beat(at, 0, 0) for at in times]
        self.relay = self

    def plan(self, api: str, action: str, code: int, times: int) -> Plan:
        self._plan = Plan(api, "error", code, times)
        return self._plan

    def start(self) -> Any:
        return MEMBER

    def frames(self, condition: Callable[[], bool], what: str) -> None:
        for each in self._tries:
            if condition():
                return
            self._plan.fired.append(each)
        assert condition(), what

    def release(self, plan: Plan) -> None:
        plan.times = 0

    def share(self, members: list[Any]) -> None:
        if self._plan.times:
            self._plan.fired.extend(self._tries[: int(self._plan.times)])

    def check(self, holds: bool, why: str) -> None:
        if not holds:
            raise Failed(why)


# Tries of the Java consumer, then of librdkafka, on a busy machine: the slowest first ones, and a whole run.
# fmt: off
SLOW_AT_FIRST = (
    441, 150, 63, 98, 70, 32, 95, 18, 12, 5, 8, 5, 14, 7, 16, 2, 6, 14, 2, 11,
    10, 9, 8, 18, 16, 23, 7, 8, 18, 26, 6, 6, 21, 43, 23, 37, 2, 7, 2,
)
TWICE_AT_ONCE = (
    219, 239, 1, 98, 204, 3, 114, 199, 1, 87, 232, 1, 113, 187, 1, 102, 182, 9, 106, 218, 1, 121, 232, 1, 120, 221,
)
# fmt: on

each_loading = pytest.mark.parametrize("loading", [loading_classic, loading_consumer], ids=["classic", "consumer"])


@each_loading
def test_a_member_that_does_not_back_off_is_found_though_its_first_tries_are_slow(
    loading: Callable[[Any], None],
) -> None:
    with pytest.raises(Failed, match=r"it tried again after \[2, 2, 2, "):
        loading(Refused(*SLOW_AT_FIRST))


@each_loading
def test_a_member_backs_off_though_some_tries_come_at_once(loading: Callable[[Any], None]) -> None:
    loading(Refused(*TWICE_AT_ONCE))


@each_loading
def test_a_member_that_backs_off_for_long_need_not_try_often(loading: Callable[[Any], None]) -> None:
    scenario = Refused(*[2000] * 20)
    loading(scenario)
    assert len(scenario._plan.fired) == FEWEST_REFUSALS
