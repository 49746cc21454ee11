"""Random histories of a group with computing members: lost answers, crashes, silence, new topics, old results."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.invariants import check as check_events
from kafka_shim.experiments.client_assignors.group import ClientAssignedGroup
from kafka_shim.experiments.client_assignors.messages import ClientAssignor
from tests.examples import examples
from tests.experiments.client_assignors.context import Cluster, Member
from tests.groups.consumer.safety import check, check_records
from tests.groups.context import GROUP

IDS = ["a", "b", "c", "d"]
JOINS_ANEW = {E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.FENCED_INSTANCE_ID, E.UNRELEASED_INSTANCE_ID}
JOINS_ANEW |= {E.GROUP_ID_NOT_FOUND}
NOT_NOW = {E.UNKNOWN_MEMBER_ID, E.STALE_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND, E.INVALID_REQUEST}
ASSIGNORS = [
    (ClientAssignor("even", 0, 0, 0, 0, b""),),
    (ClientAssignor("even", 0, 1, 0, 1, b"weight"),),
    (ClientAssignor("other", 0, 0, 0, 0, b""), ClientAssignor("even", 0, 1, 1, 0, b"")),
    (),
]
clients = st.sampled_from(range(len(IDS)))


class Machine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.cluster = Cluster(t=3, u=2)
        self.members = [
            Member(self.cluster, name, ["t"], instance_id="i" if name in "cd" else None, rebalance_timeout_ms=20_000)
            for name in IDS
        ]
        self.epochs = (0, 0)

    def take(self, member: Member, error: int) -> None:
        assert error in JOINS_ANEW | {0}, error
        if error:
            member.epoch, member.owned, member.assigned, member.should_compute = 0, set(), set(), False

    @rule(number=clients, topics=st.sampled_from([["t"], ["u", "t"]]), assignors=st.sampled_from(ASSIGNORS))
    def join(self, number: int, topics: list[str], assignors: tuple[ClientAssignor, ...]) -> None:
        member = self.members[number]
        member.topics, member.assignors = topics, assignors
        self.take(member, member.join().error_code)

    @rule(number=clients, lost=st.booleans(), assignors=st.sampled_from([None, *ASSIGNORS]))
    def obey(self, number: int, lost: bool, assignors: tuple[ClientAssignor, ...] | None) -> None:
        member = self.members[number]
        if member.epoch > 0:
            said = None if assignors is None else list(assignors)
            self.take(member, member.obey(lost=lost, client_assignors=said).error_code)

    @rule(number=clients)
    def prepare(self, number: int) -> None:
        assert self.members[number].prepare() in NOT_NOW | {0}

    @rule(number=clients)
    def install(self, number: int) -> None:
        """Install an assignment from any earlier fetch, at any time."""
        assert self.members[number].install().error_code in NOT_NOW | {0}

    @rule(number=clients, for_a_while=st.booleans())
    def leave(self, number: int, for_a_while: bool) -> None:
        member = self.members[number]
        if member.epoch > 0:
            member.leave(-2 if for_a_while and member.instance_id else -1)
            self.take(member, E.UNKNOWN_MEMBER_ID)

    @rule(seconds=st.sampled_from([1, 21, 46]))
    def wait(self, seconds: int) -> None:
        self.cluster.advance(seconds * 1000)

    @rule()
    def crash(self) -> None:
        self.cluster.crash()

    @rule(topic=st.sampled_from(["t", "u"]))
    def grow(self, topic: str) -> None:
        self.cluster.create(topic, self.cluster.topics.partitions_of(topic) + 1)

    @invariant()
    def holds(self) -> None:
        check(self.cluster, self.members)
        group = self.cluster.service.groups.get(GROUP)
        if isinstance(group, ClientAssignedGroup):
            epochs = group.group_epoch, group.target_epoch
            assert epochs >= self.epochs, "I2: epochs only grow"
            self.epochs = epochs

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        check_records(self.cluster)
        self.converge()
        events = [event | {"seq": n, "mono": 0.0} for n, event in enumerate(self.cluster.events, 1)]
        assert check_events(events) == []

    def converge(self) -> None:
        """After any history the remaining members come to share all subscribed partitions. Their heartbeats have all
        fields, as those of a client after a lost answer."""
        self.cluster.advance(21_000)
        live = [member for member in self.members if member.epoch > 0]
        for _ in range(30):
            before = [member.view for member in live]
            was_asked = False
            for member in live:
                member.owned = set(member.assigned)
                self.take(member, member.full().error_code)
                if member.should_compute:
                    was_asked = True
                    assert member.compute() == 0
                check(self.cluster, self.members)
            live = [member for member in live if member.epoch > 0]
            if not was_asked and before == [member.view for member in live]:
                break
        group = self.cluster.service.groups.get(GROUP)
        if not live or not isinstance(group, ClientAssignedGroup) or set(group.members) != {m.member_id for m in live}:
            return
        assert group.state == "Stable"
        everything = {
            (topic, number)
            for member in live
            for topic in member.topics
            for number in range(self.cluster.topics.partitions_of(topic))
        }
        assert set().union(*(member.owned for member in live)) == everything


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(300, fuzz=10_000), stateful_step_count=30, deadline=None)


def test_another_version_after_a_failover_still_converges() -> None:
    """A history after which a group stayed Assigning for ever."""
    machine = Machine()
    machine.start()
    machine.join(0, ["t"], ASSIGNORS[0])
    machine.obey(0, lost=False, assignors=ASSIGNORS[1])
    machine.crash()
    machine.join(1, ["t"], ASSIGNORS[1])
    machine.holds()
    machine.teardown()
