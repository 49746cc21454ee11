"""Members of the consumer protocol on the simulator, and the effect of each bad manner."""

import pytest

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.lab.consumer_puppets import ConsumerManner, ConsumerPuppet
from kafka_shim.lab.scheduler import Network
from kafka_shim.lab.simulator import Simulation
from kafka_shim.testing import CoordinatorServer
from kafka_shim.trace.causes import Cause
from tests.why.simulated import recorded

EVERYTHING = {("orders", number) for number in range(12)}


def owned(*puppets: ConsumerPuppet) -> list[tuple[str, int]]:
    return sorted((topic, number) for each in puppets for topic, numbers in each.owned.items() for number in numbers)


def test_members_share_leave_and_come_back() -> None:
    simulation = Simulation(topics={"orders": 12}, network=Network(least=0.001, most=0.05), seed=7)
    first, second, third = (simulation.consumer_puppet("billing", ["orders"], client_id=name) for name in "abc")
    simulation.run(30)
    assert owned(first, second, third) == sorted(EVERYTHING)
    assert [sum(map(len, each.owned.values())) for each in (first, second, third)] == [4, 4, 4]
    third.leave()
    simulation.run(20)
    assert owned(first, second) == sorted(EVERYTHING)
    second.crash()
    simulation.run(60)
    assert owned(first) == sorted(EVERYTHING)
    assert first.errors == []


def test_a_static_member_gets_its_partitions_back() -> None:
    simulation = Simulation(topics={"orders": 12})
    first = simulation.consumer_puppet("billing", ["orders"])
    static = simulation.consumer_puppet("billing", ["orders"], instance_id="one")
    simulation.run(20)
    had, epoch = dict(static.owned), first.generation
    static.leave()
    simulation.run(5)
    again = simulation.consumer_puppet("billing", ["orders"], instance_id="one")
    simulation.run(5)
    assert (again.owned, first.generation) == (had, epoch)
    twin = simulation.consumer_puppet("billing", ["orders"], instance_id="one")
    simulation.run(1)
    assert twin.fenced
    assert twin.errors == [("ConsumerGroupHeartbeat", ErrorCode.UNRELEASED_INSTANCE_ID)]


def test_a_member_that_never_revokes_is_removed_at_its_rebalance_timeout() -> None:
    with recorded() as record:
        simulation = record.simulation
        deaf = simulation.consumer_puppet(
            "billing", ["orders"], client_id="deaf", rebalance_timeout=20.0, manner=ConsumerManner(never_revokes=True)
        )
        simulation.run(10)
        new = simulation.consumer_puppet("billing", ["orders"], client_id="new")
        simulation.run(15)
        history = record.history()
        assert history.epochs is not None
        # Six are its own now, but it still says that it has the others.
        assert [what for _, what in history.epochs.waiting()] == ["must give up 6 partitions"]
        assert owned(new) == []
        simulation.run(30)
    assert (("ConsumerGroupHeartbeat", ErrorCode.UNKNOWN_MEMBER_ID)) in deaf.errors
    assert Cause.REBALANCE_TIMEOUT in [each.cause for each in record.history().rebalances]
    # It has joined again and owns nothing.
    assert owned(deaf, new) == sorted(EVERYTHING)


def test_a_late_report_delays_the_new_owner() -> None:
    with recorded() as record:
        simulation = record.simulation
        simulation.consumer_puppet("billing", ["orders"], client_id="late", manner=ConsumerManner(reports_late=12.0))
        simulation.run(10)
        simulation.consumer_puppet("billing", ["orders"], client_id="new")
        simulation.run(60)
    history = record.history()
    slow = history.rebalances[1].slow
    assert slow is not None
    assert history.members[slow.member_id].client_id == "late"
    assert slow.called is not None
    assert slow.seconds - slow.called == pytest.approx(12.0, abs=0.1)


def test_a_member_with_an_old_epoch_is_fenced_and_rejoins() -> None:
    simulation = Simulation(topics={"orders": 12})
    bad = simulation.consumer_puppet("billing", ["orders"], manner=ConsumerManner(forgets_epoch=True))
    simulation.run(10)
    simulation.consumer_puppet("billing", ["orders"])
    simulation.run(30)
    assert (("ConsumerGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH)) in bad.errors


def test_a_real_server_accepts_consumer_puppets() -> None:
    config = {"group.consumer.heartbeat.interval.ms": "5000", "group.initial.rebalance.delay.ms": "0"}
    with CoordinatorServer(topics={"orders": 4}, config=config) as server:
        puppet = server.consumer_puppet("billing", ["orders"], client_id="new", manner={"reports_late": 1.0})
        server.group("billing").stable(members=1)
        assert server.group("billing").now.state == "Stable"
        assert puppet.generation == 2
