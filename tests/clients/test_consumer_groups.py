"""Clients of the consumer protocol (KIP-848) at a separate server; each test ends with a check of its trace.

The client cases of the conformance suite test lost, late and refused answers; here are whole groups: members, topics,
offsets, restarts of the coordinator, and the change from one protocol to the other.
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
from kafka_shim.conformance.clients.client_processes import CONSUMER_PROTOCOL
from kafka_shim.conformance.invariants import check_trace
from kafka_shim.conformance.targets.base import free_port
from kafka_shim.testing import CoordinatorServer

from .harness import CLIENTS, Client, ClientProcesses, Member, Partition, all_of, stage

pytestmark = pytest.mark.second_stage("real clients")

SESSION_MS = 45_000
"""Long enough to expel no member on the busiest machine."""
SHORT_SESSION_MS = 6_000
"""For tests that expel a member."""
SETTINGS = {
    # A client that still asks for a deleted topic must not create it again.
    "auto.create.topics.enable": "false",
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
}
EACH_CLIENT = [pytest.param(client, id=name, marks=stage(client)) for name, client in CONSUMER_PROTOCOL.items()]
# franz-go sends no request when a static member closes: its place is free at the end of its session.
SAY_THAT_THEY_COME_BACK = [each for each in EACH_CLIENT if "franz" not in str(each.id)]
MOVING = [
    pytest.param(client, id=name, marks=pytest.mark.everything("nine JVMs") if "java" in name else stage(client))
    for name, client in CONSUMER_PROTOCOL.items()
]
# A member looks often for changes of its topics.
ALERT = {"metadata_ms": 400}


class Server:
    """A server that tests kill and start again on the same store, with a trace for each process."""

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
        """Return the complete lines of the trace so far."""
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
    """Yield a server, and check in its trace at the end that no partition had two owners."""
    server = Server(tmp_path, session_ms)
    yield server
    server.end(signal.SIGTERM)
    for trace in server.traces:
        assert check_trace(trace) == []


@contextlib.contextmanager
def processes_of(server: Server, group: str = "billing") -> Iterator[ClientProcesses]:
    processes = ClientProcesses(server.bootstrap, group)
    try:
        yield processes
    finally:
        processes.end()


def share(processes: ClientProcesses, members: Iterable[Member], partitions: Iterable[Partition], *sizes: int) -> None:
    """Wait until these members own all of these partitions, each exactly once, in shares of these sizes."""
    members, partitions = list(members), sorted(partitions)
    processes.wait(
        lambda: (
            sorted(owned for member in members for owned in member.owns) == partitions
            and sorted(len(member.owns) for member in members) == sorted(sizes)
        ),
        f"{[member.name for member in members]} share {len(partitions)} partitions as {sizes}",
    )


def at_rest(processes: ClientProcesses, admin: Member, members: Iterable[Member], *sizes: int) -> None:
    """Wait until the group is stable and its members know their partitions.

    A classic member in a consumer group may own its partitions still and be about to give them all up: it learns
    the next epoch from a heartbeat. Records between that it cannot commit any more are consumed twice.
    """
    for _ in range(5_000):
        if admin.do("describe_group", group=processes.group)["state"] == "Stable":
            break
    else:
        raise AssertionError(f"{processes.group} does not come to rest")
    share(processes, members, all_of({"orders": sum(sizes)}), *sizes)


def numbered(first: int, count: int, partitions: int) -> list[list[Any]]:
    return [[number % partitions, None, f"{number}", []] for number in range(first, first + count)]


def values(members: Iterable[Member]) -> list[int]:
    """The numbers of all records that members have consumed."""
    return sorted(int(record[3]) for member in members for record in member.records("orders"))


def commit(member: Member, everybody: Iterable[Member]) -> None:
    """Commit the partitions of the member behind the last record that any member consumed."""
    consumed: dict[Partition, int] = {}
    for each in everybody:
        for partition, offset, *_ in each.records("orders"):
            consumed["orders", partition] = max(offset + 1, consumed.get(("orders", partition), 0))
    member.do("commit", offsets=[[*owned, consumed[owned]] for owned in sorted(member.owns) if owned in consumed])


@SHORT_SESSION
@pytest.mark.parametrize("library", EACH_CLIENT)
def test_a_group_survives_joins_deaths_and_changes_of_topics(library: Client, server: Server) -> None:
    with processes_of(server) as processes:
        usual = {"topics": ["orders"], "protocol": "consumer", **ALERT}
        other = processes.start(CLIENTS["confluent-kafka-2.16"])
        other.do("create_topic", topic="orders", partitions=6)
        orders = all_of({"orders": 6})

        # Members join, and other members continue at their commits.
        first = processes.start(library, **usual)
        share(processes, [first], orders, 6)
        second = processes.start(library, **usual)
        share(processes, [first, second], orders, 3, 3)
        third = processes.start(library, **usual)
        share(processes, [first, second, third], orders, 2, 2, 2)
        assert len({member.member_id for member in (first, second, third)}) == 3
        other.do("produce", topic="orders", records=numbered(0, 12, 6))
        processes.consumed([first, second, third], "orders", 12)
        for each in (first, second, third):
            commit(each, [first, second, third])
        third.close()
        share(processes, [first, second], orders, 3, 3)
        other.do("produce", topic="orders", records=numbered(12, 12, 6))
        processes.consumed([first, second, third], "orders", 24)
        assert values([first, second, third]) == list(range(24))
        commit(first, [first, second, third])
        commit(second, [first, second, third])

        # One is killed: at the end of its session the others take its partitions.
        second.kill()
        share(processes, [first], orders, 6)

        # Topics grow, and go.
        other.do("grow_topic", topic="orders", partitions=8)
        share(processes, [first], all_of({"orders": 8}), 8)
        # A Java consumer that is still looking up where to begin in a partition does not give it up when it is deleted.
        late = processes.start(CLIENTS["confluent-kafka-2.16"])
        late.do("produce", topic="orders", records=numbered(24, 8, 8))
        processes.wait(lambda: set(range(24, 32)) <= set(values([first])), "every partition is consumed")
        other.do("delete_topic", topic="orders")
        share(processes, [first], [], 0)


@pytest.mark.parametrize("library", SAY_THAT_THEY_COME_BACK)
def test_a_restarted_static_member_has_its_partitions_again(library: Client, tmp_path: Path) -> None:
    config = {name: str(value) for name, value in SETTINGS.items()}
    with CoordinatorServer(topics={"kept": 4}, config=config) as server:
        processes = ClientProcesses(server.bootstrap, "billing")
        try:
            usual = {"topics": ["kept"], "protocol": "consumer"}
            everything = all_of({"kept": 4})
            first = processes.start(library, **usual)
            share(processes, [first], everything, 4)
            static = processes.start(library, instance="one", **usual)
            share(processes, [first, static], everything, 2, 2)
            owned = static.owns
            server.group("billing").stable(members=2)
            reported = len(first.events)
            static.close()
            static = processes.start(library, instance="one", **usual)
            share(processes, [first, static], everything, 2, 2)
            assert static.owns == owned
            changes = [event for event in first.events[reported:] if event["event"] in ("assigned", "revoked", "lost")]
            assert not [event for event in changes if event["partitions"]], "the other member gets no rebalance"
            # Another with its instance id is refused, and the older stays.
            twin = processes.start(library, instance="one", **usual)
            processes.wait(
                lambda: twin.events_of("error") or twin.events_of("owns") or twin.process.poll() is not None, "it ends"
            )
            assert not twin.owns
            share(processes, [first, static], everything, 2, 2)
        finally:
            processes.end()
        server.write_trace(tmp_path / "trace.jsonl")
    assert check_trace(tmp_path / "trace.jsonl") == []


@pytest.mark.everything("Go and Node.js")
@SHORT_SESSION
def test_a_static_member_that_says_nothing_when_it_closes_is_back_after_its_session(server: Server) -> None:
    franz = next(client for name, client in CONSUMER_PROTOCOL.items() if "franz" in name)
    with processes_of(server) as processes:
        usual = {"topics": ["kept"], "protocol": "consumer"}
        everything = all_of({"kept": 4})
        static = processes.start(franz, instance="one", **usual)
        share(processes, [static], everything, 4)
        # Another with its instance id gets nothing, and the older stays.
        twin = processes.start(franz, instance="one", **usual)
        processes.wait(
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
        static = processes.start(franz, instance="one", **usual)
        share(processes, [static], everything, 4)


@SHORT_SESSION
@pytest.mark.parametrize("library", EACH_CLIENT)
def test_a_member_stopped_past_its_session_is_expelled_and_joins_again(library: Client, server: Server) -> None:
    with processes_of(server) as processes:
        usual = {"topics": ["kept"], "protocol": "consumer"}
        stopped = processes.start(library, **usual)
        share(processes, [stopped], all_of({"kept": 4}), 4)
        other = processes.start(library, **usual)
        share(processes, [stopped, other], all_of({"kept": 4}), 2, 2)
        reported = len(stopped.events)
        stopped.stop()
        try:
            share(processes, [other], all_of({"kept": 4}), 4)
        finally:
            stopped.wake()
        share(processes, [stopped, other], all_of({"kept": 4}), 2, 2)
        # Its listener hears that its partitions are lost before any is assigned again.
        rebalances = [each["event"] for each in stopped.events[reported:] if each["event"] in ("lost", "assigned")]
        assert rebalances[:2] == ["lost", "assigned"]
    mine = [event for event in server.events() if event.get("client_id") == stopped.name]
    changes = [event.get("change") if event["event"] == "member" else None for event in mine]
    beats = [each for each in mine[changes.index("expired") :] if each.get("api") == "ConsumerGroupHeartbeat"]
    # Its first heartbeat has the old epoch; it is refused, and the member joins again with epoch 0.
    assert beats[0]["request"]["member_epoch"] > 0
    assert beats[0]["error"] in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
    assert (beats[1]["request"]["member_epoch"], beats[1]["error"]) == (0, 0)


@pytest.mark.parametrize("library", EACH_CLIENT)
def test_a_pattern_finds_topics_that_appear(library: Client, server: Server) -> None:
    with processes_of(server) as processes:
        other = processes.start(CLIENTS["confluent-kafka-2.16"])
        other.do("create_topic", topic="orders-1", partitions=2)
        members = [processes.start(library, pattern="^orders-.*", protocol="consumer", **ALERT) for _ in range(2)]
        share(processes, members, all_of({"orders-1": 2}), 1, 1)
        other.do("create_topic", topic="orders-2", partitions=2)
        other.do("create_topic", topic="returns", partitions=2)
        share(processes, members, all_of({"orders-1": 2, "orders-2": 2}), 2, 2)


@pytest.mark.parametrize("library", EACH_CLIENT)
def test_a_coordinator_killed_within_a_reconciliation_completes_it(library: Client, server: Server) -> None:
    with processes_of(server) as processes:
        usual = {"topics": ["kept"], "protocol": "consumer"}
        first = processes.start(library, revoke_s=1.0, **usual)
        share(processes, [first], all_of({"kept": 4}), 4)
        second = processes.start(library, **usual)
        # It must give up partitions, and is slow.
        processes.wait(lambda: first.events_of("revoked"), "the first is told to give partitions up")
        server.end(signal.SIGKILL)
        server.start()
        share(processes, [first, second], all_of({"kept": 4}), 2, 2)
        assert not first.events_of("lost")


@pytest.mark.parametrize("library", EACH_CLIENT)
def test_a_coordinator_that_moves_within_a_reconciliation_completes_it(library: Client, tmp_path: Path) -> None:
    config = {name: str(value) for name, value in SETTINGS.items()}
    with CoordinatorServer(topics={"kept": 4}, brokers=2, config=config) as server:
        processes = ClientProcesses(server.bootstrap.split(",")[0], "billing")
        try:
            usual = {"topics": ["kept"], "protocol": "consumer"}
            first = processes.start(library, revoke_s=1.0, **usual)
            share(processes, [first], all_of({"kept": 4}), 4)
            second = processes.start(library, **usual)
            processes.wait(lambda: first.events_of("revoked"), "the first is told to give partitions up")
            server.move("billing", broker=3 - server.coordinator_of("billing"))
            share(processes, [first, second], all_of({"kept": 4}), 2, 2)
            assert not first.events_of("lost")
        finally:
            processes.end()
        server.write_trace(tmp_path / "trace.jsonl")
    assert check_trace(tmp_path / "trace.jsonl") == []


@pytest.mark.parametrize("library", MOVING)
def test_three_members_move_to_the_new_protocol_and_back_one_by_one(library: Client, server: Server) -> None:
    with processes_of(server) as processes:
        other = processes.start(CLIENTS["confluent-kafka-2.16"])
        other.do("create_topic", topic="orders", partitions=6)
        orders = all_of({"orders": 6})
        members = [
            processes.start(library, topics=["orders"], assignors=["range"], protocol="classic") for _ in range(3)
        ]
        share(processes, members, orders, 2, 2, 2)
        at_rest(processes, other, members, 2, 2, 2)
        everybody, sent = list(members), 0
        for protocol in ("consumer", "classic"):
            for number in range(3):
                other.do("produce", topic="orders", records=numbered(sent, 12, 6))
                sent += 12
                processes.wait(lambda sent=sent: len(values(everybody)) >= sent, f"{sent} records are consumed")
                for member in members:
                    commit(member, everybody)
                members[number].close()
                chosen = {"assignors": ["range"]} if protocol == "classic" else {}
                members[number] = processes.start(library, topics=["orders"], protocol=protocol, **chosen)
                everybody.append(members[number])
                share(processes, members, orders, 2, 2, 2)
                at_rest(processes, other, members, 2, 2, 2)
        # Every later member continued at the commit of the earlier one.
        assert values(everybody) == list(range(sent))


@pytest.mark.parametrize("library", EACH_CLIENT)
def test_kafka_python_shares_a_group_with_members_of_the_new_protocol(library: Client, server: Server) -> None:
    with processes_of(server) as processes:
        other = processes.start(CLIENTS["confluent-kafka-2.16"])
        other.do("create_topic", topic="orders", partitions=6)
        classic = processes.start(CLIENTS["kafka-python-3.0"], topics=["orders"], assignors=["range"])
        share(processes, [classic], all_of({"orders": 6}), 6)
        new = processes.start(library, topics=["orders"], protocol="consumer")
        share(processes, [classic, new], all_of({"orders": 6}), 3, 3)
        other.do("produce", topic="orders", records=numbered(0, 12, 6))
        processes.consumed([classic, new], "orders", 12)
        assert values([classic, new]) == list(range(12))
        new.close()
        share(processes, [classic], all_of({"orders": 6}), 6)
