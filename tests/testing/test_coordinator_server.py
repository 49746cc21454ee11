"""The coordinator in a thread: start, waits, puppets, and refusals."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Any

import orjson
import pytest
import trio
from kafka import KafkaConsumer
from kafka.errors import IllegalStateError

from kafka_shim.broker.topics import TopicError
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.testing import CoordinatorServer, NotReached, open_coordinator, polling
from kafka_shim.trace.schema import problems
from tests.postgres import binaries, postgres_server


def consumer_of(server: CoordinatorServer, name: str = "real", **settings: object) -> KafkaConsumer:
    settings = {"group_id": "billing", "auto_offset_reset": "earliest", "client_id": name} | settings
    return KafkaConsumer("orders", bootstrap_servers=server.bootstrap, **settings)


def test_a_real_consumer_and_puppets_share_the_partitions() -> None:
    with CoordinatorServer(topics={"orders": 6}) as server:
        consumer = consumer_of(server)
        with polling(consumer):
            server.group("billing").stable(members=["real"], owners={"real": {"orders": range(6)}})
            puppets = [server.puppet("billing", ["orders"], client_id=f"puppet-{number}") for number in range(2)]
            group = server.group("billing").stable(members=3, timeout=20)
            owned = {puppet.member_id: puppet.owned for puppet in puppets}
        consumer.close()
        assert sorted(p for member in group.members for p in member.owned["orders"]) == list(range(6))
        assert owned == {member.member_id: member.owned for member in group.members if member.client_id != "real"}


def test_an_action_of_a_puppet_that_raises_ends_no_server() -> None:
    def mistaken(now: float) -> None:
        raise ZeroDivisionError

    with CoordinatorServer(topics={"orders": 6}) as server:
        server.call(lambda: server.kit.scheduler.at(0.0, mistaken))
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        # The clock's way to the actions, beside the puppets' own task.
        server.call(lambda: server.kit.scheduler.later(1.0, mistaken))
        server.clock.advance(2)
        assert server.call(lambda: server.kit.cluster.failures.by_border) == {"laboratory": 2}


def test_an_advance_ends_with_its_server() -> None:
    def mistaken() -> None:
        raise ZeroDivisionError

    server = CoordinatorServer(topics={"orders": 1})
    server.start()
    server.puppet("billing", ["orders"], heartbeat_interval=0.1)
    server.group("billing").stable(members=1)
    end = partial(server.kit.nursery.start_soon, trio.to_thread.run_sync, mistaken)
    server.call(lambda: server.kit.scheduler.later(60, lambda now: end()))
    with pytest.raises(RuntimeError, match="The server is no longer running"):
        server.clock.advance(365 * 86400)
    with pytest.raises(ZeroDivisionError):
        server.stop()


def test_an_advance_over_days_can_be_broken_off() -> None:
    main = threading.main_thread().ident
    assert main is not None
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.puppet("billing", ["orders"], heartbeat_interval=0.1)
        server.group("billing").stable(members=1)
        interrupt = partial(signal.pthread_kill, main, signal.SIGINT)
        server.call(lambda: server.kit.scheduler.later(60, lambda now: interrupt()))
        with pytest.raises(KeyboardInterrupt):
            server.clock.advance(365 * 86400)
        server.group("billing").stable(members=1)


def test_a_failed_test_shows_the_error_of_polling() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        consumer = consumer_of(server)
        consumer.close()
        with pytest.raises(NotReached) as failure, polling(consumer, raises=IllegalStateError) as polled:
            server.group("billing").stable(members=1, timeout=0.2)
        assert [type(error) for error in polled.errors] == [IllegalStateError]
        assert "Polling a consumer had ended with IllegalStateError" in failure.value.__notes__[0]


def test_a_failed_wait_has_the_story() -> None:
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


def test_earlier_events_count_without_from_now() -> None:
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


def test_no_rebalance_counts_heartbeats() -> None:
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
        with pytest.raises(NotReached, match="No rebalance"):
            group.no_rebalance_for(1)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for eight open files of each of two hundred servers."""
    before = getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (max(before[0], min(before[1], 4096)), before[1]))
    yield
    setrlimit(RLIMIT_NOFILE, before)


@pytest.mark.second_stage("two hundred servers")
@pytest.mark.usefixtures("many_files")
def test_two_hundred_run_at_once() -> None:
    failures: list[BaseException] = []
    all_run = threading.Barrier(200)

    def one(number: int) -> None:
        try:
            with CoordinatorServer(topics={"orders": number % 5 + 1}) as server:
                server.puppet("billing", ["orders"])
                group = server.group("billing").stable(members=1, timeout=60)
                all_run.wait(60)
                assert len(group.members[0].owned["orders"]) == number % 5 + 1
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
        (
            {"config": {"group.consumer.assignment.interval.ms": "20000"}},
            r"must be less than or equal to group\.consumer\.max\.assignment\.interval\.ms",
        ),
        ({"config": ["group.max.size=4"]}, "config must map Kafka setting names"),
        ({"topics": ["orders"]}, "topics must map names to numbers of partitions"),
        ({"topics": {"orders": 0}}, "partitions of topic 'orders' must be a whole number of at least 1"),
        ({"topics": {"a b": 1}}, "Topic name is invalid"),
        ({"brokers": 0}, "brokers must be a whole number of at least 1, not 0"),
        ({"release": "9.9"}, r"release must be one of 2\.8, 3\.9, 4\.2, 4\.3, 4\.4, not '9\.9'"),
        ({"store": "offsets.db"}, "'offsets.db' names no store: use memory:, sqlite:PATH"),
        ({"faults": {"action": "drop"}}, "faults must be a list"),
        ({"faults": [{"api": "JoinGroup"}]}, "A fault must have its keywords, action among them"),
    ],
)
def test_an_impossible_server_is_refused_in_one_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TopicError), match=message) as refused:
        CoordinatorServer(**arguments).start()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda server: server.puppet("billing", "orders"), "topics must be a list of names, not 'orders'"),
        (lambda server: server.puppet("billing", ["orders"], protocols=["sticky"]), "protocols must be among range"),
        (lambda server: server.puppet("billing", ["orders"], protocols=[]), "protocols must be among range"),
        (lambda server: server.puppet("billing", ["orders"], session_timeout="45"), "session_timeout must be seconds"),
        (lambda server: server.puppet("billing", ["orders"], heartbeat_interval=0), "longer than 0 seconds"),
        (lambda server: server.puppet("billing", ["orders"], sesion_timeout=3), "A puppet has no sesion_timeout"),
        (lambda server: server.puppet("billing", ["orders"], manner={"late": 1}), "A manner has no late"),
        (lambda server: server.puppet("", ["orders"]), "group must be a name"),
        (lambda server: server.group("billing").stable(members="real"), "a number or a list of names"),
        (lambda server: server.group("billing").stable(owners={"a": [0]}), "by topic, or pairs"),
        (lambda server: server.group("billing").owns("a", {"orders": 3}), "by topic, or pairs"),
        (lambda server: server.group("billing").next("rebalance"), "not a kind of event"),
        (lambda server: server.group("billing").next("exchange", apis="Heartbeat"), "have no apis; they have conn"),
        (lambda server: server.group("billing").next("exchange", api="Hearbeat"), "not an API"),
        (lambda server: server.group("billing").no_rebalance_for(), "needs seconds or heartbeats"),
        (lambda server: server.fault("drop", state="Rebalancing"), "not a state of a group"),
        (lambda server: server.fault("drop", times=1.5), "times must be a whole number"),
        (lambda server: server.clock.advance(-5), "seconds of at least 0, not -5"),
        (lambda server: server.fail_store(-1), "whole number of at least 1"),
        (lambda server: server.load_takes("1"), "seconds of at least 0"),
        (lambda server: server.create_topic("more", 0), "whole number of at least 1"),
        (lambda server: server.rewind("billing", {"orders": 1}), "by topic and partition"),
        (lambda server: server.start(), "started already"),
    ],
)
def test_impossible_arguments_are_one_sentence(ask: Callable[[CoordinatorServer], object], message: str) -> None:
    with CoordinatorServer(topics={"orders": 4}) as server:
        with pytest.raises((ValueError, TypeError, RuntimeError), match=message) as refused:
            ask(server)
        assert "\n" not in str(refused.value)
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)


def test_a_call_before_the_start_is_refused() -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        CoordinatorServer().group("billing")


def test_a_call_after_the_end_is_refused() -> None:
    with CoordinatorServer() as server:
        address = server.bootstrap.split(":")
    with pytest.raises(RuntimeError, match="no longer running"):
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


def test_a_failed_wait_says_that_the_clock_is_frozen() -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.clock.freeze()
        with pytest.raises(NotReached, match="The clock is frozen: no timer ends"):
            server.group("billing").stable(members=2, timeout=0.01)


@pytest.fixture(params=["sqlite", "postgresql"])
def lasting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store that outlives a server."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path}/offsets.db"
    elif binaries() is None:
        pytest.skip("PostgreSQL's initdb is not installed")
    else:
        with postgres_server() as url:
            yield url


def test_a_store_named_by_its_url_outlives_the_server(lasting: str) -> None:
    url = lasting
    with CoordinatorServer(topics={"orders": 1}, store=url) as server:
        puppet = server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        puppet.commit({("orders", 0): 7})
        server.group("billing").committed("orders", 0)
    with CoordinatorServer(store=url) as server:
        assert server.group("billing").committed("orders", 0) == 7


@pytest.mark.skipif(binaries() is None, reason="PostgreSQL's initdb is not installed")
def test_a_store_that_processes_share_cannot_be_made_to_fail() -> None:
    refused = pytest.raises(ValueError, match="Only a store of this process alone can be made to fail")
    with postgres_server() as url, CoordinatorServer(topics={"orders": 1}, store=url) as server, refused:
        server.fail_store()


def test_other_commands_read_the_trace(tmp_path: Path) -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        server.write_trace(tmp_path / "trace.jsonl")
    events = [orjson.loads(line) for line in (tmp_path / "trace.jsonl").read_bytes().splitlines()]
    assert [problem for event in events for problem in problems(event)] == []
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert "assignment" in {event["event"] for event in events}


async def test_open_coordinator_runs_in_the_nursery_of_the_test() -> None:
    async with open_coordinator(topics={"orders": 3}) as kit:
        puppet = kit.puppet("billing", ["orders"])
        with trio.fail_after(10):
            group = await kit.group("billing").stable(members=1)
        assert group.members[0].member_id == puppet.member_id
        assert puppet.owned == {"orders": [0, 1, 2]}
