"""Rounds of a group of registered consumers, without sockets: calls, waits and random histories."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.apis.api import Api
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.experiments.registered.group import RegisteredGroup
from kafka_shim.experiments.registered.kind import KIND
from kafka_shim.experiments.registered.messages import (
    CREATE_GROUP,
    HEARTBEAT,
    REGISTER,
    REWIND,
    ControllerCreateGroupRequest,
    ControllerHeartbeatRequest,
    PartitionToOwn,
    RegisterConsumerRequest,
    RewindConsumerRequest,
)
from kafka_shim.groups.interface import PARKED
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.shard import Kinds
from tests.examples import examples
from tests.groups.consumer import context
from tests.groups.context import GROUP, Reply


class Cluster(context.Cluster):
    """One node that serves consumers that register."""

    def start(self) -> None:
        self.kinds = Kinds(*KINDS, KIND)
        super().start()

    def ask(self, api: Api, request: Any, *arguments: Any) -> Reply:
        reply = Reply(0, self.client, self.now, self.service, None)
        self.parked.add(reply)
        answer = self.service.ask(request, api.error, *(reply if each is Reply else each for each in arguments))
        if answer is not PARKED:
            self.parked.remove(reply)
            reply.response = answer
        self.settle()
        return reply

    def create(self, topic: str, partitions: int) -> None:
        super().create(topic, partitions)

    def make(self, *topics: str, ephemeral: bool = False) -> int:
        request = ControllerCreateGroupRequest(GROUP, 10_000, list(topics or ("t",)), ephemeral)
        return self.ask(CREATE_GROUP, request).error

    def register(self, name: str) -> Reply:
        return self.ask(REGISTER, RegisterConsumerRequest(GROUP, name), self.client, Reply, self.now)

    def beat(self, name: str, generation: int) -> int:  # type: ignore[override]
        return self.ask(HEARTBEAT, ControllerHeartbeatRequest(GROUP, name, generation, 0), self.now).error

    def rewind(self, *offsets: tuple[int, int]) -> int:
        new = [PartitionToOwn("t", partition, offset) for partition, offset in offsets]
        return self.ask(REWIND, RewindConsumerRequest(GROUP, new), self.now).error

    @property
    def registered(self) -> RegisteredGroup:
        group = self.service.groups[GROUP]
        assert isinstance(group, RegisteredGroup)
        return group


def owned(reply: Reply) -> dict[int, int]:
    return {each.partition: each.offset for each in reply.partitions}


def test_a_newcomer_waits_until_all_members_have_registered() -> None:
    cluster = Cluster(t=4)
    assert cluster.register("a").error == E.GROUP_ID_NOT_FOUND
    cluster.make()
    first = cluster.register("a")
    assert (first.generation_id, owned(first)) == (1, dict.fromkeys(range(4), -1))
    second = cluster.register("b")
    assert second.parked
    assert cluster.beat("a", 1) == E.REBALANCE_IN_PROGRESS
    again = cluster.register("a")
    assert (owned(again), owned(second)) == ({0: -1, 1: -1}, {2: -1, 3: -1})
    assert [cluster.beat(*each) for each in (("a", 2), ("b", 2), ("a", 1), ("c", 2))] == [0, 0, 22, 25]
    assert [event["to"] for event in cluster.of("state")] == ["Registering", "Stable", "Registering", "Stable"]


def test_a_second_registration_replaces_the_first() -> None:
    cluster = Cluster(t=4)
    cluster.make()
    cluster.register("a")
    old = cluster.register("b")
    new = cluster.register("b")
    assert (old.error, new.parked) == (E.REBALANCE_IN_PROGRESS, True)
    # No call came: it was restarted, and all consumers register.
    cluster.register("a")
    assert owned(new).keys() == {2, 3}
    assert cluster.register("a").parked
    assert cluster.registered.cause == "STATIC_REPLACED"


def test_a_round_waits_for_a_silent_member_only_until_its_session_ends() -> None:
    cluster = Cluster(t=4)
    cluster.make()
    cluster.register("a")
    second = cluster.register("b")
    cluster.advance(9_999)
    assert second.parked
    cluster.advance(1)
    assert owned(second).keys() == {0, 1, 2, 3}
    assert cluster.beat("a", 1) == E.UNKNOWN_MEMBER_ID
    cluster.advance(10_000)
    assert (cluster.registered.state, cluster.armed("session"), cluster.armed("join")) == ("Empty", {}, {})


def test_parked_registrations_are_sent_elsewhere_when_the_group_goes_there() -> None:
    cluster = Cluster(t=4)
    cluster.make()
    cluster.register("a")
    second = cluster.register("b")
    cluster.service.unload(cluster.service.partition_of(GROUP), cluster.now)
    cluster.settle()
    assert second.error == E.NOT_COORDINATOR


def test_rewinds_of_unowned_partitions_count_at_once() -> None:
    cluster = Cluster(t=4)
    cluster.make()
    assert cluster.rewind((1, 11), (3, 33)) == 0
    assert owned(cluster.register("a")) == {0: 0, 1: 11, 2: 0, 3: 33}
    assert cluster.rewind((4, 0)) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.rewind((0, -1)) == E.OFFSET_OUT_OF_RANGE


STEPS = st.one_of(
    st.tuples(st.just("register"), st.sampled_from("abc")),
    st.tuples(st.just("beat"), st.sampled_from("abc")),
    st.tuples(st.just("rewind"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.sampled_from([1_000, 6_000, 11_000])),
    st.tuples(st.just("grow"), st.just(1)),
    st.tuples(st.just("crash"), st.just(0)),
)


@settings(max_examples=examples(300, fuzz=10_000), deadline=None)
@given(st.lists(STEPS, max_size=40), st.booleans())
def test_random_histories(steps: list[tuple[str, Any]], ephemeral: bool) -> None:
    cluster = Cluster(t=4)
    cluster.make(ephemeral=ephemeral)
    generation, replies = 0, dict[str, Reply]()
    for step, argument in [*steps, ("wait", 11_000), ("wait", 11_000)]:
        if step == "register":
            replies[argument] = cluster.register(argument)
        elif step == "beat" and argument in replies and not replies[argument].parked:
            assert cluster.beat(argument, replies[argument].generation_id) in {0, 22, 25, 27, 69}
        elif step == "rewind":
            assert cluster.rewind((argument, 7)) in {0, 69}
        elif step == "wait":
            cluster.advance(argument)
        elif step == "grow":
            cluster.create("t", cluster.topics.partitions_of("t") + 1)
        elif step == "crash":
            cluster.crash()
            replies = {name: reply for name, reply in replies.items() if not reply.parked}
        group = cluster.service.groups.get(GROUP)
        if not isinstance(group, RegisteredGroup):
            assert ephemeral
            assert not any(cluster.durable.values())
            cluster.make(ephemeral=ephemeral)
            generation = 0
            continue
        had = [(topic, n) for each in group.members.values() for topic, ns in each.owned.items() for n in ns]
        assert len(had) == len(set(had)), "I1: a partition has two owners"
        assert group.generation >= generation, "I2: the generation fell"
        generation = group.generation
        assert (group.round is None) == (not cluster.armed("join")), "I3: a round has a deadline"
        assert not group.parked or group.round is not None
        assert cluster.armed("session").keys() <= group.members.keys(), "I10: a timer of nobody"
        if group.round is None:
            assert not group.rewinds
            assert not group.members or set(had) == {("t", n) for n in range(cluster.topics.partitions_of("t"))}
