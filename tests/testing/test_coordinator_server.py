"""The coordinator in a thread: starting, awaiting, puppets, and what happens when something is wrong."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Any

import orjson
import pytest
import trio
from kafka import KafkaConsumer

from kafka_shim.broker.topics import TopicError
from kafka_shim.groups.trace import problems
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.testing import CoordinatorServer, NotReached, open_coordinator, polling


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
            owned = {puppet.member_id: puppet.owned for puppet in puppets}
        consumer.close()
        assert sorted(p for member in found.members for p in member.owned["orders"]) == list(range(6))
        assert owned == {member.member_id: member.owned for member in found.members if member.client_id != "real"}


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
        message = str(failure.value)
        assert "stable with members=2" in message
        assert "billing is Stable, generation 1, 1 members" in message
        assert "lonely" in message


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


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for eight open files of each of two hundred servers."""
    before = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (max(before[0], min(before[1], 4096)), before[1]))
    yield
    setrlimit(RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_files")
def test_two_hundred_run_at_once() -> None:
    failures: list[BaseException] = []
    all_run = threading.Barrier(200)

    def one(number: int) -> None:
        try:
            with CoordinatorServer(topics={"orders": number % 5 + 1}) as server:
                server.puppet("billing", ["orders"])
                found = server.group("billing").stable(members=1, timeout=60)
                all_run.wait(60)
                assert len(found.members[0].owned["orders"]) == number % 5 + 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"config": {"group.max.size": "none"}}, r"group\.max\.size must be an integer"),
        (
            {"config": {"group.max.sise": "4"}},
            "did you mean 'group.max.size'",
        ),
        ({"config": ["group.max.size=4"]}, "config is values by Kafka's names"),
        ({"topics": ["orders"]}, "topics are numbers of partitions by name"),
        ({"topics": {"orders": 0}}, "partitions of topic 'orders' must be a whole number from 1"),
        ({"topics": {"a b": 1}}, "Topic name is invalid"),
        ({"brokers": 0}, "brokers must be a whole number from 1 on, not 0"),
        ({"release": "9.9"}, r"release is one of 2\.8, 3\.9, 4\.2, not '9\.9'"),
        ({"faults": {"action": "drop"}}, "faults are a list"),
        ({"faults": [{"api": "JoinGroup"}]}, "A fault is its keywords, action among them"),
    ],
)
def test_a_server_that_cannot_be_is_refused_in_one_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TopicError), match=message) as refused:
        CoordinatorServer(**arguments).start()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda server: server.puppet("billing", "orders"), "topics are a list of names, not 'orders'"),
        (lambda server: server.puppet("billing", ["orders"], protocols=["sticky"]), "protocols are of range"),
        (lambda server: server.puppet("billing", ["orders"], protocols=[]), "protocols are of range"),
        (lambda server: server.puppet("billing", ["orders"], session_timeout="45"), "session_timeout must be seconds"),
        (lambda server: server.puppet("billing", ["orders"], heartbeat_interval=0), "longer than 0 seconds"),
        (lambda server: server.puppet("billing", ["orders"], sesion_timeout=3), "A puppet has no sesion_timeout"),
        (lambda server: server.puppet("billing", ["orders"], manner={"late": 1}), "A manner has no late"),
        (lambda server: server.puppet("", ["orders"]), "group is a name"),
        (lambda server: server.group("billing").stable(members="real"), "how many there are, or a list"),
        (lambda server: server.group("billing").stable(owners={"a": [0]}), "partitions by topic, or pairs"),
        (lambda server: server.group("billing").owns("a", {"orders": 3}), "partitions by topic, or pairs"),
        (lambda server: server.group("billing").next("rebalance"), "not a kind of event"),
        (lambda server: server.group("billing").next("exchange", apis="Heartbeat"), "have no apis; they have conn"),
        (lambda server: server.group("billing").next("exchange", api="Hearbeat"), "not an API"),
        (lambda server: server.group("billing").no_rebalance_for(), "Say for how many seconds"),
        (lambda server: server.fault("drop", state="Rebalancing"), "not a state of a group"),
        (lambda server: server.fault("drop", times=1.5), "times must be a whole number"),
        (lambda server: server.clock.advance(-5), "seconds from 0 on, not -5"),
        (lambda server: server.fail_store(-1), "whole number from 1 on"),
        (lambda server: server.load_takes("1"), "seconds from 0 on"),
        (lambda server: server.create_topic("more", 0), "whole number from 1 on"),
        (lambda server: server.rewind("billing", {"orders": 1}), "by topic and partition"),
        (lambda server: server.start(), "started already"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_sentence_and_harms_nobody(
    ask: Callable[[CoordinatorServer], object], message: str
) -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        with pytest.raises((ValueError, TypeError, RuntimeError), match=message) as refused:
            ask(server)
        assert "\n" not in str(refused.value)
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)


def test_before_it_is_started_it_says_so() -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        CoordinatorServer().group("billing")


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
