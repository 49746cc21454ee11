"""Mistakes of newcomers, and the sentence that the kit says for each. None of them passes, and none waits in vain."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_shim.testing import AsyncCoordinator, CoordinatorServer, NotReached, open_coordinator, polling
from kafka_shim.testing.calls import SENTENCES
from kafka_shim.testing.stateful import journals

Mistake = Callable[[CoordinatorServer], Any]


def started(**arguments: Any) -> None:
    with CoordinatorServer(**arguments):
        pass


async def wait_on_a_loop(server: CoordinatorServer) -> None:
    server.group("billing").stable(members=1)


async def use_the_trio_kit_on_asyncio() -> None:
    async with open_coordinator():
        pass


async def misspell_an_argument() -> None:
    async with AsyncCoordinator() as server:
        await server.group("billing").stable(member=1)  # type: ignore[call-arg]


def poll_a_number() -> None:
    with polling(42):
        pass


def settings_for(user: str, mechanism: str = "PLAIN") -> None:
    server = CoordinatorServer(security="SASL_PLAINTEXT", users={"alice": "secret"})
    server.client_settings("kafka-python", user, mechanism)


def refused(server: CoordinatorServer) -> None:
    server.puppet("milliseconds", ["orders"], client_id="hasty", session_timeout=45_000)
    with pytest.raises(NotReached) as error:
        server.group("milliseconds").stable(members=1, timeout=0.5)
    # The puppet asks again and again.
    assert str(error.value).count("is answered INVALID_SESSION_TIMEOUT") == 1
    raise error.value


WHOLE = "The partitions of topic 'orders' must be a whole number of at least 1, not"

OF_THE_CONFIGURATION: list[tuple[Callable[[], Any], str]] = [
    (lambda: started(topics=["orders"]), "topics must map names to numbers of partitions, such as {'orders': 4}, not"),
    (lambda: started(topics={"orders": "4"}), f"{WHOLE} '4'."),
    (lambda: started(topics={"orders": 0}), f"{WHOLE} 0."),
    (lambda: started(topics={"my orders": 1}), "Topic name is invalid: 'my orders' contains one or more characters"),
    (
        lambda: started(config={"group.max.sise": 3}),
        "is not a setting of this coordinator; did you mean",
    ),
    (lambda: started(config={"group.max.size": "many"}), "group.max.size must be an integer, not 'many'."),
    (lambda: started(brokers=0), "brokers must be a whole number of at least 1, not 0."),
    (lambda: started(release="5.0"), "release must be one of 2.8, 3.9, 4.2, 4.3, 4.4, not '5.0'."),
    (
        lambda: started(experimental=["design"]),
        "There is no experiment 'design'; there are: client-ass",
    ),
    (lambda: started(security="SSL_SASL"), "security must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not"),
    (lambda: started(config={"super.users": "User:a"}), "super.users needs security="),
    (lambda: started(users={"alice": "secret"}), "users and accept need security="),
    (lambda: settings_for("alcie"), "user must be one of alice, not 'alcie'."),
    (lambda: settings_for("alice", "SCRAM"), "mechanism must be one of PLAIN, SCRAM-SHA-256, SCRAM"),
    (lambda: started(store="offsets.db"), "'offsets.db' names no store: use memory:, sqlite:PATH or"),
    (lambda: started(faults=[{"action": "eror", "api": "Fetch"}]), "'eror' is not an action; did you mean 'error'?"),
    (lambda: CoordinatorServer().group("billing"), "The server has not been started."),
    (poll_a_number, "polling() takes consumers of kafka-python, confluent-kafka or aiokafka, not 42."),
    (lambda: journals(["kil"]), "There is no step 'kil'; did you mean 'kill'?"),
    (lambda: asyncio.run(use_the_trio_kit_on_asyncio()), "with another event loop, use AsyncCoordinator."),
]

OF_A_TEST: list[tuple[Mistake, str]] = [
    (lambda s: s.fault("drop", "OffsetComit"), "'OffsetComit' is not an API; did you mean 'OffsetCommit'?"),
    (lambda s: s.fault("drop", "CommitOffset"), "'CommitOffset' is not an API; did you mean 'OffsetCommit'?"),
    (lambda s: s.fault("error", "Fetch", error="NOT_COORDINATER"), "did you mean 'NOT_COORDINATOR'?"),
    (lambda s: s.fault("error", "Fetch"), "The fault 'error' needs an error, such as error=\"NOT_COORDINATOR\""),
    (lambda s: s.fault("erorr", "Fetch"), "'erorr' is not an action; did you mean 'error'?"),
    (lambda s: s.fault("drop", "Fetch", topic="orders"), "A fault has no topic; there are action, api,"),
    (lambda s: s.fault("delay", "Fetch"), "A delay needs seconds, the time to wait, such as seconds=1.5."),
    (lambda s: s.fault("delay", "Fetch", second=1), "A fault has no second; did you mean 'seconds'?"),
    (lambda s: s.barrier("leader-sync"), "points are join-arrived, join-complete, sync-arrived,"),
    (lambda s: s.barrier("leader-sync-arrived", grup="billing"), "A barrier has no grup; did you mean 'group'?"),
    (lambda s: s.puppet("billing", ["ordes"]), "There is no topic 'ordes'; topics are: orders."),
    (lambda s: s.puppet("billing", "orders"), "topics must be a list of names, not 'orders'."),
    (lambda s: s.puppet("billing", ["orders"], session_timout=6), "did you mean 'session_timeout'?"),
    (lambda s: s.group("billing").next("rebalanced"), "'rebalanced' is not a kind of event; there are trace,"),
    (lambda s: s.group("g").next("exchange", timeout=0.01), "in vain for the next exchange event."),
    (lambda s: s.group("billing").next("member", changes="left"), "they have group, member_id,"),
    (
        lambda s: s.group("biling").stable(members=1, timeout=0.01),
        "There is no group 'biling'; did you mean 'billing'?",
    ),
    (lambda s: s.group("g").stable(member=1), "stable() has no argument 'member'; did you mean 'members'?"),
    (lambda s: s.group("g").stable(1), "stable() takes no values without a name, not 1: write members=1."),
    (lambda s: s.group("g").stable(members=-1), "members must be a number or a list of names, not -1."),
    (lambda s: s.group("g").stable(members=1.5), "members must be a number or a list of names, not 1.5."),
    (lambda s: s.group("g").stable(members=[1]), "or a list of names, not [1]; for their number, write members=1."),
    (lambda s: s.group("g").stable(generation="2"), "generation must be a whole number of at least 0, not '2'."),
    (lambda s: s.group("g").empty(timeout="1"), "timeout must be seconds of at least 0, not '1'."),
    (lambda s: s.group("g").owns("real"), "owns() needs partitions: write owns(member, partitions)."),
    (
        lambda s: s.group("g").owns(1, {"orders": [0]}),
        "owns() takes the name of a member, such as its client",
    ),
    (
        lambda s: s.group("billing").owns("puppet", {"ordes": [0]}, timeout=0.01),
        "There is no topic 'ordes'; did you mean 'orders'?",
    ),
    (lambda s: s.group("g").committed("orders", 9, timeout=0.01), "Topic 'orders' has 2 partitions, from 0 on."),
    (lambda s: s.group("g").committed("orders"), "committed() needs partition: write committed(topic, partition)."),
    (lambda s: s.group("g").committed("orders", 0, at_lest=1), "has no argument 'at_lest'; did you mean 'at_least'?"),
    (lambda s: s.create_topic("new", partition=3), "create_topic() has no argument 'partition'; did you mean"),
    (lambda s: s.clear_faults(1), "clear_faults() takes no values without a name, not 1."),
    (lambda s: s.move("billing", group="g"), "move() has two values for 'group'."),
    (lambda s: asyncio.run(misspell_an_argument()), "stable() has no argument 'member'; did you mean 'members'?"),
    (
        lambda s: s.play("zombie", "billing", "real"),
        "A scenario is a function, such as zombie of kafka_shim.testing.scenarios, not 'zombie'.",
    ),
    (lambda s: s.lag("biling"), "There is no group 'biling'; did you mean 'billing'?"),
    (lambda s: s.produce("ordes", "x"), "There is no topic 'ordes'; topics are: orders."),
    (lambda s: s.produce("orders", "x", partition=9), "Topic 'orders' has no partition 9; it has 2."),
    (lambda s: s.produce("orders", 42), "A key, a value or a header is text, bytes or None, not 42."),
    (lambda s: s.records("orders", 9), "Topic 'orders' has no partition 9; it has 2."),
    (lambda s: s.set_config({"retention": 1}, topic="orders"), "Unknown topic config name: retention (INVALID_CONFIG)"),
    (lambda s: s.set_config({"session.timeot.ms": 1}, group="g"), "did you mean 'consumer.session.timeout.ms'?"),
    (lambda s: s.set_config({"share.sesion.timeout.ms": 1}, group="g"), "did you mean 'share.session.timeout.ms'?"),
    (lambda s: s.set_config({"group.max.sise": 1}), "not a setting of a broker; did you mean 'group.max.size'?"),
    (lambda s: s.set_config({}, topic="orders", group="g"), "set_config takes one of topic, group and broker,"),
    (lambda s: s.kill("real"), "No client 'real' is connected;"),
    (lambda s: s.expire("billing", "real"), "No session of 'real' runs in the group 'billing'."),
    (lambda s: s.clock.advance(-1), "The time to put the clock forward must be seconds of at least 0, not -1."),
    (lambda s: s.move("billing", 7), "There is no broker 7."),
    (lambda s: s.seed_offsets("billing", {"orders": 1}), "offsets must be by topic and partition, such as"),
    (lambda s: s.seed_offsets("billing", {("orders", 0): 1}), "it has members, and `rewind` sets those of"),
    (lambda s: s.puppet("g", ["orders"]).commit({"orders": 1}), "offsets must be by topic and partition, such as"),
    (lambda s: refused(s), "JoinGroup of hasty is answered INVALID_SESSION_TIMEOUT (26)"),
    (lambda s: s.rewind("biling", {("orders", 0): 1}), "There is no such group."),
    (lambda s: s.grow_topic("orders", 1), "Topic 'orders' has 2 partitions already; it can only grow."),
    (lambda s: asyncio.run(wait_on_a_loop(s)), "A wait would block the event loop that runs here"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 2}) as server:
        server.puppet("billing", ["orders"])
        server.group("billing").stable(members=1)
        yield server


@pytest.mark.parametrize(("mistake", "sentence"), OF_THE_CONFIGURATION)
def test_a_mistake_in_the_configuration_is_explained(mistake: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(SENTENCES, check=lambda error: sentence in str(error)):
        mistake()


@pytest.mark.parametrize(("mistake", "sentence"), OF_A_TEST)
def test_a_mistake_in_a_test_is_explained(server: CoordinatorServer, mistake: Mistake, sentence: str) -> None:
    with pytest.raises(SENTENCES, check=lambda error: sentence in str(error)):
        mistake(server)


WAITS_IN_VAIN = """
from kafka_shim.testing import CoordinatorServer

with CoordinatorServer(topics={"orders": 1}) as server:
    server.group("billing").stable(members=1, timeout=0.1)
"""


@pytest.mark.parametrize(("options", "has_all"), [((), False), (("-X", "dev"), True)], ids=["usual", "dev"])
def test_a_failed_wait_without_pytest_shows_the_line_of_the_test_and_its_sentence(
    options: tuple[str, ...], has_all: bool
) -> None:
    ran = subprocess.run([sys.executable, *options, "-c", WAITS_IN_VAIN], capture_output=True, text=True)
    assert ran.returncode == 1
    assert "NotReached: " in ran.stderr
    frames = [line for line in ran.stderr.splitlines() if line.startswith("  File ")]
    assert any("trio" in line for line in frames) == has_all
    assert (len(frames) <= 2) == (not has_all)
