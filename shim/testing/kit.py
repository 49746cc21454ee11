"""`Kit`: a coordinator in the caller's own trio nursery, with all actions and waits of a test.

It connects coordinator, clock, puppets and faults. Advancing the clock goes from one due action to the next, so that
none is skipped. `server.py` offers the same to tests that do not run on trio.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson
import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.lab import arguments
from kafka_shim.lab.barriers import Barrier
from kafka_shim.lab.clock import TestClock
from kafka_shim.lab.failing_store import BreakableStore
from kafka_shim.lab.faults import Fault
from kafka_shim.lab.group_waits import STORY_LINES, TIMEOUT, GroupWaits, NotReached
from kafka_shim.lab.interception import MATCH_FIELDS, similar, split_match
from kafka_shim.lab.scheduler import Scheduler
from kafka_shim.persistence.files import private
from kafka_shim.persistence.store import SharedStore, Store
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.history import EventHistory
from kafka_shim.server.refusals import Refused
from kafka_shim.server.server import Server, ServerConfig, serve
from kafka_shim.testing.waits import Waits, awaited

if TYPE_CHECKING:
    from kafka_shim.experiments.client_assignors.puppets import ClientAssignorPuppet
    from kafka_shim.experiments.registered.puppets import RegisteredPuppet, RegisteredScript
    from kafka_shim.lab.consumer_puppets import ConsumerManner, ConsumerPuppet, ConsumerScript
    from kafka_shim.lab.puppets import Manner, Puppet, Script
    from kafka_shim.lab.share_puppets import SharePuppet
    from kafka_shim.lab.streams_puppets import StreamsPuppet, StreamsScript

FOR_TESTS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "50",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "50",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "50",
    "group.streams.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}
"""Settings that differ from Kafka's defaults unless a test sets them: no delay without a purpose. A member of a newer
group learns of each change by its next heartbeat, and the coordinator chooses the time between two of them.
"""

HEARTBEAT_SECONDS: Final = 0.1

Built = TypeVar("Built", bound="Script | Manner | ConsumerScript | ConsumerManner | StreamsScript | RegisteredScript")


class UnfiredFaults(AssertionError):
    """Faults were declared and never happened, so the test has not tested them."""


class AwaitedGroup(GroupWaits):
    """The waits of `GroupWaits`; `waits` has those that no task has begun yet."""

    waits: Waits

    stable = awaited(GroupWaits.stable)
    consuming = awaited(GroupWaits.consuming)
    owns = awaited(GroupWaits.owns)
    empty = awaited(GroupWaits.empty)
    next = awaited(GroupWaits.next)
    committed = awaited(GroupWaits.committed)
    caught_up = awaited(GroupWaits.caught_up)
    no_rebalance_for = awaited(GroupWaits.no_rebalance_for)
    no_commit_for = awaited(GroupWaits.no_commit_for)
    wait_for = awaited(GroupWaits.wait_for)


class Kit(LabWorkbench):
    """A running coordinator. Use everything here only in its own thread.

    `faults` and `barriers` are those in force, `history` has the events, `store` can be made to fail, `clock` is the
    coordinator's time, `waits` has those that no task has begun yet.
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
        clock.mover, clock.woken = self.advance, self.rearm
        self.waits = Waits()
        self.scheduler = Scheduler(self.cluster, failures=self.cluster.failures)
        self.scheduler.woken = self._wake
        self._sleep = trio.CancelScope()

    @property
    def breakable(self) -> BreakableStore:
        """The store. Raises ValueError for one that processes share."""
        if self.store is None:
            raise ValueError("Only a store of this process alone can be made to fail: memory: or sqlite:PATH.")
        return self.store

    def waits_for(self, name: str) -> AwaitedGroup:
        """Make the waits for a group, which must be awaited."""
        group = AwaitedGroup(self.cluster, self.history, self.conditions, name)
        group.waits = self.waits
        return group

    # Members

    def puppet(self, group: str, topics: Sequence[str], **script: Any) -> Puppet:
        """Start a scripted member that joins now; `script` are the other fields of `Script`.

        Its heartbeats are more frequent than a real client's, so that it learns of a rebalance soon.
        """
        # Each kind is imported at its first use: a test has few kinds.
        from kafka_shim.lab.puppets import Manner, Puppet, Script

        script = {"heartbeat_interval": HEARTBEAT_SECONDS} | script
        if isinstance(script.get("manner"), Mapping):
            script["manner"] = build(Manner, "A manner", script["manner"])
        self._check_topics(topics)
        puppet = Puppet(self.scheduler, build(Script, "A puppet", {"group": group, "topics": topics} | script))
        puppet.join()
        return puppet

    def consumer_puppet(self, group: str, topics: Sequence[str], **script: Any) -> ConsumerPuppet:
        """Start a scripted member of the consumer protocol (KIP-848) that joins now; `script` are the other fields of
        `ConsumerScript`. The coordinator sets its heartbeat interval.
        """
        from kafka_shim.lab.consumer_puppets import ConsumerManner, ConsumerPuppet, ConsumerScript

        if isinstance(script.get("manner"), Mapping):
            script["manner"] = build(ConsumerManner, "A manner", script["manner"])
        self._check_topics(topics)
        fields = {"group": group, "topics": topics} | script
        puppet = ConsumerPuppet(self.scheduler, build(ConsumerScript, "A puppet", fields))
        puppet.join()
        return puppet

    def share_puppet(self, group: str, topics: Sequence[str], **script: Any) -> SharePuppet:
        """Start a scripted member of a share group (KIP-932) that joins now; `script` are other fields of
        `ConsumerScript`. It fetches nothing.
        """
        from kafka_shim.lab.share_puppets import ConsumerScript, SharePuppet

        self._check_topics(topics)
        fields = {"group": group, "topics": topics} | script
        puppet = SharePuppet(self.scheduler, build(ConsumerScript, "A puppet", fields))
        puppet.join()
        return puppet

    def streams_puppet(self, group: str, topics: Sequence[str], **script: Any) -> StreamsPuppet:
        """Start a scripted member of a streams group (KIP-1071) that joins now; `script` are the other fields of
        `StreamsScript`. It processes nothing.
        """
        from kafka_shim.lab.streams_puppets import StreamsPuppet, StreamsScript

        self._check_topics(topics)
        fields = {"group": group, "topics": topics} | script
        puppet = StreamsPuppet(self.scheduler, build(StreamsScript, "A puppet", fields))
        puppet.join()
        return puppet

    def start_puppet(self, kind: str, script: Mapping[str, Any]) -> Puppet:
        """Start a scripted member of a kind; see `shim/lab/puppet_kinds.py`. Raises ValueError and Refused."""
        from kafka_shim.lab.puppet_kinds import start_puppet

        self._check_topics(script["topics"])
        return start_puppet(self.scheduler, kind, script)

    def client_assignor_puppet(self, group: str, topics: Sequence[str], **script: Any) -> ClientAssignorPuppet:
        """Start a scripted member that computes assignments itself; `script` are the other fields of
        `ClientAssignorScript`. The coordinator must serve the experiment `client-assignors`.
        """
        puppet: ClientAssignorPuppet = self._puppet_of("client-assignors", {"group": group, "topics": topics} | script)
        return puppet

    def registered_puppet(self, group: str, topics: Sequence[str], **script: Any) -> RegisteredPuppet:
        """Start a scripted member that registers with the controller of its group, as before Kafka 0.9; `script` are
        the other fields of `RegisteredScript`. The coordinator must serve the experiment `designs`.
        """
        fields = {"group": group, "topics": topics, "heartbeat_interval": HEARTBEAT_SECONDS} | script
        puppet: RegisteredPuppet = self._puppet_of("registered", fields)
        return puppet

    def _puppet_of(self, kind: str, fields: dict[str, Any]) -> Any:
        from kafka_shim.lab.puppet_kinds import class_of

        puppet_class = class_of(self.scheduler, kind)
        self._check_topics(fields["topics"])
        puppet = puppet_class(self.scheduler, build(puppet_class.script_class, "A puppet", fields))
        puppet.join()
        return puppet

    def _check_topics(self, topics: Sequence[str]) -> None:
        """Raise Refused, in one sentence, if a topic does not exist."""
        arguments.names("topics", topics)
        if missing := [topic for topic in topics if self.cluster.topics.named(topic) is None]:
            there = ", ".join(sorted(topic.name for topic in self.cluster.topics.all())) or "none"
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {missing[0]!r}; topics are: {there}."
            )

    # Faults

    def fault(self, action: str, api: str | None = None, **fields: Any) -> Fault:
        """Declare a fault: `action`, and fields of `Match` and `Plan`; see `shim/lab/faults.py`."""
        arguments.match_of(fields)
        return self.faults.declare({"action": action} | ({} if api is None else {"api": api}) | fields)

    def barrier(self, point: str, **match: Any) -> Barrier:
        """Set up a barrier at a named point or at the requests of an API; see `shim/lab/barriers.py`."""
        arguments.match_of(match)
        where = match.pop("at", None)
        selected, rest = split_match(match)
        if rest:
            names = [*MATCH_FIELDS, "at"]
            raise TypeError(f"A barrier has no {', '.join(rest)}; {similar(min(rest), names)}")
        if where is not None:
            return self.barriers.add(replace(selected, api=point), where)
        return self.barriers.at(point, selected)

    @awaited
    async def fired(self, fault: Fault, times: int = 1, timeout: float = TIMEOUT) -> None:
        """Wait until a fault has happened `times` times. Raises NotReached."""
        if not await self.interception.until(lambda: fault.fired >= times, timeout):
            raise NotReached(
                f"Waited {timeout:g} s for the fault {fault} to happen {times} times; it was {fault.fired}."
                + self._so_far()
            )

    @awaited
    async def reached(self, barrier: Barrier, requests: int = 1, timeout: float = TIMEOUT) -> None:
        """Wait until a barrier holds `requests` requests. Raises NotReached."""
        if not await barrier.reached_by(requests, timeout):
            raise NotReached(
                f"Waited {timeout:g} s for the {barrier} to hold {requests}; it holds {len(barrier.held)}."
                + self._so_far()
            )

    def _so_far(self) -> str:
        story = self.story()[-STORY_LINES:] or ["nothing has happened"]
        return "\n  ".join(["\nThe story so far:", *story])

    def verify(self) -> None:
        """Raise UnfiredFaults if a fault that is not optional never happened."""
        if unfired := self.faults.unfired():
            remedy = "Send the request that it waits for; declare one that need not happen with optional=True."
            raise UnfiredFaults(f"Never happened: {'; '.join(map(str, unfired))}. {remedy}")

    @awaited
    async def until(self, condition: Callable[[], bool], goal: str, timeout: float = TIMEOUT) -> None:
        """Wait until a condition on this coordinator is true; `goal` says which. Raises NotReached."""
        if not await self.conditions.until(condition, timeout):
            raise NotReached(f"Waited {timeout:g} s in vain for {goal}.{self._so_far()}")

    # Time

    def advance(self, seconds: float) -> None:
        """See `LabWorkbench.advance`. Raises ValueError for an impossible duration."""
        arguments.seconds("The time to put the clock forward", seconds)
        super().advance(seconds)

    async def advance_giving_way(self, seconds: float) -> None:
        """See `LabWorkbench.advance_giving_way`. Raises ValueError for an impossible duration."""
        arguments.seconds("The time to put the clock forward", seconds)
        await super().advance_giving_way(seconds)

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

    # Trace

    def write_trace(self, path: Path) -> None:
        """Write the events so far as a trace file (`docs/trace.md`)."""
        header = self.trace_header()
        offset = self.cluster.wall_offset
        events: Iterable[tuple[int, float, dict[str, Any]]] = self.history.since(0)
        with open(path, "wb", opener=private) as file:
            began = self.clock()
            for number, now, event in [(0, began, header), *events]:
                stamped = event | {"seq": number + 1, "mono": now, "wall": now + offset}
                file.write(orjson.dumps(stamped, option=orjson.OPT_APPEND_NEWLINE))

    # Tasks

    async def serve_control(self, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> str:
        """Serve the HTTP control API too; return its URL."""
        # Imported here because the import is slow, and most tests do not need it.
        try:
            from kafka_shim.control.server import serve_control
        except ModuleNotFoundError as error:
            raise ImportError(f"The HTTP API needs {error.name}: pip install 'kafka-group-shim[cli]'") from error

        url: str = await self.nursery.start(partial(serve_control, self.server, host, port, token, True, self))
        return url

    async def play(self) -> None:
        """Let puppets act when they are due, until cancelled."""
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


def build(kind: type[Built], label: str, fields: Mapping[str, Any]) -> Built:
    """Build a dataclass from these fields. Raises TypeError, in one sentence, for an unknown field."""
    if unknown := sorted(set(fields) - set(kind.__dataclass_fields__)):
        raise TypeError(f"{label} has no {', '.join(unknown)}; {similar(unknown[0], kind.__dataclass_fields__)}")
    return kind(**fields)


def server_config(
    topics: Mapping[str, int] | None,
    config: Mapping[str, str] | None,
    brokers: int,
    release: str | None = None,
    experimental: Sequence[str] = (),
) -> ServerConfig:
    """Build the configuration of a server for tests. Raises ValueError, in one sentence, for an impossible one."""
    settings = FOR_TESTS | arguments.settings_of(config)
    experiments = arguments.experiments_of(experimental)
    cluster = ClusterConfig(settings=settings, topics=arguments.topics_of(topics), experimental=experiments)
    arguments.whole("brokers", brokers, 1)
    if (chosen := arguments.release_of(release)) is not None:
        cluster = replace(cluster, release=chosen)
    return ServerConfig(brokers=brokers, cluster=cluster)


@asynccontextmanager
async def open_kit(config: ServerConfig, store: Store | str | None = None) -> AsyncIterator[Kit]:
    """Start a coordinator in the nursery of an `async with` block, and stop it at the end.

    Raises ForgottenWaits at the end if a wait was never awaited, and ValueError for a store that cannot be opened.
    """
    if not trio.lowlevel.in_trio_run():
        raise RuntimeError("This coordinator runs on trio: with another event loop, use AsyncCoordinator.")
    if isinstance(store, str):
        with _store_at(store, config.cluster) as of_url:
            async with open_kit(config, of_url) as kit:
                yield kit
        return
    clock = TestClock()
    # Processes share some stores: the server must know, so nothing stands before them.
    breakable = None if isinstance(store, SharedStore) else BreakableStore(store)
    ended = trio.Event()
    config = replace(config, cluster=replace(config.cluster, clock=clock, clock_ahead=clock.ahead))

    async def run(task_status: trio.TaskStatus[Server]) -> None:
        try:
            await serve(config, breakable or store, task_status=task_status)
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
    kit.waits.check()


@contextmanager
def _store_at(url: str, config: ClusterConfig) -> Iterator[Store]:
    # Imported here: most tests keep their records in memory.
    from kafka_shim.groups.config import NAMES, GroupConfig
    from kafka_shim.persistence.store import StoreError
    from kafka_shim.persistence.stores import open_store

    settings = [f"{name}={value}" for name, value in config.settings.items() if name in NAMES]
    try:
        store = open_store(url, GroupConfig().with_settings(settings).offsets_topic_num_partitions)
    except StoreError as error:
        raise ValueError(str(error)) from None
    with closing(store):
        yield store


def open_coordinator(
    *,
    topics: Mapping[str, int] | None = None,
    config: Mapping[str, str] | None = None,
    brokers: int = 1,
    release: str | None = None,
    store: Store | str | None = None,
    experimental: Sequence[str] = (),
) -> AbstractAsyncContextManager[Kit]:
    """Start a coordinator for tests that run on trio; the arguments are those of `CoordinatorServer`.

    async with open_coordinator(topics={"orders": 4}) as kit:
        kit.puppet("billing", ["orders"])
        await kit.group("billing").stable(members=1)
    """
    return open_kit(server_config(topics, config, brokers, release, experimental), store)
