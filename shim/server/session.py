"""One connection's conversation: bytes in, frames, one request at a time, bytes out.

A session decides when a request may be served, and when to stop reading from a client; it closes the connection after
invalid bytes. A `Transport` carries the bytes. `exchange.py` handles a single request.

As in Kafka, a connection's requests are answered in order and one at a time: while one is parked, or its answer waits
for records to become durable or for the client to read the one before, later ones wait. A session buffers a limited
number of their bytes; then reading stops until there is room. The end of a client that has closed its side waits too.

Clients repeat the same Heartbeat, Fetch or OffsetCommit with only a new correlation id and a few other numbers. The
last ones are remembered (`remembered/`): equal bytes are not decoded again, and go to the same rule.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final
from weakref import ref

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.frames import FrameError, FrameSplitter
from kafka_shim.apis.wire.headers import decode_request_header
from kafka_shim.groups.interface import Client
from kafka_shim.server.alarms import Alarm
from kafka_shim.server.connection import Guard, State, Transport
from kafka_shim.server.exchange import Exchange, HugeExchange, Step
from kafka_shim.server.failures import Border
from kafka_shim.server.journal import text_of
from kafka_shim.server.long_answers import Sending
from kafka_shim.server.node import Node
from kafka_shim.server.remembered import MAKERS, RememberedRequest, remember

log: Final = logging.getLogger("kafka_shim.server")

WAITING_BYTES: Final = 64 * 1024
"""The limit of bytes to read from a client while it waits for an answer."""

PIPELINED: Final = 0.001
"""Seconds for which the pipelined requests of a client are served before those of others."""
LONG_FRAME: Final = 64 * 1024
"""Longer requests take turns with those that are answered part by part, and are not decoded before."""
_LONG_UNFINISHED: Final = LONG_FRAME + 4
"""The same with the four bytes of their length."""
HUGE_FRAME: Final = 512 * 1024
"""A longer request is decoded, served and answered in three turns: clients name all their partitions in one. The next
one is decoded after that, since a decoded one takes many times its bytes."""
_PRODUCE: Final = ApiKey.PRODUCE.to_bytes(2)
"""The beginning of a request that is long for its records, and they are not decoded."""

_KEYS: Final = frozenset(map(int, ApiKey))

_END: Final = b"end"
"""Stands behind the last request of a client that has closed its side; an object of its own, unlike each frame."""
_NOTHING: Final[deque[bytes]] = deque()
"""Shared empty queue: most sessions never queue, and a deque each would cost a third of a session."""


_NOTHING_REMEMBERED: Final[dict[bytes, RememberedRequest]] = {}


class _Gone:
    """The transport of a session after the end of its connection."""

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


_READY, _READING, _BUSY, _BLOCKED, _MUTED, _CLOSED = State
_SENT, _REFUSED = Step.SENT, Step.REFUSED


class _Rest:
    """The pipelined requests of a session that has had its turn."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def go_on(self, now: float) -> bool:
        """Serve more of them; those that are left have another turn."""
        self._session.serve_rest(now)
        return False

    def broken(self, error: Exception) -> None:
        self._session.failed(error)


class _LongFrame:
    """A long request that waits for its turn; `exchange` is that of a huge one once it is decoded."""

    __slots__ = ("_frame", "_session", "exchange")

    def __init__(self, session: Session, frame: bytes) -> None:
        self._session = session
        self._frame = frame
        self.exchange: Exchange | None = None

    def go_on(self, now: float) -> bool:
        """Serve it, or decode it; return True if it is only decoded."""
        return self._session.serve_in_turn(self, self._frame, now)

    def broken(self, error: Exception) -> None:
        self._session.failed(error)


class Session:
    """The conversation on one connection to a node. `Connection` documents the fields that exchanges see."""

    __slots__ = (
        "_alarm",
        "_sending",
        "_splitter",
        "_waiting",
        "_waiting_bytes",
        "client",
        "exchange",
        "guard",
        "last_answer",
        "last_commit",
        "node",
        "number",
        "remembered",
        "software",
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
        self.guard: Guard | None = None
        self.last_answer: tuple[object, bytes] = (None, b"")
        self.remembered = _NOTHING_REMEMBERED
        self.last_commit: object = None
        self.software = ""
        self._splitter = node.inputs.splitter()
        self._waiting = _NOTHING
        self._waiting_bytes = 0
        self._alarm: Alarm | None = None
        self._sending: Sending | None = None

    @property
    def client_id(self) -> str:
        """Return the client id of the newest request's header."""
        return self.client.client_id

    @property
    def closed(self) -> bool:
        """Return True if the connection has ended."""
        return self.state is _CLOSED

    @property
    def waiting_bytes(self) -> int:
        """Return the number of buffered bytes of requests that are not served yet."""
        return self._waiting_bytes + len(self._splitter.unfinished)

    # From the client

    def receive(self, data: bytes, now: float) -> None:
        """Handle bytes that arrived at `now`, monotonic seconds."""
        inputs = self.node.inputs
        if inputs.listening:
            with inputs.input("bytes", now, connection=self.number, data=text_of(data)):
                self.receive(data, now)
            return
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
            if self.state is _READY and not self._splitter.unfinished:
                return
        else:
            self._wait(frames)
        self._go_on(now)

    def end(self) -> None:
        """Close when all requests so far are answered: the client has closed its side.

        Kafka reads nothing from a client with a request under way, not even the end.
        """
        if self.state is _READY or self.state is _READING:
            self.transport.close()
        elif self.state is not _CLOSED and not (self._waiting and self._waiting[-1] is _END):
            with self.node.inputs.input("half-closed", connection=self.number):
                self._wait([_END])
                self.transport.pause()

    def lost(self) -> None:
        """End the session after its connection has ended. As in Kafka a parked request stays parked, though its answer
        has no receiver."""
        if self.state is _CLOSED:
            return
        with self.node.inputs.input("lost", connection=self.number):
            self.state = _CLOSED
            self._waiting = _NOTHING
            self._splitter = FrameSplitter()
            self.remembered = _NOTHING_REMEMBERED
            exchange, peer = self.exchange, self.transport.peer
            self.node.sessions.discard(self)
            # Break the reference cycles, so that reference counting frees the session without the collector.
            self.exchange = self._sending = None
            self.transport = _GONE
            if self.node.parts is not None:
                self.node.parts.release(self)
                self.node.parts.drop_request(self)
            if self._alarm is not None and self.node.alarms is not None:
                self.node.alarms.cancel(self._alarm)
                self._alarm = None
            try:
                if exchange is not None:
                    self.node.broker.forget(exchange)
                self.node.broker.disconnected(self)
            except Exception as error:
                self.node.failures.note(Border.CONNECTION, f"what follows the end of the connection of {peer}", error)

    def drained(self, now: float) -> None:
        """Note that the transport has sent everything: the client reads."""
        if self._sending is not None:
            self._sending.resume()
            return
        with self.node.inputs.input("drained", now, connection=self.number):
            if self.state is _BLOCKED:
                self.state = _READY if self._alarm is None else _MUTED
                self._follow(now)

    def refuse(self, reason: str) -> None:
        """Close the connection without an answer, and log why."""
        if self.state is not _CLOSED:
            log.warning("closed the connection of %s: %s", self.transport.peer, reason)
            self.node.refused += 1
            self.transport.close()

    def failed(self, error: Exception) -> None:
        """Close the connection after an exception while serving this client; other clients go on."""
        peer = self.transport.peer
        self.node.failures.note(Border.CONNECTION, f"serving the connection of {peer}, which is closed,", error)
        if self.state is not _CLOSED:
            self.node.refused += 1
            try:
                self.transport.close()
            except Exception as another:
                self.node.failures.note(Border.CONNECTION, f"closing the connection of {peer}", another)

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

    def send_in_pieces(self, pieces: Sequence[bytes]) -> None:
        """See `Connection.send_in_pieces`. Serve nothing more until the client has read."""
        if self.node.frames is not None:
            self.node.frames.answered(self.number, pieces[0], is_whole=False)
        assert self.node.parts is not None
        self.block()
        self._sending = Sending(self, pieces, self.node.parts)

    def sent(self, now: float) -> None:
        """See `Connection.sent`."""
        self._sending = None
        if self.node.parts is not None:
            self.node.parts.release(self)
        self.drained(now)

    def block(self) -> None:
        """Serve nothing more until the client has read the rest of the answer, which the transport could not send."""
        if self.state is not _CLOSED:
            self.state = _BLOCKED

    def mute(self, until: float) -> None:
        """See `Connection.mute`."""
        alarms = self.node.alarms
        if self.state is not _CLOSED and alarms is not None:
            if self.state is not _BLOCKED:
                self.state = _MUTED
            self.transport.pause()
            self._alarm = alarms.at(until, self._unmute)

    def _unmute(self, now: float) -> None:
        self._alarm = None
        if self.state is _MUTED:
            self.state = _READY
            self._follow(now)

    def finish(self, now: float) -> None:
        """Finish the exchange that others wait for, and serve the requests since."""
        self.exchange = None
        if self.state is _BUSY:
            self.state = _READY
        self._follow(now)

    def finish_with(self, data: bytes, now: float) -> None:
        """Finish the remembered exchange that others wait for: send its answer."""
        if self.state is _BUSY:
            self.exchange = None
            if not self.transport.send(data):
                if self.state is _BUSY:
                    self.state = _BLOCKED
            elif self._waiting or self._splitter.unfinished:
                self.state = _READY
                self._follow(now)
            elif self.state is _BUSY:
                self.state = _READY

    def _follow(self, now: float) -> None:
        """Serve the queued requests. An exception costs only this client's connection."""
        try:
            self._go_on(now)
        except Exception as error:
            self.failed(error)

    # Requests

    def _wait(self, frames: list[bytes]) -> None:
        if frames:
            if self._waiting is _NOTHING:
                self._waiting = deque()
            self._waiting += frames
            self._waiting_bytes += sum(map(len, frames))

    def _go_on(self, now: float) -> None:
        """Serve the queued requests that need not wait any longer; then stop or resume reading."""
        waiting = self._waiting
        if waiting:
            ends = time.monotonic() + PIPELINED
            while waiting and (self.state is _READY or self.state is _READING):
                frame = waiting.popleft()
                self._waiting_bytes -= len(frame)
                if frame is _END:
                    self.transport.close()
                    return
                self._serve(frame, now)
                if time.monotonic() > ends and waiting and self._takes_turns():
                    break
        if self.state is _READY or self.state is _READING:
            self._waiting = _NOTHING
            unfinished = len(self._splitter.unfinished)
            self.state = _READING if unfinished else _READY
            if unfinished > _LONG_UNFINISHED and self.node.parts is not None:
                self.node.parts.count_request(self, unfinished)
            if self.transport.paused:
                self.transport.resume()
        elif self.state is not _CLOSED and self._waiting_bytes + len(self._splitter.unfinished) > WAITING_BYTES:
            self.transport.pause()

    def _takes_turns(self) -> bool:
        """Let others be served before the rest of the pipelined requests, if this session may serve them at all."""
        parts = self.node.parts
        if parts is None or not (self.state is _READY or self.state is _READING):
            return False
        self.state = _BUSY
        parts.add(_Rest(self))
        return True

    def serve_rest(self, now: float) -> None:
        """Serve pipelined requests that have waited for their turn."""
        if self.state is _BUSY and self.exchange is None:
            self.state = _READY
            self._go_on(now)

    def _must_wait(self, frame: bytes) -> bool:
        parts = self.node.parts
        if parts is None or frame[:2] == _PRODUCE or (len(frame) <= HUGE_FRAME and parts.begin()):
            return False
        self.state = _BUSY
        parts.add(_LongFrame(self, frame))
        parts.count_request(self, len(frame))
        return True

    def serve_in_turn(self, turn: _LongFrame, frame: bytes, now: float) -> bool:
        """Serve a long request, and the bytes since; or decode a huge one, and return True. One that has to wait for
        the answer to another huge one gets its turn again."""
        if self.state is _CLOSED:
            return False
        exchange = turn.exchange
        parts = self.node.parts
        if exchange is None and parts is not None and len(frame) > HUGE_FRAME and parts.is_huge_under_way():
            parts.add(turn)
            return False
        self.state = _READY
        if exchange is None:
            self._serve(frame, now, turn)
            if turn.exchange is not None:
                self.state = _BUSY
                return True
        else:
            interceptor = self.node.interceptor
            if interceptor is None or not interceptor.requested(exchange, now):
                exchange.run(now)
            if not exchange.finished and self.state is not _CLOSED:
                self.begin(exchange)
        self._go_on(now)
        return False

    def _serve(self, frame: bytes, now: float, turn: _LongFrame | None = None) -> None:
        node = self.node
        if len(frame) > LONG_FRAME:
            if turn is None and self._must_wait(frame):
                return
            if node.parts is not None:
                node.parts.drop_request(self)
        if node.frames is not None:
            node.frames.requested(self.number, frame)
        endpoint = node.table.endpoints.get(frame[:4]) or node.table.find(frame)
        if endpoint is None:
            self._refuse_unserved(frame)
            return
        try:
            _, _, _, client_id, body = decode_request_header(frame)
            request = endpoint.decode(frame, body, node.broker)
        except DecodeError as error:
            self.refuse(f"malformed {endpoint.api.name} request, version {endpoint.version}: {error}")
            return
        if client_id != self.client.client_id:
            self.client = self.client._replace(client_id=client_id or "")
            self.remembered = _NOTHING_REMEMBERED
        if turn is not None and len(frame) > HUGE_FRAME:
            huge = turn.exchange = HugeExchange(node, self, endpoint, request, self.client, frame[4:8])
            huge.size = len(frame)
            if node.parts is not None:
                node.parts.huge = ref(huge)
            if node.throttling is not None:
                node.throttling.begin(huge, len(frame), now)
            return
        exchange = Exchange(node, self, endpoint, request, self.client, frame[4:8])
        if node.throttling is not None:
            node.throttling.begin(exchange, len(frame), now)
        interceptor = node.interceptor
        if interceptor is None or not interceptor.requested(exchange, now):
            exchange.run(now)
        if exchange.step is not _SENT and exchange.step is not _REFUSED and self.state is not _CLOSED:
            self.exchange, self.state = exchange, _BUSY
        # A remembered request bypasses interceptor, watch and quotas, so while there is one, no request is remembered.
        if (
            endpoint.key in MAKERS
            and node.interceptor is None
            and node.frames is None
            and not exchange.denied
            and exchange.usage is None
        ):
            try:
                remember(self, exchange, frame, body)
            except Exception as error:
                node.failures.note(Border.CONNECTION, f"remembering a request to {endpoint}", error)

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
    """Return the address of a socket's peer in the form of Java's `InetAddress`: `/127.0.0.1`, `/0:0:0:0:0:0:0:1`
    (semantics 1)."""
    host = str(address[0]).partition("%")[0]
    if ":" not in host:
        return f"/{host}"
    from ipaddress import IPv6Address

    parsed = IPv6Address(host)
    if parsed.ipv4_mapped is not None:
        return f"/{parsed.ipv4_mapped}"
    return "/" + ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":"))
