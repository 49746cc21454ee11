"""Connections over trio streams: TLS, and platforms without epoll.

Decides how a stream's bytes reach a session, with one task for each direction. The session is that of the reactor.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any, Final

import trio

from kafka_shim.server.cluster import Cluster
from kafka_shim.server.idle import Idle
from kafka_shim.server.node import Node
from kafka_shim.server.session import client_host

log: Final = logging.getLogger("kafka_shim.server")

RECEIVE_BYTES: Final = 64 * 1024
STALLED: Final = 30.0
"""Seconds that a client may leave an answer unread, or a TLS handshake undone."""


class StreamConnection:
    """One stream; a `Transport`."""

    def __init__(self, cluster: Cluster, node: Node, stream: trio.abc.Stream, address: Any) -> None:
        self.peer = f"{address[0]}:{address[1]}"
        self.used = True
        self.idle_since = 0.0
        self.session = cluster.open(node, self, client_host(address))
        self._receive = cluster.receiver(self.session)
        self._cluster = cluster
        self._stream = stream
        self._unsent = bytearray()
        self._something_unsent = trio.Event()
        self._readable = trio.Event()
        self._readable.set()
        self._scope = trio.CancelScope()

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
                    nursery.start_soon(self._send_all)
                    await self._receive_all()
                    nursery.cancel_scope.cancel()
        finally:
            self.session.lost()
            await trio.aclose_forcefully(self._stream)

    async def _receive_all(self) -> None:
        while True:
            await self._readable.wait()
            try:
                data = await self._stream.receive_some(RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if not data:
                return
            self.used = True
            now = self._cluster.clock()
            try:
                self._receive(bytes(data), now)
            except Exception:
                self.session.failed()
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
    """Serves the connections of `cluster` that come in on `listeners`, with TLS if there is a context for it."""

    def __init__(
        self, cluster: Cluster, listeners: Sequence[tuple[socket.socket, Node]], tls: ssl.SSLContext | None
    ) -> None:
        self.idle = Idle(cluster.topics.settings.number("connections.max.idle.ms"))
        self.connections: set[StreamConnection] = set()
        self._cluster = cluster
        self._tls = tls
        self._listeners: dict[trio.SocketListener, tuple[Node, trio.CancelScope]] = {}
        self._new_send, self._new = trio.open_memory_channel[tuple[trio.SocketListener, Node]](inf)
        for sock, node in listeners:
            self.accept(sock, node)

    async def run(self) -> None:
        """Serve until cancelled; then close everything."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.idle.run, lambda: self.connections)
            async for listener, node in self._new:
                nursery.start_soon(self._listen, nursery, listener, node)

    def stop_accepting(self, only: Node | None = None) -> None:
        """New connections, to one node or to all, are refused; those that exist go on."""
        for listener, (node, scope) in list(self._listeners.items()):
            if only in (None, node):
                del self._listeners[listener]
                scope.cancel()
                listener.socket.close()

    def accept(self, sock: socket.socket, node: Node) -> None:
        """Connections that come in on this listening socket are to `node`."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(sock))
        self._listeners[listener] = (node, trio.CancelScope())
        self._new_send.send_nowait((listener, node))

    async def _listen(self, connections: trio.Nursery, listener: trio.SocketListener, node: Node) -> None:
        if listener not in self._listeners:
            return

        async def serve(stream: trio.SocketStream) -> None:
            await self._serve(stream, node)

        with self._listeners[listener][1]:
            await trio.serve_listeners(serve, [listener], handler_nursery=connections)

    async def _serve(self, stream: trio.SocketStream, node: Node) -> None:
        try:
            address = stream.socket.getpeername()
        except OSError:
            return
        if self._tls is None:
            await self._carry(StreamConnection(self._cluster, node, stream, address))
            return
        secure = trio.SSLStream(stream, self._tls, server_side=True, https_compatible=True)
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
        await self._carry(StreamConnection(self._cluster, node, secure, address))

    async def _carry(self, connection: StreamConnection) -> None:
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)
