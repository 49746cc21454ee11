"""The control server: the app on hypercorn's trio connections, in the coordinator's own nursery.

The number of connections is bounded, and an error on one connection does not touch the others. A stop does not wait for
slow clients, not even for one that does not read its answer. The server speaks HTTP/1.1 alone: a connection has one
request at a time, so a limit of connections limits answers too.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, Final

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState
from hypercorn.utils import parse_socket_addr

from kafka_shim.control.app import make_app
from kafka_shim.control.workbench import Workbench
from kafka_shim.security.tls import Tls
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.process import host_and_port
from kafka_shim.server.reachable import is_loopback
from kafka_shim.server.reactor import BetweenSteps, Reactor
from kafka_shim.server.server import Server, renew

log: Final = logging.getLogger("kafka_shim.control")

LINGER_SECONDS: Final = 0.2
MAX_CONNECTIONS: Final = 512
"""Connections at most; further ones are refused, because clients of the coordinator need descriptors too."""
MAX_HEAD: Final = 128 * 1024
"""Bytes of a request before its body: the longest group id has 98,292, percent-encoded."""
UNREAD_SECONDS: Final = 30
"""Seconds after which a connection ends if its client does not read."""
PAUSE_SECONDS: Final = 0.1
"""Seconds until the next try when there is no descriptor for a connection."""
LOG_SECONDS: Final = 60.0
"""Seconds between two log lines on a lack of descriptors: connections that end make room for a moment."""
HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # A page has its own policy beside this one; browsers obey both.
    (b"content-security-policy", b"frame-ancestors 'none'"),
)
"""Headers of every answer: no page shows it in a frame, and no browser guesses its type."""


async def serve_control(
    server: Server,
    host: str,
    port: int,
    token: str | None = None,
    lab: bool = False,
    workbench: Workbench | None = None,
    tls: Tls | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `server`'s cluster over HTTP until it stops; `task_status` gets the URL.

    Every request must have `token`, unless None; a server that other machines can reach must have one. `lab` allows the
    operations for tests. `workbench` is an existing one to use. With `tls` it is HTTPS. Raises
    OSError, and ValueError for a missing token.
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
            workbench.has_tls = tls is not None
            connections = Connections(workbench, lab, token or None, tls)
            if tls is not None and tls.is_watched:
                nursery.start_soon(renew, tls, server.cluster.failures)
            await _rehearse(workbench, lab)
            accepting = trio.CancelScope()
            nursery.start_soon(_accept, accepting, connections, listeners, nursery)
            task_status.started(_url(listeners[0], "http" if tls is None else "https"))
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
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                accepting.start_soon(_accept_from, listener, connections, nursery)


async def _accept_from(listener: trio.SocketListener, connections: Connections, nursery: trio.Nursery) -> None:
    """Accept as `trio.serve_listeners` does, but log a lack of descriptors seldom, without a traceback."""
    logged = -inf
    while True:
        try:
            stream = await listener.accept()
        except OSError as error:
            if error.errno not in _LACKING:
                raise
            if trio.current_time() - logged > LOG_SECONDS:
                log.error("the control server accepts no connection for now: %s", error.strerror)
                logged = trio.current_time()
            await trio.sleep(PAUSE_SECONDS)
        else:
            nursery.start_soon(connections.serve, stream)


_LACKING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


async def _rehearse(workbench: Workbench, lab: bool) -> None:
    """Answer one request without a client: imports and caches of the first request then delay no client of the
    coordinator."""

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
    """An application for a client that may disconnect during the answer."""

    def __init__(self, app: Any, failures: Failures) -> None:
        super().__init__(app)
        self._failures = failures

    async def __call__(self, *arguments: Any) -> None:
        try:
            try:
                await super().__call__(*arguments)
            except* (trio.BusyResourceError, trio.BrokenResourceError, trio.ClosedResourceError):
                # BusyResourceError: hypercorn closes the connection at this moment.
                log.debug("a client has gone while it was answered")
        except Exception as error:
            # Starlette has answered 500, or hypercorn ends the connection amid the answer.
            self._failures.note(Border.CONTROL, "an answer of the control server", error)


class _Config(Config):
    """The configuration of hypercorn; hypercorn's own answers have our headers too."""

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        return [*super().response_headers(protocol), *HEADERS]


class _Http11(H11Protocol):
    """HTTP/1.1 that ignores an upgrade to HTTP/2, as a server may (RFC 9110, 7.8)."""

    async def _check_protocol(self, event: object) -> None:
        pass


class _Connection(TCPServer):
    """One connection of HTTP/1.1."""

    async def run(self) -> None:
        try:
            is_secret = isinstance(self.stream, trio.SSLStream)
            end = self.stream.transport_stream.socket if is_secret else self.stream.socket
            client, server = (parse_socket_addr(end.family, name) for name in (end.getpeername(), end.getsockname()))
            async with TaskGroup() as self._task_group:
                self.protocol = _Http11(  # type: ignore[assignment]
                    self.app,
                    self.config,
                    self.context,
                    self._task_group,
                    self.state,  # type: ignore[arg-type]
                    is_secret,
                    client,
                    server,
                    self.protocol_send,
                )
                await self.idle_task.restart(self._task_group, self._idle_timeout)
                await self._read_data()
        except OSError:
            # The client has disconnected.
            pass
        finally:
            await self._close()


class Connections:
    """The connections of the control server."""

    def __init__(self, workbench: Workbench, lab: bool, token: str | None, tls: Tls | None = None) -> None:
        self._tls = tls
        self._config = _Config()
        self._config.accesslog = None
        self._config.errorlog = log
        self._config.include_server_header = False
        self._config.h11_max_incomplete_size = MAX_HEAD
        self._context = WorkerContext(None)
        self._failures = workbench.cluster.failures
        self._app = _Answering(make_app(workbench, lab, token), self._failures)
        self._open: set[trio.SocketStream] = set()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it ends."""
        if len(self._open) >= MAX_CONNECTIONS:
            await trio.aclose_forcefully(stream)
            return
        self._open.add(stream)
        try:
            carrier = stream if self._tls is None else await _secret(stream, self._tls)
            if carrier is not None:
                await _Connection(self._app, self._config, self._context, ConnectionState({}), carrier)  # type: ignore[arg-type]
        except Exception as error:
            # An error on one connection must not end others.
            self._failures.note(Border.CONTROL, "a connection of the control server", error)
        finally:
            self._open.discard(stream)
            await trio.aclose_forcefully(stream)

    async def end(self) -> None:
        """Let answers in progress finish."""
        await self._context.terminated.set()
        with trio.move_on_after(LINGER_SECONDS):
            while self._open:
                await trio.sleep(LINGER_SECONDS / 20)

    def close(self) -> None:
        """Close the remaining connections."""
        for stream in list(self._open):
            # Not the stream: hypercorn shields its sends, and only a dead socket ends that.
            stream.socket.close()


async def _secret(stream: trio.SocketStream, tls: Tls) -> trio.SSLStream[trio.SocketStream] | None:
    """Return the stream with TLS; None if its client does none in time."""
    wrapper = trio.SSLStream(stream, tls.context, server_side=True, https_compatible=True)
    try:
        with trio.fail_after(UNREAD_SECONDS):
            await wrapper.do_handshake()
    except (trio.BrokenResourceError, trio.TooSlowError) as error:
        log.warning("no TLS with a client of the control server: %s", error.__cause__ or error)
        return None
    return wrapper


def _url(listener: trio.SocketListener, scheme: str) -> str:
    host, port, *_ = listener.socket.getsockname()
    return f"{scheme}://{host_and_port(host, port)}"


def _end_what_is_unread(listener: trio.socket.SocketType) -> None:
    """Let the system end connections whose client does not read, where it can; they inherit the option from the
    listener."""
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None:
        listener.setsockopt(socket.IPPROTO_TCP, option, UNREAD_SECONDS * 1000)


@contextmanager
def _coordinator_first(server: Server) -> Iterator[None]:
    """Give clients of the coordinator a turn after each step of our tasks, within this block."""
    if not isinstance(server.network, Reactor):
        yield
        return
    between = BetweenSteps(server.network)
    trio.lowlevel.add_instrument(between)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(between)
