"""Real clients as child processes, and waits for their reports.

`ClientProcesses` starts the members of one group, each under the interpreter of its client library, and waits for
conditions on their reports. No wait sleeps: it ends with the event that fulfils it, or fails with the reports so far.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kafka_shim.conformance import processes
from kafka_shim.conformance.clients import builds

SESSION_MS = 30_000
"""A session longer than any test: events in a test never come from its expiry."""
SHORT_SESSION_MS = 4_000
"""The session of a member that a test expels. No other member has it: a busy machine stops any process for 1 to 2 s."""
HEARTBEAT_MS = 150
STARTING = 120.0
"""Seconds a process may take to start; Java, or twelve processes at once, are slow."""
PATIENCE = 60.0
_MAX_ERROR_LINES = 1_500

Partition = tuple[str, int]

POSITIONS = ("pause", "seek", "revoke-commit", "assign-seek", "assign-unsubscribe")
"""The abilities for the position cases, most of them about listeners."""


@dataclass(frozen=True)
class Client:
    """One release of a client library: its adapter and its abilities."""

    name: str
    adapter: str
    lock: str | None = None
    assignors: tuple[str, ...] = ("range", "roundrobin", "sticky")
    static: bool = True
    abilities: tuple[str, ...] = ("revoke-pause",)
    deletes_groups: bool = True
    alters_offsets: bool = False
    deletes_offsets: bool = False
    reads_state: bool = True
    protocol: str = "classic"

    build: Callable[[str, str | None], list[str]] = builds.python

    def command(self) -> list[str]:
        """Return the command that starts the adapter, built if needed; raise `ClientMissing` if it is not available."""
        return self.build(self.adapter, self.lock)


CLIENTS = {
    client.name: client
    for client in (
        Client(
            "kafka-python-3.0",
            "kafka_python.py",
            assignors=("range", "roundrobin", "sticky", "cooperative-sticky"),
            # Its listeners must not block, so they neither commit nor unsubscribe.
            abilities=("revoke-pause", "max-poll", "mixed-assignors", "pause", "seek", "assign-seek"),
            alters_offsets=True,
            deletes_offsets=True,
        ),
        Client(
            "kafka-python-2.3",
            "kafka_python.py",
            lock="kafka-python-2.3",
            abilities=("revoke-pause", "max-poll", *POSITIONS),
        ),
        # Its sticky assignor raises TypeError when a member that owns a partition joins again.
        Client(
            "kafka-python-2.0",
            "kafka_python.py",
            lock="kafka-python-2.0",
            assignors=("range", "roundrobin"),
            static=False,
            abilities=("revoke-pause", *POSITIONS),
        ),
        Client("aiokafka-0.14", "aio_kafka.py", deletes_groups=False),
        Client("aiokafka-0.11", "aio_kafka.py", lock="aiokafka-0.11", deletes_groups=False),
        Client(
            "confluent-kafka-2.16",
            "confluent.py",
            assignors=("range", "roundrobin", "cooperative-sticky"),
            abilities=("revoke-pause", "max-poll", *POSITIONS),
            alters_offsets=True,
        ),
    )
}

OTHER_LANGUAGES = {
    client.name: client
    for client in (
        Client(
            f"java-{builds.KAFKA}",
            "Adapter.java",
            assignors=("range", "roundrobin", "sticky", "cooperative-sticky"),
            abilities=("revoke-pause", "max-poll", "mixed-assignors", *POSITIONS),
            build=builds.java,
        ),
        Client(
            f"franz-go-{builds.FRANZ_GO.removeprefix('v')}",
            "franz.go",
            assignors=("range", "roundrobin", "sticky", "cooperative-sticky"),
            abilities=("revoke-pause", "mixed-assignors", "pause", "seek", "revoke-commit", "assign-seek"),
            build=builds.go,
        ),
        Client(
            f"sarama-{builds.SARAMA.removeprefix('v')}",
            "sarama.go",
            assignors=("range", "roundrobin", "sticky", "cooperative-sticky"),
            abilities=("revoke-pause", "mixed-assignors"),
            build=builds.sarama,
        ),
        Client(
            f"kafkajs-{builds.KAFKAJS}",
            "kafkajs.js",
            assignors=("roundrobin",),
            static=False,
            abilities=(),
            build=builds.node,
        ),
    )
}
"""Clients whose adapters only join groups."""

CONSUMER_PROTOCOL = {
    client.name: client
    for client in (
        Client(
            "confluent-kafka-2.16-consumer",
            "confluent.py",
            assignors=("uniform", "range"),
            abilities=("revoke-pause", "max-poll", "regex", "classic-too", "subscribe", "unsubscribe"),
            protocol="consumer",
        ),
        Client(
            f"java-{builds.KAFKA}-consumer",
            "Adapter.java",
            assignors=("uniform", "range"),
            abilities=("revoke-pause", "max-poll", "regex", "classic-too", "subscribe", "unsubscribe"),
            protocol="consumer",
            build=builds.java,
        ),
        Client(
            f"franz-go-{builds.FRANZ_GO.removeprefix('v')}-consumer",
            "franz.go",
            assignors=("uniform", "range"),
            abilities=("revoke-pause", "regex", "classic-too", "subscribe"),
            protocol="consumer",
            build=builds.go,
        ),
    )
}
"""Clients with `group.protocol=consumer`: the coordinator assigns (KIP-848)."""

_JAVA_ABILITIES = ("revoke-pause", "max-poll", "mixed-assignors", *POSITIONS)
_JAVA_CONSUMER_ABILITIES = ("revoke-pause", "max-poll", "regex", "classic-too", "subscribe", "unsubscribe")

FURTHER_CLIENTS = {
    client.name: client
    for client in (
        *(
            Client(
                f"java-{release}",
                "Adapter.java",
                lock=release,
                assignors=("range", "roundrobin", "sticky", "cooperative-sticky"),
                abilities=_JAVA_ABILITIES,
                build=builds.java,
            )
            for release in builds.OLDER_KAFKAS
        ),
        Client(
            f"spring-kafka-{builds.SPRING}",
            "Spring.java",
            assignors=("range", "roundrobin", "sticky", "cooperative-sticky"),
            abilities=("revoke-pause", "max-poll", "mixed-assignors", "seek", "revoke-commit", "assign-seek"),
            build=builds.spring,
        ),
        Client(
            f"kafka-go-{builds.KAFKA_GO.removeprefix('v')}",
            "segmentio.go",
            assignors=("range", "roundrobin"),
            static=False,
            abilities=("revoke-pause",),
            build=builds.segmentio,
        ),
        Client(
            f"platformatic-kafka-{builds.PLATFORMATIC}",
            "platformatic.js",
            assignors=("roundrobin",),
            static=False,
            abilities=(),
            build=builds.platformatic,
        ),
        Client(
            f"node-rdkafka-{builds.NODE_RDKAFKA}",
            "node_rdkafka.js",
            assignors=("range", "roundrobin", "cooperative-sticky"),
            abilities=("revoke-pause", "max-poll", *POSITIONS),
            build=builds.node_rdkafka,
        ),
        Client(
            f"confluent-javascript-{builds.CONFLUENT_JAVASCRIPT}",
            "confluent.js",
            assignors=("range", "roundrobin", "cooperative-sticky"),
            # `hold` blocks at the next record; without one it polls on, so no `max-poll`.
            abilities=("revoke-pause", "pause", "seek", "revoke-commit", "assign-seek"),
            build=builds.confluent_javascript,
        ),
        Client(
            f"rdkafka-rust-{builds.RDKAFKA_CRATE}",
            "rdkafka.rs",
            assignors=("range", "roundrobin", "cooperative-sticky"),
            abilities=("revoke-pause", "max-poll", "pause", "seek", "revoke-commit", "assign-unsubscribe"),
            build=builds.rust,
        ),
        *(
            Client(
                f"java-{release}-consumer",
                "Adapter.java",
                lock=release,
                assignors=("uniform", "range"),
                abilities=_JAVA_CONSUMER_ABILITIES,
                protocol="consumer",
                build=builds.java,
            )
            for release in builds.OLDER_KAFKAS
            if release.startswith("4.")
        ),
    )
}
"""Clients in the matrix but not in our tests: older releases, and those that take long to fetch or to build."""

EVERY_CLIENT = CLIENTS | OTHER_LANGUAGES | CONSUMER_PROTOCOL | FURTHER_CLIENTS


class MemberFailed(AssertionError):
    """An expected report did not come; the message shows the reports that came instead."""


@dataclass
class Member:
    """A client process. `events` are all its reports, each with `at` in monotonic seconds; `changed` guards them."""

    name: str
    process: subprocess.Popen[str]
    changed: threading.Condition
    events: list[dict[str, Any]] = field(default_factory=list)
    replies: dict[int, dict[str, Any]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def listen(self) -> None:
        self.readers = [threading.Thread(target=each, daemon=True) for each in (self._read_events, self._read_errors)]
        for reader in self.readers:
            reader.start()

    def _read_events(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            message["at"] = time.monotonic()
            with self.changed:
                if "reply" in message:
                    self.replies[message["reply"]] = message
                else:
                    self.events.append(message)
                self.changed.notify_all()
        with self.changed:
            self.events.append({"event": "gone", "at": time.monotonic()})
            self.changed.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors.append(line.rstrip())
            del self.errors[:-_MAX_ERROR_LINES]

    # Its reports. Read them inside a wait, or when the member is quiet.

    def events_of(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]

    @property
    def owns(self) -> frozenset[Partition]:
        reports = self.events_of("owns")
        return (
            frozenset((topic, partition) for topic, partition in reports[-1]["partitions"]) if reports else frozenset()
        )

    @property
    def generation(self) -> int:
        reports = self.events_of("owns")
        return int(reports[-1]["generation"]) if reports else -1

    @property
    def member_id(self) -> str:
        return str(self.events_of("owns")[-1]["member"])

    @property
    def rebalances(self) -> int:
        """The number of its assignments."""
        return len(self.events_of("assigned"))

    def revoked(self, since: int = 0) -> set[Partition]:
        """Return every partition revoked from it or lost, from its event number `since` on."""
        revocations = [each for each in self.events[since:] if each["event"] in ("revoked", "lost")]
        return {(topic, partition) for each in revocations for topic, partition in each["partitions"]}

    def records(self, topic: str | None = None) -> list[tuple[int, int, str | None, str, list[list[str]]]]:
        """Return (partition, offset, key, value, headers) of all consumed records, in its order."""
        return [
            (each["partition"], *record)
            for each in self.events_of("records")
            if topic is None or each["topic"] == topic
            for record in each["records"]
        ]

    def records_of(self, partitions: Iterable[Partition]) -> list[tuple[int, int, str | None, str, list[list[str]]]]:
        """Return the records consumed from these partitions of one topic."""
        (topic,) = {topic for topic, _ in partitions}
        numbers = {number for _, number in partitions}
        return [record for record in self.records(topic) if record[0] in numbers]

    # Commands.

    def ask(self, do: str, **fields: Any) -> int:
        """Send a command; return the number that its reply will have."""
        number = next(self.numbers)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": number, "do": do, **fields}) + "\n")
        self.process.stdin.flush()
        return number

    def answer(self, number: int, patience: float = PATIENCE) -> dict[str, Any]:
        """Wait for the reply with that number."""
        with self.changed:
            self.changed.wait_for(lambda: self.events, STARTING)
            if not self.changed.wait_for(lambda: number in self.replies, patience):
                raise MemberFailed(f"{self.name} did not answer command {number}\n{self.story()}")
            return self.replies[number]

    def do(self, name: str, **fields: Any) -> Any:
        """Run a command that must succeed; return its value."""
        reply = self.answer(self.ask(name, **fields))
        if "error" in reply:
            raise MemberFailed(f"{self.name}: {name} failed with {reply['error']}: {reply['text']}\n{self.story()}")
        return reply["value"]

    def refused(self, name: str, **fields: Any) -> str:
        """Run a command that must fail; return the name and text of its error."""
        reply = self.answer(self.ask(name, **fields))
        if "error" not in reply:
            raise MemberFailed(f"{self.name}: {name} must fail, and succeeded\n{self.story()}")
        return f"{reply['error']}: {reply['text']}"

    def close(self) -> None:
        """Leave the group in order, and wait for the process to end."""
        self.do("close")
        self.process.wait(PATIENCE)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        """Return all its reports, and the end of its client's log."""
        with self.changed:
            reports = [f"{event['at']:.3f} {json.dumps(event)}" for event in self.events]
        return "\n".join([f"{self.name} (exit {self.process.poll()}) reported:", *reports, "it logged:", *self.errors])

    def story(self) -> str:
        reports = [json.dumps(event)[:300] for event in self.events[-25:]]
        return "\n".join(
            [f"{self.name} (exit {self.process.poll()}) reported:", *reports, "on stderr:", *self.errors[-15:]]
        )


class ClientProcesses:
    """Starts members against one server, and ends them all at the end of a test."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self.bootstrap = bootstrap
        self.group = group
        self.changed = threading.Condition()
        self.members: list[Member] = []

    def start(self, client: Client, **config: Any) -> Member:
        """Start a process of that client. With `topics` or `pattern` it joins the group; else it waits for commands."""
        name = f"{client.name}-{len(self.members) + 1}"
        settings = {
            "bootstrap": self.bootstrap,
            "client_id": name,
            "session_ms": SESSION_MS,
            "heartbeat_ms": HEARTBEAT_MS,
            "metadata_ms": 300_000,
            "poll_s": 0.1,
            **({"group": self.group} if config.get("topics") or config.get("pattern") else {}),
            **config,
        }
        process = processes.start(
            [*client.command(), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        member = Member(name, process, self.changed)
        self.members.append(member)
        member.listen()
        return member

    def all_started(self) -> None:
        """Wait until every process reports. A RuntimeError if one does not, which proves nothing about its client."""
        with self.changed:
            members = list(self.members)
            up = self.changed.wait_for(lambda: all(each.events for each in members), STARTING)
        if not up:
            raise RuntimeError(f"not all of {[member.name for member in members]} started within {STARTING:.0f} s")

    def wait(self, condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        """Wait until `condition` is true, and return its value. Checked at every report, after all have started."""
        self.all_started()
        with self.changed:
            value = self.changed.wait_for(condition, patience)
            if not value:
                stories = "\n\n".join(member.story() for member in self.members)
                raise MemberFailed(f"not within {patience:.0f} s: {what}\n\n{stories}")
            return value

    def shared(self, members: Iterable[Member], partitions: Iterable[Partition], sizes: Iterable[int]) -> None:
        """Wait until these members own these partitions, each exactly once, in numbers of `sizes`."""
        members, partitions, sizes = list(members), sorted(partitions), sorted(sizes)
        self.wait(
            lambda: (
                sorted(owned for member in members for owned in member.owns) == partitions
                and sorted(len(member.owns) for member in members) == sizes
                and len({member.generation for member in members}) == 1
            ),
            f"{[member.name for member in members]} share {len(partitions)} partitions as {sizes}",
        )

    def consumed(self, members: Iterable[Member], topic: str, count: int) -> None:
        """Wait until these members together have consumed that many records of the topic."""
        members = list(members)
        self.wait(lambda: sum(len(m.records(topic)) for m in members) >= count, f"{count} records of {topic} consumed")

    def end(self) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.process.kill()
        for member in self.members:
            member.process.wait()
            for reader in member.readers:
                reader.join(PATIENCE)
            for stream in (member.process.stdin, member.process.stdout, member.process.stderr):
                assert stream is not None
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def all_of(topics: dict[str, int]) -> list[Partition]:
    """Return every partition of these topics."""
    return [(topic, partition) for topic, count in topics.items() for partition in range(count)]
