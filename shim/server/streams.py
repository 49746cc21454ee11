"""Connections over trio streams: TLS, and platforms without epoll.

Decides how a stream's bytes reach a session, with one task for each direction. The session is that of the reactor.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import trio

from shim.server.cluster import Cluster, Node
from shim.server.session import Session, client_host

log: Final = logging.getLogger("shim.server")

RECEIVE_BYTES: Final = 64 * 1024
STALLED: Final = 30.0
"""Seconds that a client may leave an answer unread, or a TLS handshake undone."""


class StreamConnection:
    """One stream; a `Transport`."""

    def __init__(self, cluster: Cluster, node: Node, stream: trio.abc.Stream, address: Any) -> None:
        self.peer = f"{address[0]}:{address[1]}"
        self.session = Session(node, self, client_host(address), next(cluster.connections))
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

    def pause(self) -> None:
        """See `Transport.pause`."""
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
        self.session.node.sessions.add(self.session)
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
            now = self._cluster.clock()
            self.session.receive(bytes(data), now)
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
            if not self._unsent:
                now = self._cluster.clock()
                self.session.drained(now)
                self._cluster.settle(now)


async def serve_streams(
    cluster: Cluster, listeners: Sequence[tuple[trio.SocketListener, Node]], tls: ssl.SSLContext | None
) -> None:
    """Serve every connection of these listeners until cancelled, with TLS if there is a context for it."""

    async def serve(stream: trio.SocketStream, node: Node) -> None:
        try:
            address = stream.socket.getpeername()
        except OSError:
            return
        if tls is None:
            await StreamConnection(cluster, node, stream, address).run()
            return
        secure = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
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
        await StreamConnection(cluster, node, secure, address).run()

    async with trio.open_nursery() as nursery:
        for listener, node in listeners:

            async def serve_one(stream: trio.SocketStream, node: Node = node) -> None:
                await serve(stream, node)

            nursery.start_soon(trio.serve_listeners, serve_one, [listener])
