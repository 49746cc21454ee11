"""The coordinator in a thread: starting, awaiting, puppets, and what happens when something is wrong."""

import socket
import threading
from pathlib import Path

import orjson
import pytest
import trio
from kafka import KafkaConsumer

from persistence.memory import MemoryStore
from shim.groups.trace import problems
from shim.testing import CoordinatorServer, NotReached, open_coordinator, polling


def consumer_of(server: CoordinatorServer, name: str = "real", **settings: object) -> KafkaConsumer:
    settings = {"group_id": "billing", "auto_offset_reset": "earliest", "client_id": name} | settings
    return KafkaConsumer("orders", bootstrap_servers=server.bootstrap, **settings)


def test_a_real_consumer_and_puppets_share_the_partitions() -> None:
    with CoordinatorServer(topics={"orders": 6}) as server:
        consumer = consumer_of(server)
        with polling(consumer):
            server.group("billing").stable(members=["real"], owners={"real": {"orders": range(6)}})
            puppets = [server.puppet("billing", ["orders"], client_id=f"puppet-{number}") for number in range(2)]
            found = server.group("billing").stable(members=3, timeout=20)
        consumer.close()
        assert sorted(p for member in found.members for p in member.owned["orders"]) == list(range(6))
        assert all(len(puppet.owned["orders"]) == 2 for puppet in puppets)


def test_a_test_that_fails_is_told_that_a_consumer_was_polled_no_more() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        consumer = consumer_of(server)
        consumer.close()
        with pytest.raises(NotReached) as failure, polling(consumer) as polled:
            server.group("billing").stable(members=1, timeout=0.2)
        assert [type(error).__name__ for error in polled.errors] == ["IllegalStateError"]
        assert "Polling a consumer had ended with IllegalStateError" in failure.value.__notes__[0]


def test_what_was_awaited_in_vain_is_told_with_the_story() -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        server.puppet("billing", ["orders"], client_id="lonely")
        server.group("billing").stable(members=1)
        with pytest.raises(NotReached) as failure:
            server.group("billing").stable(members=2, timeout=0.05)
        told = str(failure.value)
        assert "stable with members=2" in told
        assert "billing is Stable, generation 1, 1 members" in told
        assert "lonely" in told


def test_events_are_awaited_one_after_the_other() -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        group = server.group("billing")
        first = server.puppet("billing", ["orders"], client_id="first")
        assert group.next("member", change="added")["client_id"] == "first"
        group.stable(members=1)
        server.puppet("billing", ["orders"], client_id="second")
        assert group.next("member", change="added")["client_id"] == "second"
        group.stable(members=2, generation=2)
        first.leave()
        assert group.next("state", to="PreparingRebalance", cause="MEMBER_LEFT")["generation"] == 2
        group.stable(members=["second"])


def test_what_happened_before_counts_unless_only_what_comes_is_meant() -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        billing, other = server.group("billing"), server.group("other")
        puppets = [server.puppet(group.name, ["orders"]) for group in (billing, other)]
        for group in (billing, other):
            group.stable(members=1)
        for offset in (1, 2):
            for puppet in puppets:
                puppet.commit({("orders", 0): offset})
        other.committed("orders", 0, at_least=2)
        assert billing.next("commit")["offsets"][0]["offset"] == 1
        with pytest.raises(NotReached):
            billing.next("commit", from_now=True, timeout=0.05)
        puppets[0].commit({("orders", 0): 3})
        assert billing.next("commit")["offsets"][0]["offset"] == 3


def test_commits_are_awaited() -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        puppet = server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        puppet.commit({("orders", 1): 42})
        assert server.group("billing").committed("orders", 1, at_least=42) == 42


def test_no_rebalance_is_noticed_by_heartbeats_not_by_waiting() -> None:
    with CoordinatorServer(topics={"orders": 2}) as server:
        server.puppet("billing", ["orders"], heartbeat_interval=0.02)
        group = server.group("billing")
        group.stable(members=1)
        group.no_rebalance_for(heartbeats=3)
        silent = server.puppet("billing", ["orders"], session_timeout=45)
        group.stable(members=2)
        server.clock.freeze()
        silent.silence()
        group.no_rebalance_for(44)
        with pytest.raises(NotReached, match="no rebalance"):
            group.no_rebalance_for(1)


def test_many_run_at_once() -> None:
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            with CoordinatorServer(topics={"orders": number % 5 + 1}) as server:
                server.puppet("billing", ["orders"])
                found = server.group("billing").stable(members=1, timeout=60)
                assert len(found.members[0].owned["orders"]) == number % 5 + 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_configuration_that_cannot_be_is_said_in_one_sentence() -> None:
    server = CoordinatorServer(config={"group.max.size": "none"})
    with pytest.raises(ValueError, match=r"group\.max\.size must be"):
        server.start()


def test_after_the_end_it_says_so() -> None:
    with CoordinatorServer() as server:
        address = server.bootstrap.split(":")
    with pytest.raises(RuntimeError, match="not running"):
        server.story()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((address[0], int(address[1])))


def test_a_store_outlives_the_server() -> None:
    store = MemoryStore()
    with CoordinatorServer(topics={"orders": 1}, store=store) as server:
        puppet = server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        puppet.commit({("orders", 0): 7})
        server.group("billing").committed("orders", 0)
    with CoordinatorServer(topics={"orders": 1}, store=store) as server:
        assert server.group("billing").committed("orders", 0) == 7


def test_the_trace_is_one_that_others_can_read(tmp_path: Path) -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        server.write_trace(tmp_path / "trace.jsonl")
    events = [orjson.loads(line) for line in (tmp_path / "trace.jsonl").read_bytes().splitlines()]
    assert [problem for event in events for problem in problems(event)] == []
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert "assignment" in {event["event"] for event in events}


async def test_on_trio_it_runs_in_the_nursery_of_the_test() -> None:
    async with open_coordinator(topics={"orders": 3}) as kit:
        puppet = kit.puppet("billing", ["orders"])
        with trio.fail_after(10):
            found = await kit.group("billing").stable(members=1)
        assert found.members[0].member_id == puppet.member_id
        assert puppet.owned == {"orders": [0, 1, 2]}
