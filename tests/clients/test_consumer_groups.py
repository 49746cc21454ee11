"""Clients of the consumer protocol (KIP-848) at a server of their own, whose trace is checked when they are done.

What a single client does with lost, late and refused answers is in the client cases of the conformance suite; here are
the lives of groups: members, topics, offsets, restarts of the coordinator, and the way from one protocol to the other.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.clients.crew import CONSUMER_PROTOCOL
from kafka_shim.conformance.invariants import check_trace
from kafka_shim.conformance.targets.base import free_port
from kafka_shim.testing import CoordinatorServer

from .harness import CLIENTS, Client, Crew, Member, Partition, all_of

SESSION_MS = 45_000
"""Nobody is expelled, however busy the machine is."""
SHORT_SESSION_MS = 6_000
"""For tests in which somebody is."""
SETTINGS = {
    # A client that still asks for a topic that was deleted does not make it anew.
    "auto.create.topics.enable": "false",
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
}
EACH_CLIENT = [pytest.param(client, id=name) for name, client in CONSUMER_PROTOCOL.items()]
# franz-go says nothing when a static member closes: its place is free when its session is over.
SAY_THAT_THEY_COME_BACK = [each for each in EACH_CLIENT if "franz" not in str(each.id)]
# A member looks often for changes of its topics.
ALERT = {"metadata_ms": 400}


class Server:
    """A server on a store of its own, which may be killed and started again; `trace` is that of all its lives."""

    def __init__(self, folder: Path, session_ms: int) -> None:
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self._settings = SETTINGS | {"group.consumer.session.timeout.ms": session_ms}
        self._folder = folder
        self._lives = 0
        self._process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def traces(self) -> list[Path]:
        return [self._folder / f"{life}.jsonl" for life in range(1, self._lives + 1)]

    def start(self) -> None:
        self._lives += 1
        command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", self.bootstrap]
        command += [
            "--topic",
            "kept:4",
            "--store",
            f"sqlite:{self._folder / 'store.db'}",
            "--trace",
            str(self.traces[-1]),
        ]
        for name, value in self._settings.items():
            command += ["--config", f"{name}={value}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith("ready kafka=")

    def events(self) -> list[dict[str, Any]]:
        """The trace so far: every line that is whole."""
        lines = [line for trace in self.traces for line in trace.read_text().splitlines(keepends=True)]
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()


@pytest.fixture
def session_ms() -> int:
    return SESSION_MS


SHORT_SESSION = pytest.mark.parametrize("session_ms", [SHORT_SESSION_MS])


@pytest.fixture
def server(tmp_path: Path, session_ms: int) -> Iterator[Server]:
    """No partition is ever handed over before its owner has given it up: the trace says so when the test is done."""
    made = Server(tmp_path, session_ms)
    yield made
    made.end(signal.SIGTERM)
    for trace in made.traces:
        assert check_trace(trace) == []


@contextlib.contextmanager
def crew_of(server: Server, group: str = "billing") -> Iterator[Crew]:
    crew = Crew(server.bootstrap, group)
    try:
        yield crew
    finally:
        crew.end()


def share(crew: Crew, members: Iterable[Member], partitions: Iterable[Partition], *sizes: int) -> None:
    """Wait until these members own all of these partitions, each exactly once, in shares of these sizes."""
    members, partitions = list(members), sorted(partitions)
    crew.wait(
        lambda: (
            sorted(owned for member in members for owned in member.owns) == partitions
            and sorted(len(member.owns) for member in members) == sorted(sizes)
        ),
        f"{[member.name for member in members]} share {len(partitions)} partitions as {sizes}",
    )


def at_rest(crew: Crew, admin: Member, members: Iterable[Member], *sizes: int) -> None:
    """Wait until the group is stable and its members know what they own.

    A classic member in a consumer group may own its partitions still and be about to give them all up: it hears of
    the next epoch by a heartbeat. What it consumes between and cannot commit any more is consumed twice.
    """
    for _ in range(5_000):
        if admin.do("describe_group", group=crew.group)["state"] == "Stable":
            break
    else:
        raise AssertionError(f"{crew.group} does not come to rest")
    share(crew, members, all_of({"orders": sum(sizes)}), *sizes)


def numbered(first: int, count: int, partitions: int) -> list[list[Any]]:
    return [[number % partitions, None, f"{number}", []] for number in range(first, first + count)]


def values(members: Iterable[Member]) -> list[int]:
    """The numbers of all records that members have consumed."""
    return sorted(int(record[3]) for member in members for record in member.records("orders"))


def commit(member: Member, everybody: Iterable[Member]) -> None:
    """Commit where reading goes on in what the member owns, after all that anybody has consumed of it."""
    consumed: dict[Partition, int] = {}
    for each in everybody:
        for partition, offset, *_ in each.records("orders"):
            consumed["orders", partition] = max(offset + 1, consumed.get(("orders", partition), 0))
    member.do("commit", offsets=[[*owned, consumed[owned]] for owned in sorted(member.owns) if owned in consumed])


@SHORT_SESSION
@pytest.mark.parametrize("library", EACH_CLIENT)
def test_the_life_of_a_group(library: Client, server: Server) -> None:
    with crew_of(server) as crew:
        usual = {"topics": ["orders"], "protocol": "consumer", **ALERT}
        other = crew.start(CLIENTS["confluent-kafka-2.16"])
        other.do("create_topic", topic="orders", partitions=6)
        orders = all_of({"orders": 6})

        # Members join, and what they commit is where others go on.
        first = crew.start(library, **usual)
        share(crew, [first], orders, 6)
        second = crew.start(library, **usual)
        share(crew, [first, second], orders, 3, 3)
        third = crew.start(library, **usual)
        share(crew, [first, second, third], orders, 2, 2, 2)
        assert len({member.member_id for member in (first, second, third)}) == 3
        other.do("produce", topic="orders", records=numbered(0, 12, 6))
        crew.consumed([first, second, third], "orders", 12)
        for each in (first, second, third):
            commit(each, [first, second, third])
        third.close()
        share(crew, [first, second], orders, 3, 3)
        other.do("produce", topic="orders", records=numbered(12, 12, 6))
        crew.consumed([first, second, third], "orders", 24)
        assert values([first, second, third]) == list(range(24))
        commit(first, [first, second, third])
        commit(second, [first, second, third])

        # One is killed: its partitions are somebody's when its session is over.
        second.kill()
        share(crew, [first], orders, 6)

        # Topics grow, and go.
        other.do("grow_topic", topic="orders", partitions=8)
        share(crew, [first], all_of({"orders": 8}), 8)
        # A Java consumer that is still looking up where to begin in a partition does not give it up when it is deleted.
        late = crew.start(CLIENTS["confluent-kafka-2.16"])
        late.do("produce", topic="orders", records=numbered(24, 8, 8))
        crew.wait(lambda: set(range(24, 32)) <= set(values([first])), "every partition is consumed")
        other.do("delete_topic", topic="orders")
        share(crew, [first], [], 0)


@pytest.mark.parametrize("library", SAY_THAT_THEY_COME_BACK)
def test_a_static_member_that_is_restarted_has_what_it_had(library: Client, tmp_path: Path) -> None:
    config = {name: str(value) for name, value in SETTINGS.items()}
    with CoordinatorServer(topics={"kept": 4}, config=config) as server:
        crew = Crew(server.bootstrap, "billing")
        try:
            usual = {"topics": ["kept"], "protocol": "consumer"}
            everything = all_of({"kept": 4})
            first = crew.start(library, **usual)
            share(crew, [first], everything, 4)
            static = crew.start(library, instance="one", **usual)
            share(crew, [first, static], everything, 2, 2)
            owned = static.owns
            server.group("billing").stable(members=2)
            reported = len(first.events)
            static.close()
            static = crew.start(library, instance="one", **usual)
            share(crew, [first, static], everything, 2, 2)
            assert static.owns == owned
            moved = [event for event in first.events[reported:] if event["event"] in ("assigned", "revoked", "lost")]
            assert not [event for event in moved if event["partitions"]], "nobody hears of it"
            # Another with its instance id is refused, and the older stays.
            twin = crew.start(library, instance="one", **usual)
            crew.wait(lambda: twin.named("error") or twin.named("owns") or twin.process.poll() is not None, "it ends")
            assert not twin.owns
            share(crew, [first, static], everything, 2, 2)
        finally:
            crew.end()
        server.write_trace(tmp_path / "trace.jsonl")
    assert check_trace(tmp_path / "trace.jsonl") == []


@SHORT_SESSION
def test_a_static_member_that_says_nothing_when_it_closes_is_back_after_its_session(server: Server) -> None:
    franz = next(client for name, client in CONSUMER_PROTOCOL.items() if "franz" in name)
    with crew_of(server) as crew:
        usual = {"topics": ["kept"], "protocol": "consumer"}
        everything = all_of({"kept": 4})
        static = crew.start(franz, instance="one", **usual)
        share(crew, [static], everything, 4)
        # Another with its instance id gets nothing, and the older stays.
        twin = crew.start(franz, instance="one", **usual)
        crew.wait(
            lambda: any(
                event.get("client_id") == twin.name and event.get("error") == ErrorCode.UNRELEASED_INSTANCE_ID
                for event in server.events()
            ),
            "the other is refused",
        )
        assert not twin.owns
        assert static.owns == set(everything)
        twin.kill()
        static.close()
        static = crew.start(franz, instance="one", **usual)
        share(crew, [static], everything, 4)


@SHORT_SESSION
@pytest.mark.parametrize("library", EACH_CLIENT)
def test_a_member_stopped_past_its_session_is_expelled_and_joins_again(library: Client, server: Server) -> None:
    with crew_of(server) as crew:
        usual = {"topics": ["kept"], "protocol": "consumer"}
        stopped = crew.start(library, **usual)
        share(crew, [stopped], all_of({"kept": 4}), 4)
        other = crew.start(library, **usual)
        share(crew, [stopped, other], all_of({"kept": 4}), 2, 2)
        reported = len(stopped.events)
        stopped.stop()
        try:
            share(crew, [other], all_of({"kept": 4}), 4)
        finally:
            stopped.wake()
        share(crew, [stopped, other], all_of({"kept": 4}), 2, 2)
        # Its listener hears that its partitions are lost before any is assigned again.
        rebalances = [each["event"] for each in stopped.events[reported:] if each["event"] in ("lost", "assigned")]
        assert rebalances[:2] == ["lost", "assigned"]
    mine = [event for event in server.events() if event.get("client_id") == stopped.name]
    changes = [event.get("change") if event["event"] == "member" else None for event in mine]
    beats = [each for each in mine[changes.index("expired") :] if each.get("api") == "ConsumerGroupHeartbeat"]
    # What it says first is of the epoch that it had; it is refused, and comes back by epoch 0.
    assert beats[0]["request"]["member_epoch"] > 0
    assert beats[0]["error"] in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
    assert (beats[1]["request"]["member_epoch"], beats[1]["error"]) == (0, 0)


@pytest.mark.parametrize("library", EACH_CLIENT)
def test_a_pattern_finds_topics_that_appear(library: Client, server: Server) -> None:
    with crew_of(server) as crew:
        other = crew.start(CLIENTS["confluent-kafka-2.16"])
        other.do("create_topic", topic="orders-1", partitions=2)
        members = [crew.start(library, pattern="^orders-.*", protocol="consumer", **ALERT) for _ in range(2)]
        share(crew, members, all_of({"orders-1": 2}), 1, 1)
        other.do("create_topic", topic="orders-2", partitions=2)
        other.do("create_topic", topic="returns", partitions=2)
        share(crew, members, all_of({"orders-1": 2, "orders-2": 2}), 2, 2)


@pytest.mark.parametrize("library", EACH_CLIENT)
def test_a_coordinator_killed_in_the_midst_of_a_reconciliation_goes_on_with_it(library: Client, server: Server) -> None:
    with crew_of(server) as crew:
        usual = {"topics": ["kept"], "protocol": "consumer"}
        first = crew.start(library, revoke_s=1.0, **usual)
        share(crew, [first], all_of({"kept": 4}), 4)
        second = crew.start(library, **usual)
        # It is told to give partitions up, and takes its time.
        crew.wait(lambda: first.named("revoked"), "the first is told to give partitions up")
        server.end(signal.SIGKILL)
        server.start()
        share(crew, [first, second], all_of({"kept": 4}), 2, 2)
        assert not first.named("lost")


@pytest.mark.parametrize("library", EACH_CLIENT)
def test_a_coordinator_that_moves_in_the_midst_of_a_reconciliation_goes_on_with_it(
    library: Client, tmp_path: Path
) -> None:
    config = {name: str(value) for name, value in SETTINGS.items()}
    with CoordinatorServer(topics={"kept": 4}, brokers=2, config=config) as server:
        crew = Crew(server.bootstrap.split(",")[0], "billing")
        try:
            usual = {"topics": ["kept"], "protocol": "consumer"}
            first = crew.start(library, revoke_s=1.0, **usual)
            share(crew, [first], all_of({"kept": 4}), 4)
            second = crew.start(library, **usual)
            crew.wait(lambda: first.named("revoked"), "the first is told to give partitions up")
            server.move("billing", broker=3 - server.coordinator_of("billing"))
            share(crew, [first, second], all_of({"kept": 4}), 2, 2)
            assert not first.named("lost")
        finally:
            crew.end()
        server.write_trace(tmp_path / "trace.jsonl")
    assert check_trace(tmp_path / "trace.jsonl") == []


@pytest.mark.parametrize("library", EACH_CLIENT)
def test_three_members_move_to_the_new_protocol_and_back_one_by_one(library: Client, server: Server) -> None:
    with crew_of(server) as crew:
        other = crew.start(CLIENTS["confluent-kafka-2.16"])
        other.do("create_topic", topic="orders", partitions=6)
        orders = all_of({"orders": 6})
        members = [crew.start(library, topics=["orders"], assignors=["range"], protocol="classic") for _ in range(3)]
        share(crew, members, orders, 2, 2, 2)
        at_rest(crew, other, members, 2, 2, 2)
        everybody, sent = list(members), 0
        for protocol in ("consumer", "classic"):
            for number in range(3):
                other.do("produce", topic="orders", records=numbered(sent, 12, 6))
                sent += 12
                crew.wait(lambda sent=sent: len(values(everybody)) >= sent, f"{sent} records are consumed")
                for member in members:
                    commit(member, everybody)
                members[number].close()
                chosen = {"assignors": ["range"]} if protocol == "classic" else {}
                members[number] = crew.start(library, topics=["orders"], protocol=protocol, **chosen)
                everybody.append(members[number])
                share(crew, members, orders, 2, 2, 2)
                at_rest(crew, other, members, 2, 2, 2)
        # Whoever came later went on where the one before had committed.
        assert values(everybody) == list(range(sent))


@pytest.mark.parametrize("library", EACH_CLIENT)
def test_kafka_python_is_in_one_group_with_members_of_the_new_protocol(library: Client, server: Server) -> None:
    with crew_of(server) as crew:
        other = crew.start(CLIENTS["confluent-kafka-2.16"])
        other.do("create_topic", topic="orders", partitions=6)
        classic = crew.start(CLIENTS["kafka-python-3.0"], topics=["orders"], assignors=["range"])
        share(crew, [classic], all_of({"orders": 6}), 6)
        new = crew.start(library, topics=["orders"], protocol="consumer")
        share(crew, [classic, new], all_of({"orders": 6}), 3, 3)
        other.do("produce", topic="orders", records=numbered(0, 12, 6))
        crew.consumed([classic, new], "orders", 12)
        assert values([classic, new]) == list(range(12))
        new.close()
        share(crew, [classic], all_of({"orders": 6}), 6)
