"""The control server: the app on hypercorn's trio connections, in the coordinator's own nursery.

Decides how it is started and stopped, how many may be connected, and that nothing which goes wrong for one connection
ends anything else. Stopping does not wait for clients that linger, not even for one that does not read its answer.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

from kafka_shim.control.addresses import is_loopback
from kafka_shim.control.app import make_app
from kafka_shim.control.workbench import Workbench
from kafka_shim.server.reactor import BetweenSteps, Reactor
from kafka_shim.server.server import Server

log: Final = logging.getLogger("kafka_shim.control")

LINGER_SECONDS: Final = 0.2
MAX_CONNECTIONS: Final = 512
"""Who comes when there are so many is turned away: clients of the coordinator need descriptors too."""
MAX_HEAD: Final = 128 * 1024
"""Bytes of a request before its body: the longest group id has 98,292, percent-encoded."""
UNREAD_SECONDS: Final = 30
"""How long a client may leave what it is sent unread before its connection ends."""


async def serve_control(
    server: Server,
    host: str,
    port: int,
    token: str | None = None,
    lab: bool = False,
    workbench: Workbench | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `server`'s cluster over HTTP until it stops; `task_status` gets the URL.

    Who asks must say `token`, which there must be where other machines can ask; `lab` allows what is for tests.
    `workbench` is one that is there already. Raises OSError, and ValueError for a token that is missing.
    """
    if not token and not is_loopback(host):
        raise ValueError(f"A control server on {host or 'all addresses'}, which others can reach, needs a token.")
    listeners = await trio.open_tcp_listeners(port, host=host)
    for listener in listeners:
        _end_what_is_unread(listener.socket)
    with _coordinator_first(server):
        async with trio.open_nursery() as nursery:
            workbench = workbench or Workbench(server, nursery)
            workbench.served_on = (host, token or None)
            connections = Connections(workbench, lab, token or None)
            await _rehearse(workbench, lab)
            accepting = trio.CancelScope()
            nursery.start_soon(_accept, accepting, connections, listeners, nursery)
            task_status.started(_url(listeners[0]))
            try:
                await server.stopped()
                accepting.cancel()
                await connections.end()
            finally:
                connections.close()
                nursery.cancel_scope.cancel()


async def _accept(
    scope: trio.CancelScope, connections: Connections, listeners: list[trio.SocketListener], nursery: trio.Nursery
) -> None:
    with scope:
        await trio.serve_listeners(connections.serve, listeners, handler_nursery=nursery)


async def _rehearse(workbench: Workbench, lab: bool) -> None:
    """Answer once to nobody: what is imported and built at the first request holds up no client of the coordinator."""

    async def receive() -> Any:
        await trio.sleep_forever()

    async def send(message: Any) -> None:
        pass

    app = make_app(workbench, lab)
    for path in ("/metrics", "/v1/groups"):
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "headers": [(b"host", b"localhost")],
            "query_string": b"",
            "asgi": {"spec_version": "2.3"},
        }
        await app(scope, receive, send)


class _Answering(ASGIWrapper):
    """An application whose client may go while it is answered."""

    async def __call__(self, *arguments: Any) -> None:
        try:
            await super().__call__(*arguments)
        except* (trio.BusyResourceError, trio.BrokenResourceError, trio.ClosedResourceError):
            # Busy is what a connection is that hypercorn closes at this moment.
            log.debug("a client has gone while it was answered")


class Connections:
    """The connections of the control server."""

    def __init__(self, workbench: Workbench, lab: bool, token: str | None) -> None:
        self._config = Config()
        self._config.accesslog = None
        self._config.errorlog = log
        self._config.include_server_header = False
        self._config.h11_max_incomplete_size = MAX_HEAD
        self._context = WorkerContext(None)
        app = make_app(workbench, lab, token)
        self._app = _Answering(app)  # type: ignore[arg-type]
        self._open: set[trio.SocketStream] = set()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it ends."""
        if len(self._open) >= MAX_CONNECTIONS:
            await trio.aclose_forcefully(stream)
            return
        self._open.add(stream)
        try:
            await TCPServer(self._app, self._config, self._context, ConnectionState({}), stream)  # type: ignore[arg-type]
        except Exception:
            # Whatever one connection does is nobody else's.
            log.exception("a control connection ends")
        finally:
            self._open.discard(stream)
            await trio.aclose_forcefully(stream)

    async def end(self) -> None:
        """Let answers under way leave."""
        await self._context.terminated.set()
        with trio.move_on_after(LINGER_SECONDS):
            while self._open:
                await trio.sleep(LINGER_SECONDS / 20)

    def close(self) -> None:
        """Close what is left."""
        for stream in list(self._open):
            # Not the stream: hypercorn shields what it sends, and only a dead socket ends that.
            stream.socket.close()


def _url(listener: trio.SocketListener) -> str:
    host, port, *_ = listener.socket.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _end_what_is_unread(listener: trio.socket.SocketType) -> None:
    """Let the system end connections whose other end does not read, where it can; they inherit it from the listener."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, UNREAD_SECONDS * 1000)


@contextmanager
def _coordinator_first(server: Server) -> Iterator[None]:
    """Meanwhile the coordinator's clients do not wait for more than one step of a task of ours."""
    if not isinstance(server.network, Reactor):
        yield
        return
    between = BetweenSteps(server.network)
    trio.lowlevel.add_instrument(between)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(between)
