"""One connection's conversation: bytes in, frames, one request at a time, bytes out.

Decides when a request may be served, what is done with bytes that are no request, and when to stop listening to a
client. Knows no socket: a `Transport` carries the bytes. What becomes of one request is `exchange.py`'s.

As in Kafka, a connection's requests are answered in order and one at a time: while one is parked, or its answer waits
for records to become durable or for the client to read the one before, later ones wait. Of those only so many bytes are
taken from the client; then reading stops until there is room.

Clients send the same Heartbeat, Fetch or OffsetCommit again and again, different only in the correlation id and a few
numbers. The last ones are remembered (`remembered.py`): bytes that are the same are not decoded again, and go to the
same rule.
"""

from __future__ import annotations

import logging
from collections import deque
from enum import Enum
from typing import Any, Final

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.frames import FrameError, FrameSplitter
from kafka_shim.apis.wire.headers import decode_request_header
from kafka_shim.groups.interface import Client
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.node import Node, Transport
from kafka_shim.server.remembered import RememberedRequest, remember

log: Final = logging.getLogger("kafka_shim.server")

WAITING_BYTES: Final = 64 * 1024
"""How much is taken from a client whose earlier request is not answered yet."""

_KEYS: Final = frozenset(map(int, ApiKey))

_NOTHING: Final[deque[bytes]] = deque()
"""What waits of almost every session; a deque of its own would be a third of what a session needs."""


_NOTHING_REMEMBERED: Final[dict[bytes, RememberedRequest]] = {}


class _Gone:
    """The transport of a session whose connection is gone."""

    peer = "nobody"
    paused = False

    def send(self, data: bytes) -> bool:
        return True

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        pass


_GONE: Final = _Gone()


class State(Enum):
    """What a session does with the next bytes of its client."""

    READY = "ready"
    """They begin a request that can be served at once."""
    READING = "reading"
    """They go on with a request of which a part is here."""
    BUSY = "busy"
    """They wait: an exchange is not finished."""
    BLOCKED = "blocked"
    """They wait: the client has not read all of the last answer."""
    CLOSED = "closed"
    """There are none: the connection is gone."""


_READY, _READING, _BUSY, _BLOCKED, _CLOSED = State


class Session:
    """The conversation on one connection to a node. `exchange` is the one that its requests wait for, if any.

    `number` counts connections of the process, for the trace. `last_answer` is a response with its bytes, which may be
    that of the next exchange too. Of `remembered` and `last_commit` see `RememberingSession`.
    """

    __slots__ = (
        "_splitter",
        "_waiting",
        "_waiting_bytes",
        "client",
        "exchange",
        "last_answer",
        "last_commit",
        "node",
        "number",
        "remembered",
        "state",
        "transport",
    )

    def __init__(self, node: Node, transport: Transport, client_host: str, number: int) -> None:
        self.node = node
        self.transport = transport
        self.number = number
        self.client = Client("", client_host)
        self.state = _READY
        self.exchange: Exchange | None = None
        self.last_answer: tuple[object, bytes] = (None, b"")
        self.remembered = _NOTHING_REMEMBERED
        self.last_commit: object = None
        self._splitter = FrameSplitter()
        self._waiting = _NOTHING
        self._waiting_bytes = 0

    @property
    def client_id(self) -> str:
        """The client id of the newest request's header."""
        return self.client.client_id

    @property
    def closed(self) -> bool:
        """Whether the connection is gone."""
        return self.state is _CLOSED

    @property
    def waiting_bytes(self) -> int:
        """How much was read of requests that are not served yet."""
        return self._waiting_bytes + self._splitter.buffered

    # From the client

    def receive(self, data: bytes, now: float) -> None:
        """Bytes arrived at `now`, monotonic seconds."""
        if self.state is _READY:
            remembered = self.remembered.get(data[:8])
            if remembered is not None and remembered.serve(self, data, now):
                return
        try:
            frames = self._splitter.feed(data)
        except FrameError as error:
            self._wait(error.frames)
            self._go_on(now)
            self.refuse(str(error))
            return
        if len(frames) == 1 and (self.state is _READY or self.state is _READING):
            self._serve(frames[0], now)
        else:
            self._wait(frames)
        self._go_on(now)

    def lost(self) -> None:
        """The connection is gone. As in Kafka a parked request stays parked, though nobody gets the answer."""
        if self.state is not _CLOSED:
            self.state = _CLOSED
            self._waiting = _NOTHING
            self._splitter = FrameSplitter()
            self.remembered = _NOTHING_REMEMBERED
            if self.exchange is not None:
                self.node.broker.forget(self.exchange)
            self.node.broker.disconnected(self)
            self.node.sessions.discard(self)
            # Break the reference cycles, so that reference counting frees the session without the collector.
            self.exchange = None
            self.transport = _GONE

    def drained(self, now: float) -> None:
        """The transport has sent everything; the client reads."""
        if self.state is _BLOCKED:
            self.state = _READY
            self._go_on(now)

    def refuse(self, reason: str) -> None:
        """Close the connection without an answer, and log why."""
        if self.state is not _CLOSED:
            log.warning("closed the connection of %s: %s", self.transport.peer, reason)
            self.node.refused += 1
            self.transport.close()

    def failed(self) -> None:
        """Serving this client raised what nobody foresaw: it loses its connection, nobody else notices."""
        if self.state is not _CLOSED:
            log.exception("closed the connection of %s: serving it failed", self.transport.peer)
            self.node.refused += 1
            self.transport.close()

    def forget(self) -> None:
        """See `Connection.forget`."""
        self.remembered = _NOTHING_REMEMBERED

    # From exchanges

    def begin(self, exchange: Exchange) -> None:
        """Serve nothing more until this exchange is finished."""
        self.exchange = exchange
        self.state = _BUSY

    def send(self, data: bytes) -> None:
        """Send a whole answer."""
        if self.node.frames is not None:
            self.node.frames.answered(self.number, data)
        if not self.transport.send(data):
            self.block()

    def block(self) -> None:
        """Serve nothing more until the client has read what the transport could not send."""
        if self.state is not _CLOSED:
            self.state = _BLOCKED

    def finish(self, now: float) -> None:
        """The exchange that others wait for is finished: serve what has come since."""
        self.exchange = None
        if self.state is _BUSY:
            self.state = _READY
        self._go_on(now)

    def finish_with(self, data: bytes, now: float) -> None:
        """Send the answer of the remembered exchange that others wait for, which finishes it."""
        if self.state is _BUSY:
            self.exchange = None
            if not self.transport.send(data):
                if self.state is _BUSY:
                    self.state = _BLOCKED
            elif self._waiting or self._splitter.buffered:
                self.state = _READY
                self._go_on(now)
            else:
                self.state = _READY

    # Requests

    def _wait(self, frames: list[bytes]) -> None:
        if frames:
            if self._waiting is _NOTHING:
                self._waiting = deque()
            self._waiting += frames
            self._waiting_bytes += sum(map(len, frames))

    def _go_on(self, now: float) -> None:
        """Serve what waits, as far as it need not wait any longer; then stop or resume reading."""
        waiting = self._waiting
        while waiting and (self.state is _READY or self.state is _READING):
            frame = waiting.popleft()
            self._waiting_bytes -= len(frame)
            self._serve(frame, now)
        if self.state is _READY or self.state is _READING:
            self._waiting = _NOTHING
            self.state = _READING if self._splitter.buffered else _READY
            if self.transport.paused:
                self.transport.resume()
        elif self.state is not _CLOSED and self.waiting_bytes > WAITING_BYTES:
            self.transport.pause()

    def _serve(self, frame: bytes, now: float) -> None:
        if self.node.frames is not None:
            self.node.frames.requested(self.number, frame)
        endpoint = self.node.table.find(frame)
        if endpoint is None:
            self._refuse_unserved(frame)
            return
        try:
            _, _, _, client_id, body = decode_request_header(frame)
            request = endpoint.decode(frame, body, self.node.broker)
        except DecodeError as error:
            self.refuse(f"malformed {endpoint.api.name} request, version {endpoint.version}: {error}")
            return
        if client_id != self.client.client_id:
            self.client = Client(client_id or "", self.client.client_host)
            self.remembered = _NOTHING_REMEMBERED
        exchange = Exchange(self, endpoint, request, self.client, frame[4:8])
        exchange.arrive(now)
        if not exchange.finished and self.state is not _CLOSED:
            self.begin(exchange)
        # A remembered request bypasses interceptor and watch, so none is remembered while there is one.
        if self.node.interceptor is None and self.node.frames is None:
            remember(self, exchange, frame, body)

    def _refuse_unserved(self, frame: bytes) -> None:
        key, version = int.from_bytes(frame[:2], signed=True), int.from_bytes(frame[2:4], signed=True)
        if len(frame) < 8:
            self.refuse(f"a request of {len(frame)} bytes, which is less than a header")
        elif key == ApiKey.API_VERSIONS:
            self.send(self.node.table.unsupported_version(frame[4:8]))
        else:
            size = int.from_bytes(frame[8:10], signed=True)
            client_id = frame[10 : 10 + max(size, 0)].decode(errors="replace")
            name = ApiKey(key).name if key in _KEYS else f"API key {key}"
            self.refuse(f"client {client_id!r} asks for {name} version {version}, which is not served")


def client_host(address: Any) -> str:
    """A socket's peer address as Java writes an `InetAddress`: `/127.0.0.1`, `/0:0:0:0:0:0:0:1` (semantics 1)."""
    host = str(address[0]).partition("%")[0]
    if ":" not in host:
        return f"/{host}"
    from ipaddress import IPv6Address

    parsed = IPv6Address(host)
    if parsed.ipv4_mapped is not None:
        return f"/{parsed.ipv4_mapped}"
    return "/" + ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
