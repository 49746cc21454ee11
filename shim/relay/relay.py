"""The relay: a listener for every broker of a cluster, and a connection of its own for every client's.

Decides where it listens, which addresses clients get in place of the brokers', and how fast bytes pass: as fast as
the slower side takes them, with a bounded number of them in memory. A broker is found when an answer first names it and
gets its listener before that answer is handed on. It does not know what is in a frame.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import trio

from kafka_shim.apis.wire import EncodeError
from kafka_shim.relay.addresses import NamedBroker
from kafka_shim.relay.proxied_connection import IN_FLIGHT, BrokersAnswer, ProxiedConnection
from kafka_shim.relay.record import Record

log: Final = logging.getLogger("kafka_shim.relay")

CHUNK: Final = 64 * 1024
CONNECT_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 30.0
"""How long a broker may take to answer and close when its client has closed."""
BROKERS: Final = 1000
"""Brokers that get a listener; a cluster has no more."""
BACKLOG: Final = 1024
NOTES: Final = 1000
_TRIES: Final = 100


class Broker:
    """One broker: where it is, and which listener stands for it."""

    def __init__(self, node_id: int, host: str, port: int) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.listening = trio.Event()
        self.local_port = 0


class Relay:
    """Relays clients of `host:port` to the cluster at `upstream`.

    `advertise` is the host in answers to clients, `record` gets all that is read, `clock` is monotonic seconds.
    """

    def __init__(
        self,
        upstream: tuple[str, int],
        host: str,
        port: int,
        advertise: str,
        record: Record,
        clock: Callable[[], float],
    ) -> None:
        self.upstream = upstream
        self.host = host
        self.port = port
        self.advertise = advertise
        self.brokers: dict[int, Broker] = {}
        self.connections = 0
        self._record = record
        self._clock = clock
        self._noted: set[str] = set()
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
        """The brokers seen by now, as the first line of a trace has them."""
        return [{"node": each.node_id, "host": each.host, "port": each.port} for each in self.brokers.values()]

    def note(self, text: str) -> None:
        """Log what is not read, once."""
        if text not in self._noted and len(self._noted) < NOTES:
            self._noted.add(text)
            log.warning("%s", text)

    # Listeners

    async def _listen(self, port: int, broker: Broker | None) -> int:
        assert self._nursery is not None
        listeners = await trio.open_tcp_listeners(port, host=self.host, backlog=BACKLOG)
        for listener in listeners[1:]:
            # A name of several addresses would get a port of its own for each.
            await listener.aclose()

        async def serve(client: trio.SocketStream) -> None:
            await self._serve(client, broker)

        self._nursery.start_soon(trio.serve_listeners, serve, listeners[:1])
        found: int = listeners[0].socket.getsockname()[1]
        return found

    async def _listen_for(self, broker: Broker) -> None:
        """A port after the relay's own, or any free one if that was pending for."""
        first = self.port + 1 + sum(each.local_port > 0 for each in self.brokers.values())
        for port in range(first, min(first + _TRIES, 65536)):
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
        log.info("broker %d at %s:%d is port %d here", broker.node_id, broker.host, broker.port, broker.local_port)
        broker.listening.set()

    async def _stand_in(self, named: NamedBroker) -> None:
        """Put the relay's address in place of a broker's."""
        broker = self.brokers.get(named.node_id)
        if broker is None:
            if len(self.brokers) >= BROKERS:
                self.note(f"more than {BROKERS} brokers: clients get the addresses of the others as they are")
                return
            broker = self.brokers[named.node_id] = Broker(named.node_id, named.host, named.port)
            await self._listen_for(broker)
        await broker.listening.wait()
        broker.host, broker.port = named.host, named.port
        if broker.local_port:
            named.place.host, named.place.port = self.advertise, broker.local_port

    # Connections

    async def _serve(self, client: trio.SocketStream, broker: Broker | None) -> None:
        host, port = self.upstream if broker is None else (broker.host, broker.port)
        if broker is None:
            broker = next((each for each in self.brokers.values() if (each.host, each.port) == (host, port)), None)
        self._numbers += 1
        try:
            peer = client.socket.getpeername()
            with trio.fail_after(CONNECT_SECONDS):
                upstream = await trio.open_tcp_stream(host, port)
        except (OSError, trio.TooSlowError) as error:
            self.note(f"{host}:{port} cannot be reached: {error or 'no answer'}")
            await trio.aclose_forcefully(client)
            return
        connection = ProxiedConnection(
            self._numbers,
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
                for stream in (client, upstream):
                    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answered = trio.lowlevel.ParkingLot()
                nursery.start_soon(self._upward, connection, client, upstream, answered, nursery.cancel_scope)
                nursery.start_soon(self._downward, connection, client, upstream, answered, nursery.cancel_scope)
        finally:
            self.connections -= 1
            self._safely(self._record.closed, connection)

    async def _upward(
        self,
        connection: ProxiedConnection,
        client: trio.SocketStream,
        upstream: trio.SocketStream,
        answered: trio.lowlevel.ParkingLot,
        scope: trio.CancelScope,
    ) -> None:
        try:
            while data := await client.receive_some(CHUNK):
                await upstream.send_all(connection.from_client(bytes(data)))
                while len(connection.waiting) > IN_FLIGHT:
                    await answered.park()
            await upstream.send_eof()
            # It may still be answered, and then the broker closes.
            scope.deadline = trio.current_time() + CLOSE_SECONDS
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            scope.cancel()

    async def _downward(
        self,
        connection: ProxiedConnection,
        client: trio.SocketStream,
        upstream: trio.SocketStream,
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
        for named in naming.brokers:
            await self._stand_in(named)
        try:
            return naming.changed()
        except EncodeError as error:
            self.note(f"the answer to {naming.pending.api} cannot be written: {error}")
            return naming.frame

    def _safely(self, take: Callable[..., None], *arguments: Any) -> None:
        """What the trace is about must not come between a client and its cluster, whatever goes wrong with it."""
        try:
            take(*arguments)
        except Exception as error:
            if (text := f"the trace lacks something: {error!r}") not in self._noted:
                self.note(text)
                log.exception("this is a bug of the relay")
