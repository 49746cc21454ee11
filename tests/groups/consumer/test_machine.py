"""Random histories of a consumer group: joins, lost answers, static members, patterns, topics, silence and crashes."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.invariants import check as check_events
from kafka_shim.groups.consumer.group import ConsumerGroup
from tests.examples import examples
from tests.groups.context import GROUP

from .context import Cluster, Consumer
from .offloading import Elsewhere
from .safety import check, check_records

IDS = ["a", "b", "c", "d"]
SUBSCRIPTIONS = [["t"], ["u"], ["t", "u"], ["t", "missing"], []]
LEGAL = {E.NONE, E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.FENCED_INSTANCE_ID, E.UNRELEASED_INSTANCE_ID}
LEGAL |= {E.GROUP_ID_NOT_FOUND, E.GROUP_MAX_SIZE_REACHED}

clients = st.sampled_from(range(len(IDS)))


class Machine(RuleBasedStateMachine):
    @initialize(assignor=st.sampled_from(["uniform", "range"]), node=st.sampled_from([Cluster, Elsewhere]))
    def start(self, assignor: str, node: type[Cluster]) -> None:
        self.cluster = node(f"group.consumer.assignors={assignor}", "group.consumer.max.size=3", t=3, u=2)
        self.clients = [
            Consumer(
                self.cluster,
                name,
                ["t"],
                instance_id="i" if name in "cd" else None,
                rebalance_timeout_ms=1000,
            )
            for name in IDS
        ]
        self.epochs = (0, 0)
        self.names_are_unique = True

    def take(self, client: Consumer, error: int) -> None:
        """Handle an error as a client does: give all partitions up and join again."""
        assert error in LEGAL, error
        if error:
            client.epoch, client.owned, client.assigned = 0, set(), set()

    @rule(number=clients, topics=st.sampled_from(SUBSCRIPTIONS), regex=st.sampled_from([None, None, "t.*", "[tu]"]))
    def join(self, number: int, topics: list[str], regex: str | None) -> None:
        client = self.clients[number]
        client.topics, client.regex = topics, regex
        self.take(client, client.join().error_code)

    @rule(number=clients, lost=st.booleans())
    def obey(self, number: int, lost: bool) -> None:
        client = self.clients[number]
        if client.epoch > 0:
            self.take(client, client.obey(lost=lost).error_code)

    @rule(number=clients, lost=st.booleans(), full=st.booleans())
    def heartbeat(self, number: int, lost: bool, full: bool) -> None:
        client = self.clients[number]
        if client.epoch > 0:
            answer = client.full(lost=lost) if full else client.heartbeat(lost=lost)
            self.take(client, answer.error_code)

    @rule(number=clients, topics=st.sampled_from(SUBSCRIPTIONS), lost=st.booleans())
    def subscribe(self, number: int, topics: list[str], lost: bool) -> None:
        client = self.clients[number]
        if client.epoch > 0:
            client.topics = topics
            self.take(client, client.full(lost=lost).error_code)

    @rule(number=clients, for_a_while=st.booleans())
    def leave(self, number: int, for_a_while: bool) -> None:
        client = self.clients[number]
        if client.epoch > 0:
            client.leave(-2 if for_a_while and client.instance_id else -1)
            client.epoch, client.owned, client.assigned = 0, set(), set()

    @rule(seconds=st.sampled_from([0.5, 1.1, 11, 46]))
    def wait(self, seconds: float) -> None:
        self.cluster.advance(seconds * 1000)

    @rule()
    def crash(self) -> None:
        self.cluster.crash()

    @rule(topic=st.sampled_from(["t", "u", "v", "missing"]), more=st.integers(1, 2))
    def grow(self, topic: str, more: int) -> None:
        self.cluster.create(topic, self.cluster.topics.partitions_of(topic) + more)

    @precondition(lambda self: self.cluster.topics.by_name)
    @rule(data=st.data())
    def delete_topic(self, data: st.DataObject) -> None:
        topic = data.draw(st.sampled_from(sorted(self.cluster.topics.by_name)))
        self.cluster.delete_topic(topic)
        # The trace knows topics by their names.
        self.names_are_unique = False
        for client in self.clients:
            # Another topic may come to have the name.
            client.owned = {(name, number) for name, number in client.owned if name != topic}
            client.assigned = {(name, number) for name, number in client.assigned if name != topic}

    @rule()
    def delete_group(self) -> None:
        if self.cluster.delete(GROUP) == [(GROUP, 0)]:
            self.epochs = (0, 0)
            assert not any(self.cluster.durable.values())

    @invariant()
    def holds(self) -> None:
        check(self.cluster, self.clients)
        group = self.cluster.service.groups.get(GROUP)
        if isinstance(group, ConsumerGroup):
            epochs = group.group_epoch, group.target_epoch
            assert epochs >= self.epochs, "I2: epochs only grow"
            self.epochs = epochs

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        check_records(self.cluster)
        self.converge()
        events = [event | {"seq": n, "mono": 0.0} for n, event in enumerate(self.cluster.events, 1)]
        if self.names_are_unique:
            assert check_events(events) == []

    def converge(self) -> None:
        """After any history the remaining members come to share all subscribed partitions."""
        live = [client for client in self.clients if client.epoch > 0]
        self.cluster.advance(11_000)
        for _ in range(30):
            before = [client.view for client in live]
            for client in live:
                self.take(client, client.obey().error_code)
                check(self.cluster, self.clients)
            live = [client for client in live if client.epoch > 0]
            if before == [client.view for client in live]:
                return
        raise AssertionError("the group does not come to rest")


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(300, fuzz=10_000), stateful_step_count=40, deadline=None)
