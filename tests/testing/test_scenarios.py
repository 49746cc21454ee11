"""Rebalance bugs that clients really had, each as a scenario of the test kit.

What must hold is said of the coordinator's trace and of what the client's listener was told, not of exact sequences of
requests: clients differ in how often they try again. The numbers are those of issues in other projects, as each test
says; that the client at hand passes shows that it does not have the bug.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer

from shim.testing import CoordinatorServer, Simulation

from .clients import Member, until

ORDERS = {"orders": range(4)}
both = pytest.mark.parametrize("kind", ["kafka-python", "confluent-kafka"])
confluent = pytest.mark.parametrize("kind", ["confluent-kafka"])
COOPERATIVE = {"assignors": ("cooperative-sticky",)}


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 4}, brokers=2) as server:
        producer = KafkaProducer(bootstrap_servers=server.bootstrap)
        for partition in range(4):
            for _ in range(5):
                producer.send("orders", b"x", partition=partition)
        producer.close()
        yield server


def exchanges(server: CoordinatorServer, *apis: str) -> list[dict[str, Any]]:
    return [event for event in server.events("billing") if event["event"] == "exchange" and event["api"] in apis]


def comes_to_rest(server: CoordinatorServer, members: int = 1) -> None:
    """So many members share all partitions, and nobody rebalances any more."""
    group = server.kit.group("billing")

    def is_shared() -> bool:
        found = group.now
        owned = sorted(p for member in found.members for p in member.owned.get("orders", ()))
        return found.is_stable and len(found.members) == members and owned == [0, 1, 2, 3]

    assert server.wait(server.kit.watch.waiters.until, is_shared, 25), "\n".join(server.story("billing"))
    server.group("billing").no_rebalance_for(heartbeats=3, timeout=25)


@confluent
def test_r01_a_commit_refused_does_not_unsettle_the_generation(server: CoordinatorServer, kind: str) -> None:
    fault = server.fault("error", "OffsetCommit", error="UNKNOWN_MEMBER_ID")
    with Member(kind, server.bootstrap, "real"):
        fault.wait_fired(timeout=25)
        comes_to_rest(server)
        assert all(each["request"]["generation_id"] > 0 for each in exchanges(server, "SyncGroup", "Heartbeat"))


@both
@pytest.mark.parametrize("error", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"])
def test_r02_a_heartbeat_refused_between_join_and_sync(server: CoordinatorServer, kind: str, error: str) -> None:
    server.puppet("billing", ["orders"], client_id="leader", think=0.5)
    server.group("billing").stable(members=1)
    server.fault("error", "Heartbeat", error=error, client_id="real", state="CompletingRebalance", optional=True)
    with Member(kind, server.bootstrap, "real"):
        comes_to_rest(server, 2)


@confluent
def test_r03_a_swallowed_heartbeat_and_a_reset_connection(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real"):
        server.group("billing").stable(members=1)
        server.fault("swallow", "Heartbeat").wait_fired()
        server.fault("close", "Heartbeat", optional=True)
        server.kill_broker(server.coordinator_of("billing"))
        comes_to_rest(server)


@confluent
def test_r04_being_called_to_rejoin_keeps_the_member_id(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real"):
        before = server.group("billing").stable(members=1)
        server.fault("error", "Heartbeat", error="REBALANCE_IN_PROGRESS").wait_fired()
        server.group("billing").next("exchange", api="JoinGroup", member=before.members[0].member_id)
        comes_to_rest(server)
        assert server.group("billing").now.members[0].member_id == before.members[0].member_id


@both
def test_r05_a_member_that_missed_a_generation_claims_nothing_stale(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", **COOPERATIVE):
        server.group("billing").stable(members=1)
        with server.barrier("sync-arrived", client_id="real") as barrier:
            server.puppet("billing", ["orders"], client_id="b", protocols=["cooperative-sticky"])
            barrier.reached()
            late = server.puppet("billing", ["orders"], client_id="c", protocols=["cooperative-sticky"])
            server.group("billing").next("state", to="PreparingRebalance", trigger=lambda who: who[:2] == "c-")
        comes_to_rest(server, 3)
        assert late.owned["orders"]


@confluent
def test_r06_what_was_lost_is_told_before_what_is_assigned(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real") as real:
        server.group("billing").stable(members=1)
        until(lambda: [what for what, _ in real.told] == ["assigned"])
        server.fault("error", "JoinGroup", error="UNKNOWN_MEMBER_ID", member="?*")
        server.fault("error", "Heartbeat", error="REBALANCE_IN_PROGRESS").wait_fired()
        until(lambda: real.told[-1][0] == "assigned" and len(real.told) > 1)
        assert real.told[1][0] in ("lost", "revoked")
        comes_to_rest(server)


@confluent
def test_r07_a_coordinator_that_moves_during_a_rebalance_leaves_no_ghost(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", session=60_000):
        server.group("billing").stable(members=1)
        server.fault("error", "JoinGroup", error="NOT_COORDINATOR", client_id="real")
        server.move("billing", 3 - server.coordinator_of("billing"))
        server.puppet("billing", ["orders"], client_id="second")
        comes_to_rest(server, 2)
        assert not [each for each in server.events("billing") if each.get("change") == "expired"]


@both
def test_r08_followers_keep_alive_while_the_leader_takes_its_time(server: CoordinatorServer, kind: str) -> None:
    server.puppet("billing", ["orders"], client_id="leader", think=1.5, session_timeout=30)
    server.group("billing").stable(members=1)
    with Member(kind, server.bootstrap, "real", session=1_000):
        comes_to_rest(server, 2)
        assert not [each for each in server.events("billing") if each.get("change") == "expired"]


@confluent
def test_r09_a_slow_revocation_does_not_cost_the_membership(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", session=1_000) as real:
        until(lambda: bool(real.told))
        real.on_revoke = lambda: threading.Event().wait(2.0) and None
        server.puppet("billing", ["orders"], client_id="second")
        comes_to_rest(server, 2)
        assert not [each for each in server.events("billing") if each.get("change") == "expired"]


@both
def test_r10_a_long_batch_ends_in_time_for_the_rebalance(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", session=1_000) as real:
        real.on_record = lambda: threading.Event().wait(0.1) and None
        real.wait_record(0, 0)
        server.puppet("billing", ["orders"], client_id="second")
        comes_to_rest(server, 2)
        ended = [each for each in server.events("billing") if each["event"] == "round"]
        assert all(not each["dropped"] for each in ended)


@confluent
def test_r11_fetching_goes_on_after_a_commit_that_failed_in_a_rebalance(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real") as real:
        real.wait_record(0, 4)
        server.fault("error", "OffsetCommit", error="ILLEGAL_GENERATION", client_id="real", optional=True)
        server.puppet("billing", ["orders"], client_id="second")
        comes_to_rest(server, 2)
        mine = next(m for m in server.group("billing").now.members if m.client_id == "real").owned["orders"][0]
        KafkaProducer(bootstrap_servers=server.bootstrap).send("orders", b"x", partition=mine).get(10)
        real.wait_record(mine, 5)


@confluent
def test_r12_a_commit_refused_between_two_cooperative_rounds(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", **COOPERATIVE) as real:
        real.wait_record(3, 4)
        server.fault("error", "OffsetCommit", error="ILLEGAL_GENERATION", client_id="real", optional=True)
        server.puppet("billing", ["orders"], client_id="second", protocols=["cooperative-sticky"])
        comes_to_rest(server, 2)
        assert len(server.group("billing").now.called("real")[0].owned["orders"]) == 2


@both
def test_r13_nothing_lost_is_committed_after_polling_too_late(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", session=1_000, poll=1_000) as real:
        real.wait_record(0, 0)
        old = server.group("billing").stable(members=1)
        real.on_record = lambda: threading.Event().wait(2.5) and None
        KafkaProducer(bootstrap_servers=server.bootstrap).send("orders", b"x", partition=0).get(10)
        server.group("billing").next("state", to="PreparingRebalance", timeout=20)
        real.on_record = lambda: None
        server.puppet("billing", ["orders"], client_id="second", heartbeat_interval=0.05)
        server.group("billing").stable(members=["real", "second"], timeout=25)
        commits = [each for each in server.events("billing") if each["event"] == "commit" and not each["error"]]
        assert all(each["generation"] >= old.generation for each in commits)


@pytest.mark.parametrize("seed", range(5))
def test_r14_cooperative_members_in_any_order_come_to_rest(seed: int) -> None:
    simulation = Simulation(seed=seed, topics={"orders": 13, "bills": 7})
    topics = [["orders"], ["bills"], ["orders", "bills"], ["bills", "orders"]]
    for number in range(8):
        simulation.puppet("billing", topics[(number * (2 * seed + 1)) % 4], protocols=["cooperative-sticky"])
        simulation.run(1 + seed)
    simulation.run(120)
    found = simulation.group("billing")
    owned = [(topic, p) for member in found.members for topic, each in member.owned.items() for p in each]
    assert sorted(owned) == sorted([("orders", p) for p in range(13)] + [("bills", p) for p in range(7)])


@both
def test_r15_from_eager_to_cooperative_no_partition_is_left_over(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "old"):
        comes_to_rest(server)
        first = server.puppet("billing", ["orders"], client_id="new", protocols=["cooperative-sticky", "range"])
        comes_to_rest(server, 2)
    server.group("billing").stable(members=["new"], owners={"new": ORDERS}, timeout=25)
    assert first.owned == {"orders": [0, 1, 2, 3]}


@both
@pytest.mark.parametrize("point", ["join-complete", "sync-arrived"])
def test_r16_closing_during_a_rebalance_does_not_hang(server: CoordinatorServer, kind: str, point: str) -> None:
    server.puppet("billing", ["orders"], client_id="other")
    server.group("billing").stable(members=1)
    real = Member(kind, server.bootstrap, "real", session=3_000)
    with server.barrier(point, client_id="real") as barrier, real:
        barrier.reached(timeout=25)
        threading.Timer(0.3, barrier.remove).start()
        real.close()
    server.group("billing").stable(members=["other"], owners={"other": ORDERS}, timeout=25)


@both
def test_r17_a_cooperative_member_that_closes_says_so(server: CoordinatorServer, kind: str) -> None:
    server.puppet("billing", ["orders"], client_id="other", protocols=["cooperative-sticky"])
    with Member(kind, server.bootstrap, "real", session=60_000, **COOPERATIVE):
        comes_to_rest(server, 2)
    assert server.group("billing").next("exchange", api="LeaveGroup")["client_id"] == "real"
    server.group("billing").stable(members=["other"], owners={"other": ORDERS})


@confluent
def test_r18_two_members_join_with_one_id_each(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "a"), Member(kind, server.bootstrap, "b"):
        comes_to_rest(server, 2)
        added = [each["member_id"] for each in server.events("billing") if each.get("change") == "added"]
        assert len(added) == len(set(added)) == 2
        assert server.group("billing").now.generation <= 2


@confluent
def test_r19_a_coordinator_that_is_loading_is_asked_again(server: CoordinatorServer, kind: str) -> None:
    fault = server.fault("error", "JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS", times=3)
    with Member(kind, server.bootstrap, "real"):
        comes_to_rest(server)
        assert fault.fired == 3
        assert fault.firings[2].at - fault.firings[0].at > 0.05
