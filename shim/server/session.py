"""One connection's conversation: bytes in, frames, one request at a time, bytes out.

Decides when a request runs and when its answer leaves, what is done with bytes that are no request, and when to stop
listening to a client. Knows no socket: a `Transport` carries the bytes. It knows no rule: `table.py` names them.

As in Kafka, a connection's requests are answered in order and one at a time: while one is parked, or its answer waits
for records to become durable or for the client to read the one before, later ones wait. Of those only so many bytes are
taken from the client; then reading stops until there is room.

Clients send the same Heartbeat, Fetch or OffsetCommit again and again, different only in the correlation id and a few
numbers. So the last ones are remembered (`memo.py`): bytes that are the same are not decoded again, and go to the same
rule.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import DecodeError, EncodeError, Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.frames import FrameError, FrameSplitter
from kafka_shim.apis.wire.frames import frame as framed
from kafka_shim.apis.wire.headers import decode_request_header
from kafka_shim.groups.interface import NO_REPLY, PARKED, Client
from kafka_shim.server.call import Call
from kafka_shim.server.durability import Held
from kafka_shim.server.memo import REMEMBERED, Memo, remember
from kafka_shim.server.table import Served

if TYPE_CHECKING:
    from kafka_shim.server.node import Node

log: Final = logging.getLogger("kafka_shim.server")

WAITING_BYTES: Final = 64 * 1024
"""How much is taken from a client whose earlier request is not answered yet."""

_REMEMBERED_ANSWER: Final = 4096

_MEMOS: Final = 4
_MEMO_BYTES: Final = 16 * 1024
"""How many requests of a session are remembered, and how long they may be together."""

_NO_MEMOS: Final[dict[bytes, Memo]] = {}

_NOTHING: Final[deque[bytes]] = deque()
"""What waits of almost every session; a deque of its own would be a third of what a session needs."""


class Transport(Protocol):
    """What carries a session's bytes."""

    peer: str

    def send(self, data: bytes) -> bool:
        """Send, and say whether all of it is out; if not, `Session.drained` is called once it is."""

    def pause(self) -> None:
        """Read no more from the client until `resume`."""

    def resume(self) -> None:
        """Read again."""

    def close(self) -> None:
        """End the connection; the session is told by `lost`."""


class _Gone:
    """The transport of a session whose connection is gone."""

    peer = "nobody"

    def send(self, data: bytes) -> bool:
        return True

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        pass


_GONE: Final = _Gone()


class Interceptor(Protocol):
    """What a node may have between its connections and its rules: see `interception.py`."""

    def requested(self, session: Session, now: float) -> bool:
        """The session's request is about to be handed to its rule. True: it is not, and the interceptor sees to it."""

    def answering(self, session: Session, response: Message, data: bytes, now: float) -> bool:
        """The answer `data` is about to leave. True: it does not, and the interceptor sees to it."""


class Session:
    """The conversation on one connection to a node. It is the token of the request it has in hand.

    `number` counts connections of the process, for the trace.
    """

    __slots__ = (
        "_at_rest",
        "_blocked",
        "_call",
        "_last_body",
        "_last_response",
        "_memos",
        "_paused",
        "_splitter",
        "_waiting",
        "_waiting_bytes",
        "arrived",
        "busy",
        "closed",
        "correlation_id",
        "node",
        "number",
        "request",
        "served",
        "transport",
    )

    def __init__(self, node: Node, transport: Transport, client_host: str, number: int) -> None:
        self.node = node
        self.transport = transport
        self.number = number
        self.closed = False
        self.busy = False
        """A request is parked, or its answer waits for the store."""
        self.served: Served | None = None
        self.request: Message | None = None
        self.correlation_id = b""
        self.arrived = 0.0
        self._call = Call(0, Client("", client_host), self, 0.0, node.id, node.groups, node.broker)
        self._splitter = FrameSplitter()
        self._waiting = _NOTHING
        self._waiting_bytes = 0
        self._blocked = False
        self._paused = False
        self._at_rest = True
        self._memos = _NO_MEMOS
        self._last_response: object | None = None
        self._last_body = b""

    @property
    def client_id(self) -> str:
        """The client id of the newest request's header."""
        return self._call.client.client_id

    @property
    def waiting_bytes(self) -> int:
        """How much was read of requests that are not served yet."""
        return self._waiting_bytes + self._splitter.buffered

    # From the client

    def receive(self, data: bytes, now: float) -> None:
        """Bytes arrived at `now`, monotonic seconds."""
        memo = self._memos.get(data[:8])
        if memo is not None and self._at_rest and memo.serve(self, data, now):
            return
        try:
            frames = self._splitter.feed(data)
        except FrameError as error:
            for frame in error.frames:
                self._take(frame)
            self._go_on(now)
            self.refuse(str(error))
            return
        if len(frames) == 1 and not self.busy and not self._waiting and not self._blocked:
            self._serve(frames[0], now)
        else:
            for frame in frames:
                self._take(frame)
            self._go_on(now)
        self._settle_reading()

    def lost(self) -> None:
        """The connection is gone. As in Kafka a parked request stays parked, though nobody gets the answer."""
        if not self.closed:
            self.closed = True
            self._waiting = _NOTHING
            self._splitter = FrameSplitter()
            self._memos = _NO_MEMOS
            self._at_rest = False
            if self.busy:
                self.node.broker.forget(self)
            self.node.sessions.discard(self)
            # Nothing goes round in circles now, so what the connection took is free at once, without the collector.
            self.transport = _GONE
            self._call.token = None

    def drained(self, now: float) -> None:
        """The transport has sent everything; the client reads."""
        self._blocked = False
        self._go_on(now)
        self._settle_reading()

    def refuse(self, reason: str) -> None:
        """Close the connection without an answer, and say why in the log."""
        if not self.closed:
            log.warning("closed the connection of %s: %s", self.transport.peer, reason)
            self.node.refused += 1
            self.transport.close()

    def failed(self) -> None:
        """Serving this client raised what nobody foresaw: it loses its connection, nobody else notices."""
        if not self.closed:
            log.exception("closed the connection of %s: serving it failed", self.transport.peer)
            self.node.refused += 1
            self.transport.close()

    # From the rules

    def reply(self, response: Message, gate: int, now: float) -> None:
        """The parked request is answered; the answer leaves when batch `gate` is durable."""
        if not self.closed:
            self._answer(response, gate, now)
            self._continue(now)

    def release(self, response: Message, data: bytes, now: float) -> None:
        """What the answer may show is durable now."""
        if not self.closed:
            self.busy = False
            self._send(response, data, now)
            self._continue(now)

    def fail(self, code: int, now: float) -> None:
        """What the answer would have shown could not be made durable: the client gets `code` (semantics 2.10)."""
        if not self.closed and self.busy and self.served is not None and self.request is not None:
            self._answer(self.served.api.error(self.request, code), 0, now)
            self._continue(now)

    # From an interceptor

    def forget(self) -> None:
        """Remember no request, so that the next one is not handed to its rule unseen."""
        self._memos = _NO_MEMOS

    def hold(self) -> None:
        """Serve nothing more of this connection until `resume`, `deliver` or `skip`."""
        self.busy = True
        self._at_rest = False

    def resume(self, now: float) -> None:
        """Hand the request that was held to its rule."""
        if not self.closed:
            self.busy = False
            assert self.served is not None
            assert self.request is not None
            self.run(self.served, self.request, now, intercepted=True)
            self._continue(now)

    def deliver(self, data: bytes, now: float) -> None:
        """Send the answer that was held, and go on."""
        if not self.closed:
            self.busy = False
            self.send(data)
            self._continue(now)

    def skip(self, now: float) -> None:
        """Go on as if what was held had been answered."""
        if not self.closed:
            self.busy = False
            self._continue(now)

    def answer(self, response: Message, now: float) -> None:
        """Answer the request in hand without its rule; the interceptor is not asked again."""
        assert self.served is not None
        served = self.served
        if self.node.outbox.tracing:
            self.node.exchanges.answered(self, response)
        self.send(served.answer(self.correlation_id, served.body(response)))

    def twin(self, transport: Transport) -> Session:
        """Another session with the same request in hand, as if it had come over `transport` too."""
        twin = Session(self.node, transport, self._call.client.client_host, self.number)
        twin._call.client = self._call.client
        twin._call.version = self._call.version
        twin.correlation_id = self.correlation_id
        return twin

    def _continue(self, now: float) -> None:
        self._go_on(now)
        self._settle_reading()

    # Requests

    def _take(self, frame: bytes) -> None:
        if self._waiting is _NOTHING:
            self._waiting = deque()
        self._waiting.append(frame)
        self._waiting_bytes += len(frame)

    def _go_on(self, now: float) -> None:
        """Serve what waits, as far as it need not wait any longer."""
        waiting = self._waiting
        while waiting and not (self.busy or self._blocked or self.closed):
            frame = waiting.popleft()
            self._waiting_bytes -= len(frame)
            self._serve(frame, now)
        if not waiting:
            self._waiting = _NOTHING

    def _settle_reading(self) -> None:
        """Stop or resume reading, and note whether the next bytes begin a request that can be served at once."""
        if self.closed:
            return
        stuck = self.busy or self._blocked
        self._at_rest = not (stuck or self._waiting or self._splitter.buffered)
        full = stuck and self.waiting_bytes > WAITING_BYTES
        if full is not self._paused:
            self._paused = full
            if full:
                self.transport.pause()
            else:
                self.transport.resume()

    def _serve(self, frame: bytes, now: float) -> None:
        head = frame[:4]
        table = self.node.table
        served = table.served.get(head)
        if served is None and (len(frame) < 8 or (served := table.find(head)) is None):
            self._refuse_unserved(frame)
            return
        assert served is not None
        try:
            _, _, _, client_id, offset = decode_request_header(frame)
            request = served.decode(frame, offset, self.node.broker)
        except DecodeError as error:
            self.refuse(f"malformed {served.api.name} request, version {served.version}: {error}")
            return
        call = self._call
        if client_id != call.client.client_id:
            call.client = Client(client_id or "", call.client.client_host)
            self._memos = _NO_MEMOS
        call.version = served.version
        self.correlation_id = frame[4:8]
        self.run(served, request, now)
        # A remembered request goes to its rule by a way of its own, past an interceptor.
        if served.key in REMEMBERED and len(frame) < _MEMO_BYTES and self.node.interceptor is None and not self.closed:
            self._remember(served, request, framed(frame), offset + 4)

    def _remember(self, served: Served, request: Message, data: bytes, body: int) -> None:
        head = data[:8]
        memos = self._memos
        memo = remember(self, served, request, data, body, memos.get(head))
        if memo is not None:
            if head not in memos:
                # What a memo begins with says how long it is.
                together = len(data) + sum(int.from_bytes(each[:4]) for each in memos)
                if not memos or len(memos) == _MEMOS or together > _MEMO_BYTES:
                    memos = self._memos = {}
            memos[head] = memo

    def run(self, served: Served, request: Message, now: float, intercepted: bool = False) -> None:
        """Hand a request to its rule. `correlation_id` and the call's client and version are set."""
        call = self._call
        call.now = self.arrived = now
        self.served = served
        self.request = request
        interceptor = self.node.interceptor
        if interceptor is not None and not intercepted and interceptor.requested(self, now):
            return
        served.calls += 1
        outbox = self.node.outbox
        outbox.gate = 0
        try:
            response = served.handle(request, call)
        except Exception:
            log.exception("%s of %s failed", served, self.transport.peer)
            response = served.api.error(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        if response is PARKED:
            self.busy = True
            self._at_rest = False
            if outbox.tracing:
                self.node.exchanges.parked(self)
        elif response is not NO_REPLY:
            assert isinstance(response, Message)
            self._answer(response, outbox.gate, now)

    def take_up(self, served: Served, request: Message, correlation_id: bytes, now: float) -> None:
        """Have a request in hand that its rule was asked already, and serve nothing more until it is answered."""
        self.served = served
        self.request = request
        self.correlation_id = correlation_id
        self.arrived = now
        self.busy = True
        self._at_rest = False

    def answer_later(
        self, served: Served, request: Message, correlation_id: bytes, response: Message, now: float
    ) -> None:
        """Answer a request that a rule was asked already, once the outbox's gate is durable."""
        self.take_up(served, request, correlation_id, now)
        self._answer(response, self.node.outbox.gate, now)

    def _refuse_unserved(self, frame: bytes) -> None:
        key, version = int.from_bytes(frame[:2], signed=True), int.from_bytes(frame[2:4], signed=True)
        if len(frame) < 8:
            self.refuse(f"a request of {len(frame)} bytes, which is less than a header")
        elif key == ApiKey.API_VERSIONS:
            self.send(self.node.table.unsupported_version(frame[4:8]))
        else:
            self.refuse(f"API key {key}, version {version}, is not served")

    # Answers

    def _answer(self, response: Message, gate: int, now: float) -> None:
        served = self.served
        assert served is not None
        if response is self._last_response:
            body = self._last_body
        else:
            try:
                body = served.body(response)
            except EncodeError:
                log.exception("the answer to %s cannot be encoded", served)
                self.refuse(f"the answer to {served.api.name}, version {served.version}, cannot be encoded")
                return
            if served.key == ApiKey.FETCH and len(body) <= _REMEMBERED_ANSWER:
                self._last_response = response
                self._last_body = body
        data = served.answer(self.correlation_id, body)
        durability = self.node.durability
        if gate > durability.durable:
            self.busy = True
            self._at_rest = False
            durability.hold(gate, Held(self, response, data, now))
        else:
            self.busy = False
            self._send(response, data, now)

    def _send(self, response: Message, data: bytes, now: float) -> None:
        if self.node.outbox.tracing:
            self.node.exchanges.answered(self, response)
        interceptor = self.node.interceptor
        if interceptor is None or not interceptor.answering(self, response, data, now):
            self.send(data)

    def send(self, data: bytes) -> None:
        """Send a whole answer that was made before."""
        if not self.transport.send(data):
            self.block()

    def block(self) -> None:
        """The client has not read all of the last answer: nothing more is served until `drained`."""
        self._blocked = True
        self._at_rest = False


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
