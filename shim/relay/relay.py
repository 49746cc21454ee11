"""`Relay`: a listener for every broker of a cluster, and one connection to the broker per client connection.

Clients get the relay's addresses instead of the brokers'. Bytes pass as fast as the slower side takes them, with a
bounded number of them in memory. A broker gets its listener when an answer names it first, before that answer is passed
on.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import trio

from kafka_shim.apis.wire import EncodeError
from kafka_shim.relay.addresses import NamedBroker
from kafka_shim.relay.proxied_connection import MAX_IN_FLIGHT, BrokersAnswer, ProxiedConnection
from kafka_shim.relay.record import Record
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.process import host_and_port
from kafka_shim.server.server import the_only

log: Final = logging.getLogger("kafka_shim.relay")

CHUNK: Final = 64 * 1024
CONNECT_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 30.0
"""Time for a broker to answer and close after its client has closed."""
MAX_BROKERS: Final = 1000
"""Largest number of brokers with a listener, more than a cluster has."""
BACKLOG: Final = 1024
MAX_NOTES: Final = 1000
_PORT_TRIES: Final = 100


Upstream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]
"""A connection to a broker."""


class Broker:
    """One broker: its address and its listener here."""

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.listening = trio.Event()
        self.local_port = 0


class Relay:
    """Relays clients of `host:port` to the cluster at `upstream`.

    `advertise` is the host in answers to clients, `record` gets all decoded messages, `clock` is monotonic seconds.
    With `tls` the connections to the brokers use TLS; those of clients never do. `failures` counts the connections that
    an exception has ended.
    """

    def __init__(
        self,
        upstream: tuple[str, int],
        host: str,
        port: int,
        advertise: str,
        record: Record,
        clock: Callable[[], float],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.upstream = upstream
        self.host = host
        self.port = port
        self.advertise = advertise
        self.brokers: dict[int, Broker] = {}
        self.connections = 0
        self.failures = Failures()
        self._record = record
        self._clock = clock
        self._tls = tls
        self._notes: set[str] = set()
        self._numbers = 0
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Relay until cancelled; started once it listens. Raises OSError if it cannot."""
        async with trio.open_nursery() as self._nursery:
            self.port = await self._listen(self.port, None)
            task_status.started()
            while True:
                await trio.sleep(0.2)
                self._safely(self._record.tick)

    def nodes(self) -> list[dict[str, Any]]:
        """Return the brokers seen so far, in the form of the first line of a trace."""
        return [{"node": each.node_id, "host": each.host, "port": each.port} for each in self.brokers.values()]

    def note(self, text: str) -> None:
        """Log a text once."""
        if text not in self._notes and len(self._notes) < MAX_NOTES:
            self._notes.add(text)
            log.warning("%s", text)

    # Listeners

    async def _listen(self, port: int, broker: Broker | None) -> int:
        assert self._nursery is not None
        listeners = await trio.open_tcp_listeners(port, host=self.host, backlog=BACKLOG)
        for listener in listeners[1:]:
            # Each further address of a host name would need its own port.
            await listener.aclose()

        async def serve(client: trio.SocketStream) -> None:
            try:
                await self._serve(client, broker)
            except Exception as error:
                self.failures.note(Border.CONNECTION, "relaying a connection", the_only(error))

        self._nursery.start_soon(trio.serve_listeners, serve, listeners[:1])
        bound_port: int = listeners[0].socket.getsockname()[1]
        return bound_port

    async def _listen_for(self, broker: Broker) -> None:
        """Listen on a port after the relay's own, or on any free port if those are taken."""
        first = self.port + 1 + sum(each.local_port > 0 for each in self.brokers.values())
        for port in range(first, min(first + _PORT_TRIES, 65536)):
            try:
                broker.local_port = await self._listen(port, broker)
            except OSError:
                continue
            break
        else:
            try:
                broker.local_port = await self._listen(0, broker)
            except OSError as error:
                self.note(f"there is no port for broker {broker.node_id}: {error}")
        there = host_and_port(broker.host, broker.port)
        log.info("broker %d at %s is port %d here", broker.node_id, there, broker.local_port)
        broker.listening.set()

    async def _replace_address(self, broker_address: NamedBroker) -> None:
        """Replace a broker's address by the relay's."""
        broker = self.brokers.get(broker_address.node_id)
        if broker is None:
            if len(self.brokers) >= MAX_BROKERS:
                self.note(f"more than {MAX_BROKERS} brokers: clients get the addresses of the others as they are")
                return
            broker = Broker(broker_address.node_id, broker_address.host, broker_address.port)
            self.brokers[broker.node_id] = broker
            await self._listen_for(broker)
        await broker.listening.wait()
        broker.host, broker.port = broker_address.host, broker_address.port
        if broker.local_port:
            broker_address.place.host, broker_address.place.port = self.advertise, broker.local_port

    # Connections

    async def _serve(self, client: trio.SocketStream, broker: Broker | None) -> None:
        host, port = self.upstream if broker is None else (broker.host, broker.port)
        if broker is None:
            broker = next((each for each in self.brokers.values() if (each.host, each.port) == (host, port)), None)
        # Other connections begin while this one reaches its broker.
        number = self._numbers = self._numbers + 1
        try:
            peer = client.socket.getpeername()
            with trio.fail_after(CONNECT_SECONDS):
                upstream = await self._open(host, port)
        except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
            self.note(f"{host}:{port} cannot be reached: {error.__cause__ or error or 'no answer'}")
            await trio.aclose_forcefully(client)
            return
        connection = ProxiedConnection(
            number,
            -1 if broker is None else broker.node_id,
            f"/{peer[0]}",
            clock=self._clock,
            on_request=partial(self._safely, self._record.on_request),
            on_answer=partial(self._safely, self._record.on_answer),
            note=self.note,
        )
        self.connections += 1
        try:
            async with client, upstream, trio.open_nursery() as nursery:
                for stream in (client, _tcp(upstream)):
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answered = trio.lowlevel.ParkingLot()
                nursery.start_soon(self._upward, connection, client, upstream, answered, nursery.cancel_scope)
                nursery.start_soon(self._downward, connection, client, upstream, answered, nursery.cancel_scope)
        finally:
            self.connections -= 1
            self._safely(self._record.closed, connection)

    async def _open(self, host: str, port: int) -> Upstream:
        stream = await trio.open_tcp_stream(host, port)
        if self._tls is None:
            return stream
        secured = trio.SSLStream(stream, self._tls, server_hostname=host, https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(secured)
            raise
        return secured

    async def _upward(
        self,
        connection: ProxiedConnection,
        client: trio.SocketStream,
        upstream: Upstream,
        answered: trio.lowlevel.ParkingLot,
        scope: trio.CancelScope,
    ) -> None:
        try:
            while data := await client.receive_some(CHUNK):
                await upstream.send_all(connection.from_client(bytes(data)))
                while len(connection.waiting) > MAX_IN_FLIGHT:
                    await answered.park()
            # The broker may still answer, and then closes.
            scope.deadline = trio.current_time() + CLOSE_SECONDS
            if isinstance(upstream, trio.SocketStream):
                await upstream.send_eof()
                return
            # TLS has no end of one direction.
            while connection.waiting:
                await answered.park()
            scope.cancel()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            scope.cancel()

    async def _downward(
        self,
        connection: ProxiedConnection,
        client: trio.SocketStream,
        upstream: Upstream,
        answered: trio.lowlevel.ParkingLot,
        scope: trio.CancelScope,
    ) -> None:
        try:
            while data := await upstream.receive_some(CHUNK):
                passing = bytearray()
                for part in connection.from_broker(bytes(data)):
                    passing += part if isinstance(part, bytes) else await self._changed(part)
                answered.unpark_all()
                if passing:
                    await client.send_all(passing)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()

    async def _changed(self, naming: BrokersAnswer) -> bytes:
        for broker_address in naming.brokers:
            await self._replace_address(broker_address)
        try:
            return naming.changed()
        except EncodeError as error:
            self.note(f"the answer to {naming.pending.api} cannot be written: {error}")
            return naming.frame

    def _safely(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function of the trace. Its errors must not come between a client and its cluster."""
        try:
            function(*arguments)
        except Exception as error:
            if (text := f"the trace lacks something: {error!r}") not in self._notes:
                self.note(text)
                log.exception("this is a bug of the relay")


def _tcp(stream: Upstream) -> trio.SocketStream:
    return stream if isinstance(stream, trio.SocketStream) else stream.transport_stream
