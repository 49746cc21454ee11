"""Connections over trio streams, for platforms without epoll.

Decides how a stream's bytes reach a session, with one task for each direction. The session is that of the reactor.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final

import trio

from kafka_shim.security.tls import Certified, Tls
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.failures import Border
from kafka_shim.server.idle import Idle
from kafka_shim.server.node import Node
from kafka_shim.server.session import client_host

if TYPE_CHECKING:
    from kafka_shim.server.secured import Door

log: Final = logging.getLogger("kafka_shim.server")

RECEIVE_BYTES: Final = 64 * 1024
STALLED: Final = 30.0
"""Seconds that a client may leave an answer unread, or a TLS handshake undone."""
ACCEPT_AGAIN: Final = 0.1
"""Seconds until connections are accepted again after a listener has raised."""
REST: Final = 0.2
"""Seconds between two looks at the limits of connections, while a new one waits."""


class StreamConnection:
    """One stream; a `Transport`."""

    def __init__(
        self,
        cluster: Cluster,
        node: Node,
        stream: trio.abc.Stream,
        address: Any,
        door: Door | None = None,
        principal: str | None = None,
    ) -> None:
        self.peer = f"{address[0]}:{address[1]}"
        self.used = True
        self.idle_since = 0.0
        self.session = cluster.open(node, self, client_host(address), door, principal)
        self._receive = cluster.receiver(self.session)
        self._cluster = cluster
        self._stream = stream
        self._unsent = bytearray()
        self._something_unsent = trio.Event()
        self._readable = trio.Event()
        self._readable.set()
        self._scope = trio.CancelScope()
        self._is_heard = False
        """True once the client has said all that it says."""

    def send(self, data: bytes) -> bool:
        """See `Transport.send`."""
        self._unsent += data
        self._something_unsent.set()
        return False

    @property
    def paused(self) -> bool:
        """See `Transport`."""
        return not self._readable.is_set()

    def pause(self) -> None:
        """See `Transport.pause`."""
        if self._readable.is_set():
            self._readable = trio.Event()

    def resume(self) -> None:
        """See `Transport.resume`."""
        self._readable.set()

    def close(self) -> None:
        """See `Transport.close`."""
        self._scope.cancel()
        self.session.lost()

    async def run(self) -> None:
        """Carry bytes until either side closes."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._guarded, self._send_all)
                    await self._guarded(self._receive_all)
            if self._is_heard and not self._unsent and isinstance(self._stream, trio.SSLStream):
                await self._say_goodbye(self._stream)
        finally:
            self.session.lost()
            await trio.aclose_forcefully(self._stream)

    async def _say_goodbye(self, stream: trio.SSLStream[trio.SocketStream]) -> None:
        """End TLS, so that the client knows that no answer was cut off."""
        with trio.move_on_after(STALLED), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            socket_stream, _ = await stream.unwrap()
            await trio.aclose_forcefully(socket_stream)

    async def _guarded(self, carry: Callable[[], Awaitable[None]]) -> None:
        try:
            await carry()
        except Exception as error:
            self.session.failed(error)

    async def _receive_all(self) -> None:
        while True:
            await self._readable.wait()
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                if isinstance(error.__cause__, ssl.SSLError):
                    self.session.refuse(f"broken TLS: {error.__cause__}")
                self.close()
                return
            if not data:
                self._is_heard = True
                self.session.end()
                return
            self.used = True
            now = self._cluster.clock()
            if self._cluster.ticks.wake_at <= now:
                self._cluster.ticks.catch_up(now)
            try:
                self._receive(bytes(data), now)
            except Exception as error:
                self.session.failed(error)
            self._cluster.settle(now)

    async def _send_all(self) -> None:
        while True:
            await self._something_unsent.wait()
            self._something_unsent = trio.Event()
            data, self._unsent = self._unsent, bytearray()
            with trio.move_on_after(STALLED) as timeout:
                try:
                    await self._stream.send_all(data)
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self.close()
                    return
            if timeout.cancelled_caught:
                self.session.refuse(f"{len(data)} bytes of an answer unread for {STALLED:.0f} s")
                return
            self.used = True
            if not self._unsent:
                now = self._cluster.clock()
                self.session.drained(now)
                self._cluster.settle(now)


class Streams:
    """Serves the connections of `cluster` on the sockets of `accept`, with TLS if there are settings for it."""

    def __init__(
        self,
        cluster: Cluster,
        tls: Tls | None,
        principal_of: Callable[[Certified], str | None] = lambda connection: None,
    ) -> None:
        self.idle = Idle(cluster.topics.settings.number("connections.max.idle.ms"))
        self.connections: set[StreamConnection] = set()
        self._cluster = cluster
        self._tls = tls
        self._principal_of = principal_of
        self._listeners: dict[trio.SocketListener, tuple[Node, trio.CancelScope]] = {}
        self._new_send, self._new = trio.open_memory_channel[tuple[trio.SocketListener, Node, "Door | None"]](inf)

    async def run(self) -> None:
        """Serve until cancelled; then close everything."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.idle.run, lambda: self.connections)
            async for listener, node, door in self._new:
                nursery.start_soon(self._listen, nursery, listener, node, door)

    def stop_accepting(self, only: Node | None = None) -> None:
        """New connections, to one node or to all, are refused; those that exist go on."""
        for listener, (node, scope) in list(self._listeners.items()):
            if only in (None, node):
                del self._listeners[listener]
                scope.cancel()
                listener.socket.close()

    def accept(self, sock: socket.socket, node: Node, door: Door | None = None) -> None:
        """Connections that come in on this listening socket are to `node`."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        self._listeners[listener] = (node, trio.CancelScope())
        self._new_send.send_nowait((listener, node, door))

    async def _listen(
        self, connections: trio.Nursery, listener: trio.SocketListener, node: Node, door: Door | None
    ) -> None:
        if listener not in self._listeners:
            return

        async def serve(stream: trio.SocketStream) -> None:
            try:
                await self._serve(stream, node, door)
            except Exception as error:
                self._cluster.failures.note(Border.ACCEPT, "a new connection", error)

        with self._listeners[listener][1]:
            while True:
                try:
                    await trio.serve_listeners(serve, [listener], handler_nursery=connections)
                except Exception as error:
                    self._cluster.failures.note(Border.ACCEPT, "accepting connections", error)
                    await trio.sleep(ACCEPT_AGAIN)

    async def _serve(self, stream: trio.SocketStream, node: Node, door: Door | None) -> None:
        try:
            address = stream.socket.getpeername()
        except OSError:
            return
        admission, limits = node.admission, None if door is None else door.limits
        while (delay := admission.delay(limits, self._cluster.clock())) > 0:
            await trio.sleep(min(delay, REST))
        admission.created(limits, self._cluster.clock())
        seconds = admission.refusal(address, self._cluster.clock())
        if seconds is not None:
            await trio.sleep(seconds)
            await trio.aclose_forcefully(stream)
            return
        admission.enter(address, limits)
        try:
            await self._admitted(stream, address, node, door)
        finally:
            admission.leave(address, limits)

    async def _admitted(self, stream: trio.SocketStream, address: Any, node: Node, door: Door | None) -> None:
        if self._tls is None:
            await self._carry(StreamConnection(self._cluster, node, stream, address, door))
            return
        secure = trio.SSLStream(stream, self._tls.context, server_side=True, https_compatible=True)
        with trio.move_on_after(STALLED) as timeout:
            try:
                await secure.do_handshake()
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                log.warning("no TLS with %s:%s: %s", *address[:2], error.__cause__ or error)
                with suppress(trio.BrokenResourceError):
                    await trio.aclose_forcefully(secure)
                return
        if timeout.cancelled_caught:
            log.warning("no TLS with %s:%s within %.0f s", *address[:2], STALLED)
            await trio.aclose_forcefully(secure)
            return
        try:
            principal = self._principal_of(secure)
        except ValueError as error:
            log.warning("no TLS with %s:%s: %s", *address[:2], error)
            await trio.aclose_forcefully(secure)
            return
        await self._carry(StreamConnection(self._cluster, node, secure, address, door, principal))

    async def _carry(self, connection: StreamConnection) -> None:
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)
