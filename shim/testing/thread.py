"""`CoordinatorThread`: a coordinator on trio in a thread of the test's process.

Other threads call functions in the coordinator's own thread and wait for the result. `kit.py` has these functions.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, Final, TypeVar

import trio

from kafka_shim.persistence.store import Store
from kafka_shim.server.server import ServerConfig, the_only
from kafka_shim.testing import endings
from kafka_shim.testing.kit import Kit, open_kit
from kafka_shim.testing.waits import Waits

T = TypeVar("T")

_START_SECONDS: Final = 30.0


class CoordinatorThread:
    """A coordinator, not started yet. With `control` the HTTP control API is served too, at `control_url`."""

    def __init__(self, config: ServerConfig, store: Store | str | None, control: bool) -> None:
        self._store = store
        self._config = config
        self._with_control = control
        self._control_url = ""
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._kit: Kit | None = None
        self._stop = trio.Event()
        self._failure: BaseException | None = None
        self._started = threading.Event()
        self.waits = Waits()
        """Waits that a test must await."""

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

    def stop(self) -> None:
        """Stop, and return when everything is closed. A second call does nothing."""
        if self._thread is not None and self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._stop.set)
            self._thread.join()
            self._thread = None
            if self._failure is not None:
                raise self._failure

    @property
    def control_url(self) -> str:
        """URL of the control API, `http://127.0.0.1:PORT`; empty without `control`."""
        return self._control_url

    @property
    def kit(self) -> Kit:
        """The kit. Use it only in the server's own thread; see `call`."""
        if self._kit is None:
            raise self._not_running()
        return self._kit

    def call(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a function in the server's own thread, between its other work, and return its result."""
        settled = partial(self._settled, function, *arguments)
        try:
            if trio.lowlevel.in_trio_run() and self._token is not None:
                # Trio's own function refuses to block another trio, but for a moment that does no harm.
                return self._called(settled, self._token)
            return trio.from_thread.run_sync(settled, trio_token=self._token)
        except trio.RunFinishedError:
            raise self._not_running() from self._failure

    def _called(self, function: Callable[[], T], token: trio.lowlevel.TrioToken) -> T:
        if threading.current_thread() is self._thread:
            raise RuntimeError("In the server's own thread, call the functions of the kit, not those of the server.")
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

        token.run_sync_soon(run)
        return future.result()

    def call_giving_way(
        self, at_once: Callable[..., T], giving_way: Callable[..., Awaitable[T]], *arguments: object
    ) -> T:
        """Run a function that may take long in the server's own thread: `giving_way`, which an exception in the
        caller's thread ends; `at_once` where an event loop runs in the caller's thread. It ends with the errors of
        `endings.py` too."""
        if _is_on_a_loop():
            return self.call(at_once, *arguments)
        future = self.submit(giving_way, *arguments)
        try:
            return future.result()
        except CancelledError:
            raise self._not_running() from self._failure
        except BaseException:
            future.cancel()
            raise

    def wait(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Run an async function in the server's own thread, and return its result.

        Raises RuntimeError if an event loop runs in the caller's thread: the wait would block it. Raises the errors of
        `endings.py`.
        """
        _refuse_on_a_loop()
        try:
            return trio.from_thread.run(self._until_ended, partial(function, *arguments), trio_token=self._token)
        except trio.RunFinishedError:
            raise self._not_running() from self._failure

    def submit(self, function: Callable[..., Awaitable[T]], *arguments: object) -> Future[T]:
        """Start an async function in the server's own thread; cancelling the future cancels it. It ends with the errors
        of `endings.py` too.
        """
        future: Future[T] = Future()
        scope = trio.CancelScope()
        token = self._token
        if token is None:
            raise self._not_running()

        async def run() -> None:
            with scope:
                try:
                    result = await self._until_ended(partial(function, *arguments))
                except trio.Cancelled:
                    # The server ends: without this the caller would wait for ever.
                    future.cancel()
                    raise
                except Exception as error:
                    if not future.cancelled():
                        future.set_exception(error)
                    return
                if not future.cancelled():
                    future.set_result(result)

        def cancel(done: Future[T]) -> None:
            if done.cancelled():
                with suppress(trio.RunFinishedError):
                    token.run_sync_soon(scope.cancel)

        future.add_done_callback(cancel)
        try:
            token.run_sync_soon(lambda: self.kit.nursery.start_soon(run))
        except trio.RunFinishedError:
            raise self._not_running() from self._failure
        return future

    async def _until_ended(self, function: Callable[[], Awaitable[T]]) -> T:
        token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as scope, endings.watching(lambda: token.run_sync_soon(scope.cancel)):
            return await function()
        error = endings.first()
        assert error is not None
        raise error

    def _settled(self, function: Callable[..., T], *arguments: object) -> T:
        result = function(*arguments)
        cluster = self.kit.cluster
        cluster.settle(cluster.clock())
        return result

    def _not_running(self) -> RuntimeError:
        if self._kit is None:
            return RuntimeError("The server has not been started.")
        ended = "" if self._failure is None else f": it ended with {type(self._failure).__name__}: {self._failure}"
        return RuntimeError(f"The server is no longer running{ended or '.'}")

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


def _is_on_a_loop() -> bool:
    asyncio = sys.modules.get("asyncio")  # in a process that has not imported it, no loop of it runs
    return trio.lowlevel.in_trio_run() or (asyncio is not None and _runs_in(asyncio))


def _refuse_on_a_loop() -> None:
    if not _is_on_a_loop():
        return
    raise RuntimeError(
        "A wait would block the event loop that runs here, and the clients it waits for: use AsyncCoordinator, with"
        " waits to await."
    )


def _runs_in(asyncio: ModuleType) -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
