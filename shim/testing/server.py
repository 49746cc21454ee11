"""A coordinator in a thread of the test's process.

Decides how a coordinator that runs on trio is used by code that does not: every call is made in the coordinator's own
thread and waits until it is done. What can be done is in `kit.py`; this is the same, for tests of any kind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

import trio

from kafka_shim.lab import arguments
from kafka_shim.persistence.store import Store
from kafka_shim.server.server import Server, ServerConfig, the_only
from kafka_shim.testing.handles import BarrierHandle, Clock, FaultHandle, Group, PuppetHandle
from kafka_shim.testing.kit import Kit, open_kit
from kafka_shim.testing.kit import server_config as config_for_tests

T = TypeVar("T")

_START_SECONDS: Final = 30.0


class CoordinatorServer:
    """A server on free ports of the loopback address, for as long as a `with` block lasts.

        with CoordinatorServer(topics={"orders": 4}) as server:
            consumer = KafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing")

    `topics` are made at start, by name with their numbers of partitions; `config` are Kafka's configuration names with
    text values, on top of those of `FOR_TESTS`; `brokers` is the number of nodes; `release` the Kafka release to pose
    as; `faults` are put in force at start, each as the keywords of `fault`. `store` is open and stays open; by default
    records live as long as the server. With `control` the HTTP control API is served too, at `control_url`. Raises
    ValueError, in one sentence, for a configuration that cannot be.

    Leaving the block without an exception raises UnfiredFaults if a fault never happened that is not optional.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        brokers: int = 1,
        release: str | None = None,
        faults: Sequence[Mapping[str, Any]] = (),
        store: Store | None = None,
        control: bool = False,
        server_config: ServerConfig | None = None,
    ) -> None:
        self._store = store
        self._config = server_config or config_for_tests(topics, config, brokers, release)
        self._faults = arguments.faults_of(faults)
        self._with_control = control
        self._control_url = ""
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._kit: Kit | None = None
        self._stop = trio.Event()
        self._failure: BaseException | None = None
        self._started = threading.Event()
        self.clock = Clock(self)

    def __enter__(self) -> CoordinatorServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.verify()
        finally:
            self.stop()

    def start(self) -> None:
        """Start, and return when clients can connect."""
        if self._thread is not None or self._started.is_set():
            raise RuntimeError("The server has been started already.")
        self._thread = threading.Thread(target=self._run, name="kafka-shim", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise TimeoutError(f"The server has not started within {_START_SECONDS:.0f} s.")
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        try:
            for fault in self._faults:
                self.fault(**fault)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop, and return when everything is closed. Calling it again does nothing."""
        if self._thread is not None and self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._stop.set)
            self._thread.join()
            self._thread = None
            if self._failure is not None:
                raise self._failure

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap servers: `127.0.0.1:PORT`, one for each broker."""
        return self.kit.bootstrap

    @property
    def control_url(self) -> str:
        """Where the control API is, `http://127.0.0.1:PORT`; empty without `control`."""
        return self._control_url

    @property
    def server(self) -> Server:
        """The running server, for use in its own thread alone; see `call`."""
        return self.kit.server

    @property
    def kit(self) -> Kit:
        """The kit, for use in the server's own thread alone; see `call`."""
        if self._kit is None:
            raise self._gone()
        return self._kit

    # Groups and members

    def group(self, name: str) -> Group:
        """Waits for what becomes of a group."""
        return Group(self, self.call(self.kit.group, name))

    def puppet(self, group: str, topics: Sequence[str], **script: Any) -> PuppetHandle:
        """A scripted member that joins now; `script` are the other fields of `Script`, `manner` among them."""
        return PuppetHandle(self, self.call(partial(self.kit.puppet, group, topics, **script)))

    def rewind(self, group: str, offsets: Mapping[tuple[str, int], int]) -> int:
        """Let a group that is alive begin anew from these offsets, by topic and partition; see `shim/lab/rewind.py`.

        Returns how many members had to begin anew, as soon as the offsets count. Raises CannotRewind.
        """
        rewind = self.call(self.kit.rewind, group, arguments.offsets_of(offsets))
        self.wait(rewind.durable)
        return rewind.removed

    # Faults and barriers

    def fault(self, action: str, api: str | None = None, **fields: Any) -> FaultHandle:
        """Put a fault in force: an action, an API's name, and fields of `Match` and `Plan` (`shim/lab/faults.py`).

        server.fault("error", "OffsetCommit", error="REBALANCE_IN_PROGRESS", group="billing", times=2)
        """
        return FaultHandle(self, self.call(partial(self.kit.fault, action, api, **fields)))

    def barrier(self, point: str, **match: Any) -> BarrierHandle:
        """Hold requests at a named point, or those of an API; `match` are fields of `Match`, and `at`="answer".

        with server.barrier("leader-sync-arrived", group="billing") as barrier:
            barrier.reached()
        """
        return BarrierHandle(self, self.call(partial(self.kit.barrier, point, **match)))

    def clear_faults(self) -> None:
        """Let no fault happen any more, and let go what barriers hold."""
        self.call(self.kit.faults.clear)
        self.call(self.kit.barriers.clear)

    def verify(self) -> None:
        """Raise UnfiredFaults if there are faults that never happened and are not optional."""
        self.call(self.kit.verify)

    # Brokers and store

    def disconnect(self, client_id: str) -> int:
        """Close all connections of clients with this id, which may have `*` and `?`; how many these were."""
        return self.call(self.kit.disconnect, client_id)

    def coordinator_of(self, group: str) -> int:
        """The id of the broker that coordinates a group."""
        return self.call(self.kit.coordinator_of, group)

    def move(self, group: str, broker: int) -> None:
        """Let another broker coordinate a group, with all of its partition of `__consumer_offsets`."""
        self.call(self.kit.move, group, broker)

    def stop_broker(self, broker: int) -> None:
        """Shut a broker down in good order."""
        self.call(self.kit.cluster.stop_broker, broker)

    def kill_broker(self, broker: int) -> None:
        """Let a broker be gone from one moment to the next."""
        self.call(self.kit.cluster.kill_broker, broker)

    def restart_broker(self, broker: int) -> None:
        """Start a broker that was stopped or killed, on the address it had."""
        self.call(self.kit.cluster.restart_broker, broker)

    def load_takes(self, seconds: float) -> None:
        """How much longer than it must every load of partitions takes from now on."""
        arguments.seconds("The time that a load takes", seconds)
        self.call(self.kit.load_takes, seconds)

    def fail_store(self, times: int | None = 1) -> None:
        """Let the next writes to the store fail, all for `times` None."""
        if times is not None:
            arguments.whole("The number of writes that fail", times, 1)
        self.call(self.kit.breakable.fail, times)

    def repair_store(self) -> None:
        """Let the store write again."""
        self.call(self.kit.breakable.repair)

    def make_topic(self, name: str, partitions: int = 1) -> None:
        """Make a topic."""
        arguments.topics_of({name: partitions})
        self.call(self.kit.cluster.topics.declare, name, partitions)

    # What happened

    def story(self, group: str | None = None) -> list[str]:
        """What happened to a group, or to all of them, in lines a person reads."""
        return self.call(self.kit.story, group)

    def events(self, group: str | None = None) -> list[dict[str, Any]]:
        """The trace events of a group, or all (`docs/trace.md`)."""
        return self.call(lambda: [event for _, _, event in self.kit.history.since(0, group)])

    def write_trace(self, path: Path | str) -> None:
        """Write what happened as a trace file."""
        self.call(self.kit.write_trace, Path(path))

    # The thread

    def call(self, function: Callable[..., T], *given: object) -> T:
        """Run a function in the server's own thread, between its other work, and return what it returns."""
        try:
            return trio.from_thread.run_sync(partial(self._settled, function, *given), trio_token=self._token)
        except trio.RunFinishedError:
            raise self._gone() from self._failure

    def wait(self, function: Callable[..., Any], *given: object) -> Any:
        """Run an async function in the server's own thread, and return what it returns."""
        try:
            return trio.from_thread.run(function, *given, trio_token=self._token)
        except trio.RunFinishedError:
            raise self._gone() from self._failure

    def _settled(self, function: Callable[..., T], *given: object) -> T:
        result = function(*given)
        cluster = self.kit.cluster
        cluster.settle(cluster.clock())
        return result

    def _gone(self) -> RuntimeError:
        if self._kit is None:
            return RuntimeError("The server has not been started.")
        ended = "" if self._failure is None else f": it ended with {type(self._failure).__name__}: {self._failure}"
        return RuntimeError(f"The server is not running any more{ended or '.'}")

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self._failure = the_only(error)
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with open_kit(self._config, self._store) as self._kit:
            if self._with_control:
                self._control_url = await self._kit.serve_control()
            self._started.set()
            await self._stop.wait()
