"""The test kit on trio: a coordinator in the caller's own nursery, with all that a test may do to it.

Decides how coordinator, clock, puppets and faults go together, and how the clock is put forward: from one thing that
happens to the next, so that nothing is skipped. `server.py` is the same for tests that do not run on trio.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson
import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.groups.trace import SCHEMA_VERSION
from kafka_shim.lab import arguments
from kafka_shim.lab.barriers import Barrier
from kafka_shim.lab.casting import cast
from kafka_shim.lab.clock import TestClock
from kafka_shim.lab.consumer_puppets import ConsumerManner, ConsumerPuppet, ConsumerScript
from kafka_shim.lab.failing_store import BreakableStore
from kafka_shim.lab.faults import Fault
from kafka_shim.lab.group_waits import STORY_LINES, TIMEOUT, NotReached
from kafka_shim.lab.interception import split_match
from kafka_shim.lab.puppets import Manner, Puppet, Script
from kafka_shim.lab.scheduler import Scheduler
from kafka_shim.lab.share_puppets import SharePuppet
from kafka_shim.lab.streams_puppets import StreamsPuppet, StreamsScript
from kafka_shim.persistence.store import Store
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.history import EventHistory
from kafka_shim.server.refusals import Refused
from kafka_shim.server.server import Server, ServerConfig, serve
from kafka_shim.testing.data import TopicData

if TYPE_CHECKING:
    from kafka_shim.lab.client_assignor_puppets import ClientAssignorPuppet
    from kafka_shim.lab.registered_puppets import RegisteredPuppet, RegisteredScript

FOR_TESTS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "auto.create.topics.enable": "false",
}
"""Settings that differ from Kafka's where a test says nothing else: no delay that nobody waits for a reason."""

HEARTBEAT_SECONDS: Final = 0.1

Made = TypeVar("Made", bound="Script | Manner | ConsumerScript | ConsumerManner | StreamsScript | RegisteredScript")


class UnfiredFaults(AssertionError):
    """Faults were declared and have never happened, so the test has not shown what it says."""


class Kit(TopicData, LabWorkbench):
    """A running coordinator. Everything here is for its own thread alone.

    `faults` and `barriers` are those in force, `history` keeps what happened, `store` can be made to fail, `clock` is
    the coordinator's time.
    """

    clock: TestClock
    store: BreakableStore | None

    def __init__(
        self,
        server: Server,
        clock: TestClock,
        store: BreakableStore | None,
        nursery: trio.Nursery,
        history: EventHistory | None = None,
    ) -> None:
        super().__init__(server, nursery, clock, history)
        self.store = store
        self.scheduler = Scheduler(self.cluster)
        self.scheduler.woken = self._wake
        self._sleep = trio.CancelScope()

    @property
    def breakable(self) -> BreakableStore:
        """The store; of a kit that has one."""
        assert self.store is not None
        return self.store

    # Members

    def puppet(self, group: str, topics: Sequence[str], **script: Any) -> Puppet:
        """A scripted member that joins now; `script` are the other fields of `Script`.

        Its heartbeats are more frequent than a real client's, so that it hears soon when it has to join again.
        """
        script = {"heartbeat_interval": HEARTBEAT_SECONDS} | script
        if isinstance(script.get("manner"), Mapping):
            script["manner"] = made_of(Manner, "A manner", script["manner"])
        self._check_topics(topics)
        puppet = Puppet(self.scheduler, made_of(Script, "A puppet", {"group": group, "topics": topics} | script))
        puppet.join()
        return puppet

    def consumer_puppet(self, group: str, topics: Sequence[str], **script: Any) -> ConsumerPuppet:
        """A scripted member of the consumer protocol (KIP-848) that joins now; `script` are the other fields of
        `ConsumerScript`. It sends heartbeats as often as the coordinator says."""
        if isinstance(script.get("manner"), Mapping):
            script["manner"] = made_of(ConsumerManner, "A manner", script["manner"])
        self._check_topics(topics)
        fields = {"group": group, "topics": topics} | script
        puppet = ConsumerPuppet(self.scheduler, made_of(ConsumerScript, "A puppet", fields))
        puppet.join()
        return puppet

    def share_puppet(self, group: str, topics: Sequence[str], **script: Any) -> SharePuppet:
        """A scripted member of a share group (KIP-932) that joins now; `script` are other fields of `ConsumerScript`.
        It fetches nothing."""
        self._check_topics(topics)
        fields = {"group": group, "topics": topics} | script
        puppet = SharePuppet(self.scheduler, made_of(ConsumerScript, "A puppet", fields))
        puppet.join()
        return puppet

    def streams_puppet(self, group: str, topics: Sequence[str], **script: Any) -> StreamsPuppet:
        """A scripted member of a streams group (KIP-1071) that joins now; `script` are the other fields of
        `StreamsScript`. It processes nothing."""
        self._check_topics(topics)
        fields = {"group": group, "topics": topics} | script
        puppet = StreamsPuppet(self.scheduler, made_of(StreamsScript, "A puppet", fields))
        puppet.join()
        return puppet

    def cast(self, kind: str, script: Mapping[str, Any]) -> Puppet:
        """A scripted member of a kind; see `shim/lab/casting.py`. Raises ValueError and Refused."""
        self._check_topics(script["topics"])
        return cast(self.scheduler, kind, script)

    def client_assignor_puppet(self, group: str, topics: Sequence[str], **script: Any) -> ClientAssignorPuppet:
        """A scripted member that computes assignments itself, joining now; `script` are the other fields of
        `ClientAssignorScript`. The coordinator must serve the experiment `client-assignors`."""
        # Imported here: only a server with the experiment has its modules.
        from kafka_shim.lab.client_assignor_puppets import ClientAssignorPuppet, ClientAssignorScript

        if "client-assignors" not in self.cluster.config.experimental:
            raise ValueError("The coordinator does not serve client-assignors: start it with experimental=[...].")
        self._check_topics(topics)
        fields = {"group": group, "topics": topics} | script
        puppet = ClientAssignorPuppet(self.scheduler, made_of(ClientAssignorScript, "A puppet", fields))
        puppet.join()
        return puppet

    def registered_puppet(self, group: str, topics: Sequence[str], **script: Any) -> RegisteredPuppet:
        """A scripted member that registers with the controller of its group, as before Kafka 0.9; `script` are the
        other fields of `RegisteredScript`. The coordinator must serve the experiment `designs`."""
        from kafka_shim.lab.registered_puppets import RegisteredPuppet, RegisteredScript

        if "designs" not in self.cluster.config.experimental:
            raise ValueError("The coordinator does not serve designs: start it with experimental=[...].")
        self._check_topics(topics)
        fields = {"group": group, "topics": topics, "heartbeat_interval": HEARTBEAT_SECONDS} | script
        puppet = RegisteredPuppet(self.scheduler, made_of(RegisteredScript, "A puppet", fields))
        puppet.join()
        return puppet

    def _check_topics(self, topics: Sequence[str]) -> None:
        """Raises Refused, in one sentence, if one does not exist."""
        arguments.names("topics", topics)
        if missing := [topic for topic in topics if self.cluster.topics.named(topic) is None]:
            there = ", ".join(sorted(topic.name for topic in self.cluster.topics.all())) or "none"
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {missing[0]!r}; topics are: {there}."
            )

    # Faults

    def fault(self, action: str, api: str | None = None, **fields: Any) -> Fault:
        """Put a fault in force: `action`, and fields of `Match` and `Plan`; see `shim/lab/faults.py`."""
        arguments.match_of(fields)
        return self.faults.declare({"action": action} | ({} if api is None else {"api": api}) | fields)

    def barrier(self, point: str, **match: Any) -> Barrier:
        """Put a barrier in force at a named point or at the requests of an API; see `shim/lab/barriers.py`."""
        arguments.match_of(match)
        where = match.pop("at", None)
        found, rest = split_match(match)
        if rest:
            raise TypeError(f"A barrier has no {', '.join(rest)}.")
        if where is not None:
            return self.barriers.add(replace(found, api=point), where)
        return self.barriers.at(point, found)

    async def fired(self, fault: Fault, times: int = 1, timeout: float = TIMEOUT) -> None:
        """Wait until a fault has happened so often. Raises NotReached."""
        if not await self.interception.until(lambda: fault.fired >= times, timeout):
            raise NotReached(
                f"Waited {timeout:g} s for the fault {fault} to happen {times} times; it was {fault.fired}."
                + self._so_far()
            )

    async def reached(self, barrier: Barrier, requests: int = 1, timeout: float = TIMEOUT) -> None:
        """Wait until a barrier holds so many. Raises NotReached."""
        if not await barrier.reached_by(requests, timeout):
            raise NotReached(
                f"Waited {timeout:g} s for the {barrier} to hold {requests}; it holds {len(barrier.held)}."
                + self._so_far()
            )

    def _so_far(self) -> str:
        story = self.story()[-STORY_LINES:] or ["nothing has happened"]
        return "\n  ".join(["\nThe story so far:", *story])

    def verify(self) -> None:
        """Raise UnfiredFaults if there are faults that never happened and are not optional."""
        if unfired := self.faults.unfired():
            raise UnfiredFaults(f"Never happened: {'; '.join(map(str, unfired))}.")

    def disconnect(self, client_id: str) -> int:
        """Close all connections of clients with this id, which may have `*` and `?`; how many these were."""
        found = [session for session in self.cluster.sessions() if fnmatchcase(session.client_id, client_id)]
        for session in found:
            session.transport.close()
        return len(found)

    # Time

    def advance(self, seconds: float) -> None:
        """See `LabWorkbench.advance`. Raises ValueError for a time that cannot pass."""
        arguments.seconds("The time to put the clock forward", seconds)
        super().advance(seconds)

    def next_due(self) -> float:
        """See `LabWorkbench.next_due`; puppets act too."""
        return min(super().next_due(), self.scheduler.next_deadline())

    def do_due(self) -> None:
        """See `LabWorkbench.do_due`."""
        self.scheduler.run(self.clock())
        super().do_due()

    def rearm(self) -> None:
        """See `LabWorkbench.rearm`; puppets sleep too."""
        super().rearm()
        self._wake()

    # What happened

    def write_trace(self, path: Path) -> None:
        """Write what happened as a trace file (`docs/trace.md`)."""
        nodes = [
            {"node": node.id, "host": node.address.host, "port": node.address.port}
            for node in self.cluster.nodes.values()
        ]
        header = {
            "event": "trace",
            "schema": SCHEMA_VERSION,
            "run": "test",
            "file": 1,
            "release": self.cluster.config.release,
            "nodes": nodes,
        }
        offset = self.cluster.wall_offset
        events: Iterable[tuple[int, float, dict[str, Any]]] = self.history.since(0)
        with path.open("wb") as file:
            began = self.clock()
            for number, now, event in [(0, began, header), *events]:
                stamped = event | {"seq": number + 1, "mono": now, "wall": now + offset}
                file.write(orjson.dumps(stamped, option=orjson.OPT_APPEND_NEWLINE))

    # Running

    async def serve_control(self, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> str:
        """Serve the HTTP control API too; its URL."""
        # Imported here because it takes long, and most tests do without.
        from kafka_shim.control.server import serve_control

        url: str = await self.nursery.start(partial(serve_control, self.server, host, port, token, True, self))
        return url

    async def play(self) -> None:
        """Let puppets act when it is time, until cancelled."""
        while True:
            with trio.CancelScope() as self._sleep:
                wait = self.scheduler.next_deadline() - self.clock()
                await trio.sleep(max(wait, 0.0) if wait < 3600 else inf)
            if not self.clock.is_frozen or self.scheduler.next_deadline() <= self.clock():
                now = self.clock()
                self.scheduler.run(now)
                self.cluster.settle(now)

    def _wake(self) -> None:
        self._sleep.cancel()


def made_of(kind: type[Made], what: str, fields: Mapping[str, Any]) -> Made:
    """A dataclass of these fields. Raises TypeError, in one sentence, for one it does not have."""
    if unknown := sorted(set(fields) - set(kind.__dataclass_fields__)):
        raise TypeError(f"{what} has no {', '.join(unknown)}; it has {', '.join(kind.__dataclass_fields__)}.")
    return kind(**fields)


def server_config(
    topics: Mapping[str, int] | None,
    config: Mapping[str, str] | None,
    brokers: int,
    release: str | None = None,
    experimental: Sequence[str] = (),
) -> ServerConfig:
    """The configuration of a server for tests. Raises ValueError, in one sentence, for one that cannot be."""
    settings = FOR_TESTS | arguments.settings_of(config)
    experiments = arguments.experiments_of(experimental)
    cluster = ClusterConfig(settings=settings, topics=arguments.topics_of(topics), experimental=experiments)
    arguments.whole("brokers", brokers, 1)
    if (chosen := arguments.release_of(release)) is not None:
        cluster = replace(cluster, release=chosen)
    return ServerConfig(brokers=brokers, cluster=cluster)


@asynccontextmanager
async def open_kit(config: ServerConfig, store: Store | None = None) -> AsyncIterator[Kit]:
    """Start a coordinator in the nursery of an `async with` block, and stop it at the end."""
    clock = TestClock()
    breakable = BreakableStore(store)

    ended = trio.Event()
    config = replace(config, cluster=replace(config.cluster, clock=clock, clock_ahead=clock.ahead))

    async def run(task_status: trio.TaskStatus[Server]) -> None:
        try:
            await serve(config, breakable, task_status=task_status)
        finally:
            ended.set()

    async with trio.open_nursery() as nursery:
        server: Server = await nursery.start(run)
        kit = Kit(server, clock, breakable, nursery)
        nursery.start_soon(kit.play)
        try:
            yield kit
        finally:
            server.stop()
            with trio.CancelScope(shield=True):
                await ended.wait()
            nursery.cancel_scope.cancel()


def open_coordinator(
    *,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, str] | None = None,
    brokers: int = 1,
    release: str | None = None,
    store: Store | None = None,
    experimental: Sequence[str] = (),
) -> AbstractAsyncContextManager[Kit]:
    """A coordinator for tests that run on trio; the arguments are those of `CoordinatorServer`.

    async with open_coordinator(topics={"orders": 4}) as kit:
        kit.puppet("billing", ["orders"])
        await kit.group("billing").stable(members=1)
    """
    return open_kit(server_config(topics, config, brokers, release, experimental), store)
