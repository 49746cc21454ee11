"""Rebalance bugs that clients really had, each as a scenario of the test kit.

A scenario checks the coordinator's trace and the calls of the client's listener, not exact sequences of requests:
clients differ in their number of retries. The numbers are those of issues in other projects, as each test
says; a client that passes does not have the bug.

As in Kafka, a connection serves its requests in order and one at a time: requests behind a parked JoinGroup or
SyncGroup wait for its answer. A scenario that wants an answer in between sends its request just before.
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer

from kafka_shim.testing import CoordinatorServer, Simulation

from .clients import Member

pytestmark = pytest.mark.second_stage("real clients")

ORDERS = {"orders": range(4)}
both = pytest.mark.parametrize("kind", ["kafka-python", "confluent-kafka"])
COOPERATIVE: dict[str, Any] = {"assignors": ("cooperative-sticky",)}


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 4}, brokers=2) as server:
        for partition in range(4):
            produce(server, partition, 5)
        yield server


def produce(server: CoordinatorServer, partition: int, records: int = 1) -> None:
    producer = KafkaProducer(bootstrap_servers=server.bootstrap)
    for _ in range(records):
        producer.send("orders", b"x", partition=partition)
    producer.close()


def exchanges(server: CoordinatorServer, *apis: str, client: str = "real") -> list[dict[str, Any]]:
    return [
        event
        for event in server.events()
        if event["event"] == "exchange" and event["api"] in apis and event["client_id"] == client
    ]


def members_gone(server: CoordinatorServer) -> list[str]:
    return [event["client_id"] for event in server.events("billing") if event.get("change") == "expired"]


def comes_to_rest(server: CoordinatorServer, members: int = 1) -> int:
    """Wait until so many members share all partitions, each with three accepted heartbeats; return the generation."""
    group = server.kit.group("billing")

    def is_at_rest() -> bool:
        state = group.now
        owned = sorted(p for member in state.members for p in member.owned.get("orders", ()))
        if not state.is_stable or len(state.members) != members or owned != [0, 1, 2, 3]:
            return False
        well = [
            event["member"]
            for _, _, event in server.kit.history.since(0, "billing")
            if event["event"] == "exchange"
            and event["api"] == "Heartbeat"
            and not event["error"]
            and event["request"]["generation_id"] == state.generation
        ]
        return all(well.count(member.member_id) >= 3 for member in state.members)

    assert server.wait(server.kit.conditions.until, is_at_rest, 60), "\n".join(server.story("billing"))
    return server.group("billing").now.generation


@both
def test_r01_a_commit_refused_while_joining_does_not_unsettle_the_generation(
    server: CoordinatorServer, kind: str
) -> None:
    server.puppet("billing", ["orders"], client_id="slow", think=0.3)
    with Member(kind, server.bootstrap, "real", commits=False, session=4_000) as real:
        before = comes_to_rest(server, 2)
        real.on_revoke = lambda: real.commit(0, 1)
        refused = server.fault("error", "OffsetCommit", error="UNKNOWN_MEMBER_ID", client_id="real", evict=False)
        server.puppet("billing", ["orders"], client_id="second")
        refused.wait_fired()
        server.group("billing").next("parked", api="JoinGroup", member=lambda who: who.startswith("real"))
        assert comes_to_rest(server, 3) <= before + 2
        joined = {each["answer"]["generation_id"] for each in exchanges(server, "JoinGroup") if not each["error"]}
        assert {each["request"]["generation_id"] for each in exchanges(server, "SyncGroup", "Heartbeat")} <= joined


@both
@pytest.mark.parametrize("error", ["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"])
def test_r02_a_heartbeat_refused_as_soon_as_a_join_is_answered(
    server: CoordinatorServer, kind: str, error: str
) -> None:
    server.puppet("billing", ["orders"], client_id="leader", think=0.3)
    server.group("billing").stable(members=1)
    # confluent-kafka sends it behind its SyncGroup, which waits for the leader; kafka-python after its answer.
    refused = server.fault("error", "Heartbeat", error=error, client_id="real", generation=2)
    with Member(kind, server.bootstrap, "real"):
        refused.wait_fired()
        comes_to_rest(server, 2)
        assert all(each["request"]["generation_id"] > 0 for each in exchanges(server, "SyncGroup"))
        forgotten = [each for each in exchanges(server, "Heartbeat") if each["request"]["generation_id"] <= 0]
        # librdkafka forgets its generation when a heartbeat is refused, and may send the next one, with -1, before its
        # application polls and lets it join again. It never has an answer that would make it stay.
        assert forgotten == [] or (kind == "confluent-kafka" and all(each["error"] for each in forgotten))


@both
def test_r03_a_swallowed_heartbeat_and_a_reset_connection(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real") as real:
        before = comes_to_rest(server)
        server.fault("swallow", "Heartbeat").wait_fired()
        assert server.disconnect("real")
        server.group("billing").next("exchange", from_now=True, api="Heartbeat", error=0)
        assert comes_to_rest(server) == before
        produce(server, 0)
        real.wait_record(0, 5)


@both
def test_r04_being_called_to_rejoin_keeps_the_member_id(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", commits=False) as real:
        comes_to_rest(server)
        before = server.group("billing").now.members
        commit = server.fault("error", "OffsetCommit", error="REBALANCE_IN_PROGRESS")
        real.on_revoke = lambda: real.commit(0, 1)
        server.fault("error", "Heartbeat", error="REBALANCE_IN_PROGRESS").wait_fired()
        commit.wait_fired()
        server.group("billing").next("exchange", api="JoinGroup", member=before[0].member_id)
        comes_to_rest(server)
        assert [each.member_id for each in server.group("billing").now.members] == [before[0].member_id]


@both
def test_r05_a_member_that_missed_a_generation_claims_nothing_stale(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", **COOPERATIVE):
        comes_to_rest(server)
        with server.barrier("sync-arrived", client_id="real") as barrier:
            server.puppet("billing", ["orders"], client_id="b", protocols=["cooperative-sticky"])
            barrier.reached()
            late = server.puppet("billing", ["orders"], client_id="c", protocols=["cooperative-sticky"])
            server.group("billing").next("state", to="PreparingRebalance", trigger=lambda who: who[:2] == "c-")
        comes_to_rest(server, 3)
        assert 27 in [each["error"] for each in exchanges(server, "SyncGroup")]
        assert late.owned["orders"]


@both
def test_r06_lost_partitions_are_reported_before_assigned_ones(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real") as real:
        comes_to_rest(server)
        callbacks = len(real.callbacks)
        fault = server.fault("error", "JoinGroup", error="UNKNOWN_MEMBER_ID", member="?*")
        server.fault("error", "Heartbeat", error="REBALANCE_IN_PROGRESS").wait_fired()
        fault.wait_fired()
        assert real.wait_callback("assigned", callbacks)[0] in ("lost", "revoked")
        comes_to_rest(server)


@both
def test_r07_a_coordinator_that_moves_during_a_rebalance_leaves_no_ghost(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", session=60_000):
        comes_to_rest(server)
        before = server.group("billing").now.members[0].member_id
        fault = server.fault("error", "JoinGroup", error="NOT_COORDINATOR", client_id="real")
        server.puppet("billing", ["orders"], client_id="second")
        fault.wait_fired()
        server.move("billing", 3 - server.coordinator_of("billing"))
        comes_to_rest(server, 2)
        assert server.group("billing").now.called("real")[0].member_id == before
        assert members_gone(server) == []


@both
def test_r08_followers_keep_alive_while_the_leader_takes_its_time(server: CoordinatorServer, kind: str) -> None:
    # In real time, since the follower has a clock of its own by which it could give up.
    server.puppet("billing", ["orders"], client_id="leader", think=5, session_timeout=30)
    server.group("billing").stable(members=1)
    with Member(kind, server.bootstrap, "real", session=4_000):
        server.group("billing").next("parked", api="SyncGroup")
        assert comes_to_rest(server, 2) == 2
        assert [each["error"] for each in exchanges(server, "SyncGroup")] == [0]
        assert members_gone(server) == []


def test_r09_a_slow_revocation_does_not_end_the_membership(server: CoordinatorServer) -> None:
    with Member("confluent-kafka", server.bootstrap, "real") as real:
        comes_to_rest(server)
        done = threading.Event()
        real.on_revoke = lambda: done.wait(20)
        server.clock.freeze()
        server.puppet("billing", ["orders"], client_id="second", session_timeout=60)
        real.wait_callback("revoked")
        for _ in range(4):  # Twice as long as its session.
            server.group("billing").next("exchange", from_now=True, api="Heartbeat", client_id="real")
            server.clock.advance(5)
        done.set()
        server.clock.resume()
        comes_to_rest(server, 2)
        assert members_gone(server) == []


def test_r09_kafka_python_sends_no_heartbeat_while_its_listener_works(server: CoordinatorServer) -> None:
    """kafka-python has this bug: it calls the listener in the thread of the heartbeats, so the member is expelled."""
    with Member("kafka-python", server.bootstrap, "real") as real:
        comes_to_rest(server)
        done = threading.Event()
        real.on_revoke = lambda: done.wait(20)
        server.clock.freeze()
        server.puppet("billing", ["orders"], client_id="second", session_timeout=60)
        real.wait_callback("revoked")
        server.clock.advance(10.1)
        assert members_gone(server) == ["real"]
        done.set()
        server.clock.resume()
        comes_to_rest(server, 2)


@both
def test_r10_a_long_batch_ends_in_time_for_the_rebalance(server: CoordinatorServer, kind: str) -> None:
    done, real = threading.Event(), Member(kind, server.bootstrap, "real", poll=30_000)
    real.on_record = lambda: done.wait(20)
    with real:
        real.wait(lambda: bool(real.records))
        server.clock.freeze()
        server.puppet("billing", ["orders"], client_id="second", session_timeout=60, rebalance_timeout=30)
        for _ in range(5):  # The batch takes 25 of the 30 seconds of the rebalance timeout.
            server.group("billing").next("exchange", from_now=True, api="Heartbeat", client_id="real", error=27)
            server.clock.advance(5)
        done.set()
        server.clock.resume()
        comes_to_rest(server, 2)
        assert not [each for each in server.events("billing") if each["event"] == "round" and each["dropped"]]


@both
def test_r11_fetching_goes_on_after_a_commit_that_failed_in_a_rebalance(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", commits=False) as real:
        generation = comes_to_rest(server)
        real.on_revoke = lambda: real.commit(0, 1)
        refused = server.fault("error", "OffsetCommit", error="ILLEGAL_GENERATION", state="PreparingRebalance")
        server.puppet("billing", ["orders"], client_id="second")
        refused.wait_fired()
        assert refused.firings[0].client_id == "real"
        assert comes_to_rest(server, 2) > generation
        for partition in server.group("billing").now.called("real")[0].owned["orders"]:
            produce(server, partition)
            real.wait_record(partition, 5)


@both
def test_r12_a_commit_refused_between_two_cooperative_rounds(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", commits=False, **COOPERATIVE) as real:
        generation = comes_to_rest(server)
        real.on_revoke = lambda: real.commit(0, 1)
        refused = server.fault("error", "OffsetCommit", error="ILLEGAL_GENERATION", generation=generation + 1)
        server.puppet("billing", ["orders"], client_id="second", protocols=["cooperative-sticky"])
        refused.wait_fired()
        assert comes_to_rest(server, 2) == generation + 2
        own = server.group("billing").now.called("real")[0].owned["orders"]
        losses = [(what, which) for what, which in real.callbacks if what != "assigned"]
        assert losses[0] == ("revoked", [p for p in range(4) if p not in own])
        # Like Kafka's own consumer, kafka-python reports the partitions that it keeps as lost and gets them again if
        # the refusal arrives before it joins again. No call of the client lets its listener wait for that answer.
        assert losses[1:] in ([], [("lost", own)] if kind == "kafka-python" else [])
        assert len(own) == 2


@both
def test_r13_a_late_poll_commits_no_lost_partition(server: CoordinatorServer, kind: str) -> None:
    # In real time: the client measures the late poll with its own clock.
    done, real = threading.Event(), Member(kind, server.bootstrap, "real", session=3_000, poll=3_000)
    real.on_record = lambda: done.wait(20)
    with real:
        real.wait(lambda: bool(real.records))
        old = server.group("billing").now.members[0].member_id
        server.puppet("billing", ["orders"], client_id="second")
        server.group("billing").stable(members=["second"], owners={"second": ORDERS}, timeout=20)
        passed_on = len(server.events("billing"))
        done.set()
        comes_to_rest(server, 2)
        later = [each for each in server.events("billing")[passed_on:] if each["event"] == "commit"]
        assert [each for each in later if each["member_id"] in (old, "") and not each["error"]] == []


@pytest.mark.parametrize("seed", range(5))
def test_r14_cooperative_members_in_any_order_come_to_rest(seed: int) -> None:
    simulation = Simulation(seed=seed, topics={"orders": 13, "bills": 7})
    topics = [["orders"], ["bills"], ["orders", "bills"], ["bills", "orders"]]
    for number in range(8):
        simulation.puppet("billing", topics[(number * (2 * seed + 1)) % 4], protocols=["cooperative-sticky"])
        simulation.run(1 + seed)
    simulation.run(120)
    group = simulation.group("billing")
    owned = [(topic, p) for member in group.members for topic, each in member.owned.items() for p in each]
    assert sorted(owned) == sorted([("orders", p) for p in range(13)] + [("bills", p) for p in range(7)])


@both
def test_r14_a_real_leader_assigns_to_members_that_come_and_go(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real", **COOPERATIVE):
        comes_to_rest(server)
        for number in range(3):
            leaving = server.puppet("billing", ["orders"], client_id="passes", protocols=["cooperative-sticky"])
            comes_to_rest(server, 2 + number)
            server.puppet("billing", ["orders"], client_id=f"stays-{number}", protocols=["cooperative-sticky"])
            comes_to_rest(server, 3 + number)
            leaving.leave()
            comes_to_rest(server, 2 + number)
        led = [event for event in server.events("billing") if event["event"] == "assignment"]
        assert led
        assert max(event["leader_ms"] for event in led) < 2_000


@both
def test_r15_from_eager_to_cooperative_no_partition_is_left_over(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "old"):
        comes_to_rest(server)
        first = server.puppet("billing", ["orders"], client_id="new", protocols=["cooperative-sticky", "range"])
        comes_to_rest(server, 2)
    server.group("billing").stable(members=["new"], owners={"new": ORDERS})
    with Member(kind, server.bootstrap, "newer", **COOPERATIVE):
        comes_to_rest(server, 2)
        assert server.group("billing").now.protocol == "cooperative-sticky"
    assert server.group("billing").stable(members=["new"], owners={"new": ORDERS})
    assert first.owned == {"orders": [0, 1, 2, 3]}


@both
@pytest.mark.parametrize("point", ["join-complete", "sync-arrived"])
def test_r16_closing_during_a_rebalance_does_not_hang(server: CoordinatorServer, kind: str, point: str) -> None:
    server.puppet("billing", ["orders"], client_id="other")
    server.group("billing").stable(members=1)
    real = Member(kind, server.bootstrap, "real", session=30_000)
    with server.barrier(point, client_id="real") as barrier, real:
        barrier.reached()
        real.begin_to_close()
        barrier.remove()
        real.close()
    # Earlier than the end of a silent member's session.
    server.group("billing").stable(members=["other"], owners={"other": ORDERS}, timeout=10)


@both
def test_r17_a_closing_cooperative_member_leaves(server: CoordinatorServer, kind: str) -> None:
    server.puppet("billing", ["orders"], client_id="other", protocols=["cooperative-sticky"])
    with Member(kind, server.bootstrap, "real", session=60_000, **COOPERATIVE):
        comes_to_rest(server, 2)
    assert server.group("billing").next("exchange", api="LeaveGroup")["client_id"] == "real"
    server.group("billing").stable(members=["other"], owners={"other": ORDERS})


@both
def test_r18_two_members_join_with_one_id_each(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "a"), Member(kind, server.bootstrap, "b"):
        comes_to_rest(server, 2)
        causes = [event["cause"] for event in server.events("billing") if event.get("to") == "PreparingRebalance"]
        # A leader that assigned before it had the metadata of the topic joins again when it has it.
        assert "NEW_MEMBER" in causes
        assert causes.count("NEW_MEMBER") <= 2
        assert set(causes) <= {"NEW_MEMBER", "LEADER_REJOINED"}
        joins = exchanges(server, "JoinGroup", client="a") + exchanges(server, "JoinGroup", client="b")
        assert [each["request"]["member_id"] for each in joins if each["error"] == 79] == ["", ""]
        added = [each["member_id"] for each in server.events("billing") if each.get("change") == "added"]
        assert len(added) == len(set(added)) == 2


@both
def test_r19_clients_retry_a_loading_coordinator(server: CoordinatorServer, kind: str) -> None:
    loading = server.fault("error", "JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS", times=3)
    with Member(kind, server.bootstrap, "real"):
        loading.wait_fired(3, timeout=20)
        comes_to_rest(server)
        assert loading.firings[2].at - loading.firings[0].at > 0.05


@both
def test_r20_a_refused_heartbeat_triggers_no_find_coordinator(server: CoordinatorServer, kind: str) -> None:
    with Member(kind, server.bootstrap, "real"):
        comes_to_rest(server)
        before = len(exchanges(server, "FindCoordinator"))
        for error in ("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"):
            server.fault("error", "Heartbeat", error=error).wait_fired()
            if error == "UNKNOWN_MEMBER_ID":
                server.group("billing").next("state", to="PreparingRebalance", cause="NEW_MEMBER")
                server.clock.advance(10)
            comes_to_rest(server)
        assert before
        assert len(exchanges(server, "FindCoordinator")) == before
