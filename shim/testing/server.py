"""A coordinator in a thread of the test's process.

Decides how a server that runs on trio is used by code that does not: starting waits until it answers, leaving waits
until it is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, TypeVar

import trio

from persistence.store import Store
from shim.server.cluster import ClusterConfig
from shim.server.server import Server, ServerConfig, serve, the_only

T = TypeVar("T")

_START_SECONDS: Final = 30.0


class CoordinatorServer:
    """A server on free ports of the loopback address, for as long as a `with` block lasts.

        with CoordinatorServer(topics={"orders": 4}) as server:
            consumer = KafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id="billing")

    `topics` are made at start, by name with their numbers of partitions; `config` are Kafka's configuration names with
    text values; `brokers` is the number of nodes. `store` is open and stays open; by default records live as long as
    the server. Raises ValueError, in one sentence, for a configuration that cannot be.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        brokers: int = 1,
        store: Store | None = None,
        server_config: ServerConfig | None = None,
    ) -> None:
        self._store = store
        self._config = server_config or ServerConfig(
            brokers=brokers, cluster=ClusterConfig(settings=config or {}, topics=topics or {})
        )
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._server: Server | None = None
        self._failure: BaseException | None = None
        self._started = threading.Event()

    def __enter__(self) -> CoordinatorServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start, and return when clients can connect."""
        self._thread = threading.Thread(target=self._run, name="kafka-shim", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise TimeoutError(f"The server has not started within {_START_SECONDS:.0f} s.")
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def stop(self) -> None:
        """Stop, and return when everything is closed. Calling it again does nothing."""
        if self._thread is not None and self._server is not None and self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._server.stop)
            self._thread.join()
            self._thread = None
            if self._failure is not None:
                raise self._failure

    @property
    def bootstrap(self) -> str:
        """What clients are given as bootstrap servers: `127.0.0.1:PORT`, one for each broker."""
        return self.server.bootstrap

    @property
    def server(self) -> Server:
        """The running server, for use in its own thread alone; see `call`."""
        if self._server is None:
            raise RuntimeError("The server is not running.")
        return self._server

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function in the server's own thread, between its other work, and return what it returns."""
        return trio.from_thread.run_sync(function, *arguments, trio_token=self._token)

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:
            self._failure = the_only(error)
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._server = await nursery.start(serve, self._config, self._store)
            self._started.set()
