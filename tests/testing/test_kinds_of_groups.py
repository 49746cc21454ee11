"""Each kind of group on the default coordinator for tests: no member waits for a heartbeat that is seconds away."""

import threading
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, ShareConsumer

from kafka_shim.testing import CoordinatorServer, Manner, NotReached, polling

KINDS = ("puppet", "consumer_puppet", "share_puppet", "streams_puppet")
SESSION_S = 45.0
"""The session timeout of every kind here, Kafka's default."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_join_and_a_takeover_need_a_third_of_a_second(kind: str) -> None:
    """In the coordinator's time, which stands still: the same on each machine."""
    with CoordinatorServer(topics={"orders": 4}) as server:
        server.clock.freeze()
        start, group = getattr(server, kind), server.group("billing")
        script = {"session_timeout": SESSION_S} if kind == "puppet" else {}
        doomed = start("billing", ["orders"], client_id="doomed", **script)
        server.clock.advance(0.1)
        heir = start("billing", ["orders"], client_id="heir", **script)
        server.clock.advance(0.3)
        assert group.now.is_stable
        assert {each.client_id for each in group.now.members} == {"doomed", "heir"}
        doomed.crash()
        server.clock.advance(SESSION_S + 0.3)
        assert [each.client_id for each in group.now.members if group.now.is_stable] == ["heir"]
        assert list(heir.owned.values()) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("kind", KINDS)
def test_who_waits_for_a_stable_group_finds_its_partitions_assigned(kind: str) -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        getattr(server, kind)("billing", ["orders"])
        (member,) = server.group("billing").stable(members=1).members
        assert list(member.owned.values()) == [[0, 1, 2, 3]]


def test_a_test_can_have_the_assignment_interval_of_kafka() -> None:
    with CoordinatorServer(topics={"orders": 4}, config={"group.consumer.assignment.interval.ms": "1000"}) as server:
        server.clock.freeze()
        group = server.group("billing")
        first = server.consumer_puppet("billing", ["orders"])
        server.clock.advance(0.2)
        assert list(first.owned.values()) == [[0, 1, 2, 3]]
        second = server.consumer_puppet("billing", ["orders"])
        server.clock.advance(0.7)
        assert (group.now.state, second.owned) == ("Assigning", {})
        server.clock.advance(0.4)
        assert group.now.is_stable
        assert [len(each.owned["orders"]) for each in (first, second)] == [2, 2]


def test_a_real_consumer_of_the_new_protocol_takes_over_soon() -> None:
    with CoordinatorServer(topics={"orders": 4}) as server, ExitStack() as stack:
        consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": "billing",
                "client.id": "real",
                "group.protocol": "consumer",
                "log_level": 0,
            }
        )
        stack.callback(consumer.close)
        consumer.subscribe(["orders"])
        stack.enter_context(polling(consumer))
        group = server.group("billing")
        group.stable(owners={"real": {"orders": range(4)}}, timeout=4)
        leaver = server.consumer_puppet("billing", ["orders"], client_id="leaver")
        group.stable(members=["real", "leaver"], timeout=4)
        leaver.leave()
        group.stable(owners={"real": {"orders": range(4)}}, timeout=4)


def test_a_real_share_consumer_joins_a_group_soon() -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        consumer = ShareConsumer(
            {"bootstrap.servers": server.bootstrap, "group.id": "billing", "client.id": "real", "log_level": 0}
        )
        consumer.subscribe(["orders"])
        stopped = threading.Event()

        def poll() -> None:
            while not stopped.is_set():
                consumer.poll(0.05)

        thread = threading.Thread(target=poll)
        thread.start()
        group = server.group("billing")
        try:
            group.stable(members=["real"], timeout=4)
            group.owns("real", {"orders": [0, 1]}, timeout=4)
            puppet = server.share_puppet("billing", ["orders"], client_id="second")
            group.stable(members=["real", "second"], timeout=4)
            assert len(puppet.owned["orders"]) == 1
        finally:
            stopped.set()
            thread.join()
            consumer.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_without_rebalances_counts_heartbeats_of_each_kind(kind: str) -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        getattr(server, kind)("billing", ["orders"], client_id="first")
        group = server.group("billing")
        owned = "0" if kind == "streams_puppet" else "orders"  # a task's subtopology, a partition's topic
        group.stable(owners={"first": {owned: range(4)}})
        group.no_rebalance_for(heartbeats=2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rebalance_of_each_kind_is_noticed(kind: str) -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        doomed = getattr(server, kind)("billing", ["orders"], client_id="first")
        getattr(server, kind)("billing", ["orders"], client_id="second")
        group = server.group("billing")
        group.stable(members=2)
        doomed.crash()
        server.clock.freeze()
        with pytest.raises(NotReached, match="No rebalance was expected"):
            group.no_rebalance_for(SESSION_S + 1)


def test_a_wait_names_what_is_missing() -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        group = server.group("billing")
        server.clock.freeze()
        stuck = Manner(never_rejoins=True)
        server.puppet("billing", ["orders"], client_id="stuck", manner=stuck, rebalance_timeout=30)
        group.stable(members=1)
        server.puppet("billing", ["orders"], client_id="real", rebalance_timeout=60)
        group.next("member", client_id="real", change="added")
        with pytest.raises(
            NotReached, match=r"No member event of the group has change='joined'; there are 'added', 'pending'\."
        ):
            group.next("member", change="joined", timeout=0.01)
        expected = (
            "It waits for stuck to join again, for 60 s at most: the longest rebalance timeout is that of real, 60 s."
        )
        with pytest.raises(NotReached, match=expected):
            group.stable(members=2, timeout=0.01)
        server.clock.advance(60)
        group.stable(members=["real"])


def test_a_wait_for_a_regular_expression_says_when_its_topics_are_looked_for() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.consumer_puppet("billing", [], pattern="orders.*", client_id="one")
        group = server.group("billing")
        group.stable(owners={"one": {"orders": [0]}})
        server.create_topic("orders-2")
        server.clock.freeze()
        with pytest.raises(NotReached, match=r"every 10 s, next in (\d+) s: clock\.advance\(\1\)") as vain:
            group.owns("one", {"orders-2": [0]}, timeout=0.05)
        server.clock.advance(int(str(vain.value).partition("next in ")[2].split()[0]))
        server.clock.resume()
        group.owns("one", {"orders-2": [0]})
