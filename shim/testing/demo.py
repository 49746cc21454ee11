"""Demo: real clients form a group on our server, lose a member and continue, with a line for each step.

It checks its claims: every record was consumed, and after the crash the others continued from the committed offsets.
The clients are processes (`demo_clients.py`); the story comes from the server's trace (`narration.py`), and so do the
causes of the rebalances at the end. It leaves the trace behind, and a page that draws it.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from kafka_shim.lab.replaying import play
from kafka_shim.persistence.files import write_private
from kafka_shim.testing.demo_clients import GROUP, TOPIC
from kafka_shim.testing.server import CoordinatorServer
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.trace.reading import read
from kafka_shim.trace.rebalance import Rebalance
from kafka_shim.why.explanation import explain
from kafka_shim.why.export import page_of
from kafka_shim.why.narration import Line, Narrator
from kafka_shim.why.text import lines

PARTITIONS: Final = 6
PATIENCE: Final = 50.0
"""Time limit of the whole demo in seconds."""
ENOUGH: Final = 30
"""Number of records that a consumer consumes before the next scene."""
BUSY: Final = 1.5
"""Shortest pause in the polling of a consumer that must join again, in seconds."""

_STYLES: Final = {"state": "bold yellow", "round": "cyan", "assignment": "green", "member": "bold", "client": "dim"}


class Failed(Exception):
    """A claim of the demo failed; the message is one sentence."""


class Client:
    """A client process and its reports."""

    def __init__(self, demo: Demo, role: str, name: str) -> None:
        self.name = name
        self.role = role
        self.consumed: list[tuple[int, int, int]] = []
        """Partition, offset and number of each record."""
        self.reports: dict[str, Any] = {}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kafka_shim.testing.demo_clients", role, demo.server.bootstrap, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, args=(demo,), daemon=True)
        self._reader.start()

    def _read(self, demo: Demo) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            report = json.loads(line)
            with demo.changed:
                if "consumed" in report:
                    self.consumed += [tuple(record) for record in report["consumed"]]
                else:
                    self.reports |= report
                demo.changed.notify_all()

    def position(self) -> dict[int, int]:
        """Return, by partition, the offset after the last consumed record."""
        return {partition: offset + 1 for partition, offset, _ in self.consumed}

    def order(self, command: str) -> None:
        """Send a command; see `demo_clients.py`."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait until all its reports are read."""
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def finish(self, patience: float) -> None:
        """Let it close its client and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(max(patience, 0.1))
        self._reader.join()


class Demo:
    """One run of the demo, which writes its trace to the file `trace`. `run` returns the exit code."""

    def __init__(self, console: Console, trace: Path) -> None:
        self.console = console
        self._trace = trace
        self.changed = threading.Condition()
        self.server = CoordinatorServer(
            topics={TOPIC: PARTITIONS},
            config={"group.initial.rebalance.delay.ms": "1000", "group.min.session.timeout.ms": "1000"},
        )
        self.clients: list[Client] = []
        self._story = Narrator()
        self._assignments: list[dict[str, Any]] = []
        self._members: set[str] = set()
        """Client ids that have joined."""
        self._ends = 0.0

    def run(self) -> int:
        """Play all scenes; return 0 if every claim holds, 1 otherwise."""
        self._ends = time.monotonic() + PATIENCE
        try:
            with self.server:
                self.server.call(self.server.server.cluster.events.listen, self._listen)
                try:
                    self._play()
                finally:
                    for client in self.clients:
                        client.process.kill()
                        client.process.wait()
        except Failed as failure:
            self.console.print(f"\nThe demo has failed: {failure}", style="bold red", highlight=False)
            return 1
        return 0

    # Scenes

    def _play(self) -> None:
        self._say(f"A coordinator on {self.server.bootstrap}, with the topic {TOPIC} of {PARTITIONS} partitions.")
        self._scene("A producer (kafka-python) begins to send numbered records.")
        producer = self._start("producer", "shop")
        self._await(lambda: "began" in producer.reports, "the producer sends")

        self._scene("Two consumers start: billing-1 with kafka-python, billing-2 with aiokafka.")
        first, second = self._start("kafka-python", "billing-1"), self._start("aiokafka", "billing-2")
        self._await_generation({"billing-1", "billing-2"})
        self._await_consumed(first, second)

        self._scene(
            "A third one, billing-3, joins them with kafka-python; billing-1 is busy with its records at that time."
        )
        first.order("busy")
        third = self._start("kafka-python", "billing-3")
        self._await(lambda: "billing-3" in self._members, "billing-3 has joined")
        began = time.monotonic()
        self._await(lambda: "billing-2" in self.server.call(self._waiting), "billing-2 has joined again")
        # Much later than the others, however slow this machine is.
        time.sleep(max(BUSY, 3 * (time.monotonic() - began)))
        first.order("free")
        self._await_generation({"billing-1", "billing-2", "billing-3"})
        self._await_consumed(first, second, third)

        crash = self._crash(second)
        self._await_generation({"billing-1", "billing-3"})
        self._await(
            lambda: all(self._first_after(partition, crash, first, third) for partition in crash),
            "the others consume the partitions of billing-2",
        )
        self._check_resumed(crash, second, first, third)

        self._scene("The producer stops; the consumers finish what there is, and leave.")
        producer.finish(self._remaining)
        sent = int(producer.reports["sent"])
        self._await(lambda: len(self._numbers()) == sent, f"all {sent} records are consumed")
        for consumer in (first, third):
            consumer.finish(self._remaining)
        self._check_all(sent, crash, second)
        self._explain()

    def _explain(self) -> None:
        """Print the cause of each rebalance in a line, and the commands and the page that tell more."""
        self.server.write_trace(self._trace)
        trace = History()
        events = list(read([self._trace]))
        for event in events:
            trace.add(event)
        history = trace.groups[GROUP]
        explanation = explain(history, list(history.rebalances))
        assert explanation is not None
        self._scene(f"Why {GROUP} rebalanced, and who was slow:")
        for line in lines(explanation, brief=True, zone=datetime.now().astimezone().tzinfo or UTC):
            self._say(line)
        program = shlex.quote(sys.argv[0]) if Path(sys.argv[0]).name == "kafka-shim" else "kafka-shim"
        self._scene("Each in full, with its phases, what moved and what to do; and as a drawing, in a browser:")
        self._say(f"    {program} why {GROUP} --last {len(history.rebalances)} {shlex.quote(str(self._trace))}")
        drawing = self._trace.with_suffix(".html")
        write_private(drawing, page_of(events, "the demo", play))
        self._say(f"    {drawing.resolve().as_uri()}#{GROUP}@{self._longest_wait(history).first_seq}")

    @staticmethod
    def _longest_wait(history: GroupHistory) -> Rebalance:
        """Return the longest rebalance after the group's first."""
        return max((each for each in history.rebalances if not each.initial), key=lambda each: each.seconds)

    def _crash(self, victim: Client) -> dict[int, int]:
        """Kill a consumer; return the committed offsets of its partitions at its death, by partition."""
        self._scene(f"{victim.name} is killed (SIGKILL), in the middle of its work.")
        owned = self._owned(victim.name)
        self._await(
            lambda: self._uncommitted(victim, owned) >= 10,
            "billing-2 has consumed records that it has not committed",
        )
        victim.kill()
        # Its last commit may still be in flight; once its connections are closed, nothing is.
        self._await(lambda: victim.name not in self.server.call(self._connected), "its connections are closed")
        committed, position = self._committed(), victim.position()
        self._say(f"Committed offsets of its partitions at the crash, and how far {victim.name} had come:")
        for partition in owned:
            consumed, stored = position.get(partition, 0), committed.get(partition, 0)
            self._say(f"    {TOPIC}-{partition}: committed {stored}, consumed up to {consumed}")
        return {partition: committed.get(partition, 0) for partition in owned}

    def _uncommitted(self, consumer: Client, partitions: list[int]) -> int:
        """Return the number of records that it has consumed and not committed."""
        position, committed = consumer.position(), self._committed()
        return sum(max(position.get(each, 0) - committed.get(each, 0), 0) for each in partitions)

    def _check_resumed(self, crash: Mapping[int, int], victim: Client, *others: Client) -> None:
        self._say(f"The partitions of {victim.name} are consumed again, from the committed offsets on:")
        for partition, committed in crash.items():
            resumed = self._first_after(partition, crash, *others)
            assert resumed is not None
            client, offset = resumed
            self._say(f"    {TOPIC}-{partition}: {client.name} went on at {offset}")
            if offset != committed:
                raise Failed(f"{TOPIC}-{partition} was committed up to {committed}, but consumed from {offset} on.")

    def _check_all(self, sent: int, crash: Mapping[int, int], victim: Client) -> None:
        times: dict[tuple[int, int], int] = {}
        for client in self.clients:
            for partition, offset, _ in client.consumed:
                times[partition, offset] = times.get((partition, offset), 0) + 1
        twice = {where for where, count in times.items() if count > 1}
        missing = set(range(sent)) - self._numbers()
        ends: dict[int, int] = {}
        for partition, offset in times:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        committed = self._committed()
        self._scene("Done.")
        at_the_end = ", ".join(f"{TOPIC}-{partition} {offset}" for partition, offset in sorted(committed.items()))
        self._say(f"Committed offsets at the end: {at_the_end}")
        self._say(f"{sent} records sent, {len(self._numbers())} consumed, none lost.")
        self._say(f"{len(twice)} were consumed twice: {victim.name} had consumed them, but not committed.")
        if missing:
            raise Failed(f"{len(missing)} of {sent} records were never consumed.")
        if committed != ends:
            raise Failed(f"the committed offsets are {committed}, but the records end at {ends}.")
        position = victim.position()
        if any(not crash.get(p, 1 << 62) <= offset < position.get(p, 0) for p, offset in twice):
            raise Failed("records were consumed twice that the crash does not account for.")

    # State

    def _numbers(self) -> set[int]:
        return {number for client in self.clients for _, _, number in client.consumed}

    def _owned(self, name: str) -> list[int]:
        with self.changed:
            newest = self._assignments[-1]["assignments"]
        return sorted(p for member, owned in newest.items() if self._story.name(member) == name for p in owned[TOPIC])

    def _first_after(self, partition: int, crash: Mapping[int, int], *clients: Client) -> tuple[Client, int] | None:
        """Return the consumer of a partition after the crash, and its first offset."""
        for client in clients:
            later = [offset for p, offset, _ in client.consumed if p == partition and offset >= crash[partition]]
            if later:
                return client, later[0]
        return None

    def _committed(self) -> dict[int, int]:
        return self.server.call(self._committed_now)

    def _connected(self) -> set[str]:
        return {session.client_id for session in self.server.server.cluster.sessions()}

    def _waiting(self) -> set[str]:
        """Return the client ids that have joined again and wait for the others."""
        group = self.server.server.cluster.ownership.owner_of(GROUP).groups.groups[GROUP]
        return {member.client_id for member in group.describe_members(subscriptions=False) if member.parked == "join"}

    def _committed_now(self) -> dict[int, int]:
        cluster = self.server.server.cluster
        groups = next(iter(cluster.nodes.values())).groups
        offsets = groups.shards[groups.partition_of(GROUP)].offsets.of(GROUP)
        return {partition: value.offset for partition, value in offsets.get(TOPIC, {}).items()}

    # Waits

    @property
    def _remaining(self) -> float:
        return self._ends - time.monotonic()

    def _await(self, condition: Callable[[], bool], goal: str) -> None:
        while not condition():
            with self.changed:
                self.changed.wait(min(0.1, max(self._remaining, 0.0)))
            if self._remaining <= 0:
                raise Failed(f"it took too long until {goal}.")

    def _await_generation(self, names: set[str]) -> None:
        def is_there() -> bool:
            if not self._assignments:
                return False
            owned = self._assignments[-1]["assignments"]
            partitions = [partition for each in owned.values() for partition in each.get(TOPIC, ())]
            return {self._story.name(member) for member in owned} == names and len(partitions) == PARTITIONS

        self._await(is_there, f"{', '.join(sorted(names))} share the partitions")

    def _await_consumed(self, *clients: Client) -> None:
        before = [len(client.consumed) for client in clients]
        self._await(
            lambda: all(len(c.consumed) >= b + ENOUGH for c, b in zip(clients, before, strict=True)),
            "all consumers have consumed",
        )

    # Output

    def _start(self, role: str, name: str) -> Client:
        client = Client(self, role, name)
        self.clients.append(client)
        return client

    def _listen(self, events: list[dict[str, Any]], now: float) -> None:
        with self.changed:
            for event in events:
                for line in self._story.lines(event, now):
                    self._print(line)
                if event["event"] == "assignment":
                    self._assignments.append(event)
                elif event["event"] == "member" and event["change"] == "added":
                    self._members.add(event["client_id"])
            self.changed.notify_all()

    def _print(self, line: Line) -> None:
        self.console.print(Text(f"{line.seconds:8.3f} s  {line.text}", style=_STYLES.get(line.kind, "")))

    def _scene(self, text: str) -> None:
        self.console.print(Text(f"\n{text}", style="bold blue"))

    def _say(self, text: str) -> None:
        self.console.print(Text(text))


def main(trace: Path | None = None) -> int:
    """Play the demo on the terminal; return the exit code. Its trace goes to `trace`, by default in a new folder for
    temporary files. Raises ModuleNotFoundError at once if a client library is missing.
    """
    for library in ("kafka", "aiokafka"):
        import_module(library)
    path = Path(tempfile.mkdtemp(prefix="kafka-shim-demo-")) / "trace.jsonl" if trace is None else trace
    return Demo(Console(highlight=False, soft_wrap=True), path).run()
