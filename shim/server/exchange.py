"""One request of a client, from its bytes to the bytes of its answer.

The steps: `run` calls the rule; the rule may park the request; the answer is held until the records that it may show
are durable; then it is sent. At any step the request may be refused, which ends the connection. Rules know an exchange
only as the object that they reply to. An interceptor of the laboratory may hold an exchange before its rule and before
its answer leaves. `requests.py` has the rules; `session.py` decides the time of the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from enum import Enum
from typing import Any, Final

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.interface import NO_REPLY, PARKED, Client
from kafka_shim.server.connection import Connection, State
from kafka_shim.server.failures import Border
from kafka_shim.server.long_answers import SHORT, LongAnswer, characters_of
from kafka_shim.server.node import Node
from kafka_shim.server.parts import MAX_ANSWER_BYTES
from kafka_shim.server.refusals import AnswerTooLongError
from kafka_shim.server.table import Endpoint
from kafka_shim.server.throttling import Mutations, Usage

NO_PIECES: Final[list[bytes]] = []
_VAST: Final = MAX_ANSWER_BYTES // 4
"""The answer to a shorter request is not measured before it is encoded."""
_REUSED_BODY: Final = 4096
"""The largest encoded answer to keep for the next exchange, which may get the same answer."""


class Step(Enum):
    """The progress of an exchange."""

    RUNNING = "running"
    INTERCEPTED = "intercepted"
    PARKED = "parked"
    HELD = "held"
    SENT = "sent"
    REFUSED = "refused"


_RUNNING, _INTERCEPTED, _PARKED, _HELD = Step.RUNNING, Step.INTERCEPTED, Step.PARKED, Step.HELD
_SENT, _REFUSED = Step.SENT, Step.REFUSED
_CLOSED: Final = State.CLOSED
_FETCH: Final = ApiKey.FETCH


class Exchange:
    """One exchange. `arrived` is the time when its rule was called, monotonic seconds. `response` is the answer once a
    rule has returned it, and `data` its frame, or `pieces` that of a long answer; `since` is the time when the answer
    began to wait. `groups` and `broker` are the rules of its `node`, and `version` is the version of the request."""

    __slots__ = (
        "amend",
        "arrived",
        "broker",
        "client",
        "correlation_id",
        "data",
        "denied",
        "endpoint",
        "groups",
        "long",
        "node",
        "pieces",
        "request",
        "response",
        "session",
        "since",
        "step",
        "usage",
        "version",
    )

    request: Any
    amend: Callable[[Message], Message] | None
    """Changes the answer of the rule before it is encoded, for a guarded connection."""
    usage: Usage | None
    """What the exchange uses of the quotas of its client; None without any."""
    denied: bool
    """True if the client lacks a right that the request needs."""

    def __init__(
        self,
        node: Node,
        session: Connection,
        endpoint: Endpoint,
        request: Any,
        client: Client,
        correlation_id: bytes,
    ) -> None:
        self.node = node
        self.groups = node.groups
        self.broker = node.broker
        self.session = session
        self.endpoint = endpoint
        self.version = endpoint.version
        self.request = request
        self.client = client
        self.correlation_id = correlation_id
        self.arrived = self.since = 0.0
        self.response: Message | None = None
        self.data = b""
        self.step = _RUNNING
        self.long: LongAnswer | None = None
        self.pieces: list[bytes] = NO_PIECES
        self.amend = None
        self.denied = False
        self.usage = None

    @property
    def mutations(self) -> Mutations | None:
        """Return the quota of changes of topics; None without one."""
        return None if self.usage is None else self.usage.mutations

    @property
    def common(self) -> Any:
        """Return the object that all parts of a divided request have in common (`Divided.common`), if any."""
        return None if self.long is None else self.long.common

    @property
    def is_long(self) -> bool:
        """Return True if its request or its answer has very many bytes."""
        return bool(self.pieces)

    @property
    def finished(self) -> bool:
        """Return True if the next request of the connection may be served."""
        return self.step is _SENT or self.step is _REFUSED

    @property
    def under_way(self) -> bool:
        """Return True until it is answered, parked or held, or its connection has ended."""
        return self.step is _RUNNING and self.session.state is not _CLOSED

    def copy(self, session: Connection) -> Exchange:
        """Return the same request as if it had come on another connection of the node."""
        return Exchange(self.node, session, self.endpoint, self.request, self.client, self.correlation_id)

    # Steps

    def run(self, now: float) -> None:
        """Call the rule of the request."""
        if self.session.state is _CLOSED:
            return
        self.arrived = now
        self.step = _RUNNING
        endpoint, node = self.endpoint, self.node
        endpoint.calls += 1
        if node.frames is not None:
            node.frames.running(self)
        if endpoint.feature is not None and not self.broker.has_feature(endpoint.feature):
            self.fail(ErrorCode.UNSUPPORTED_VERSION, now)
            return
        if endpoint.divided is not None:
            parts = endpoint.divided.parts(self.request, self)
            if parts is not None:
                self._run_in_parts(parts, endpoint.divided.common, now)
                return
        outbox = node.outbox
        outbox.required_batch = 0
        guard = self.session.guard
        try:
            response = endpoint.rule(self.request, self) if guard is None else guard.ask(self.request, self)
        except AnswerTooLongError:
            self._refuse_long()
            return
        except Exception as error:
            response = self._unforeseen(error, now)
        if response is PARKED:
            self.step = _PARKED
            if self.usage is not None:
                self.usage.park()
            if outbox.tracing:
                node.exchanges.parked(self)
        elif response is NO_REPLY:
            self._end(now)
        else:
            assert isinstance(response, Message)
            self.answer(response, outbox.required_batch, now)

    def _run_in_parts(self, parts: Iterator[Message | int], common: Callable[[], Any] | None, now: float) -> None:
        self.long = LongAnswer(parts, None if common is None else common())
        if self.usage is not None:
            self.usage.park()
        waiting = self.node.parts
        if waiting is not None:
            waiting.add(self)
        else:
            while self.go_on(now):
                pass

    def go_on(self, now: float) -> bool:
        """Answer the next part of a long request; return False once its answer leaves, or its connection has ended."""
        endpoint, long = self.endpoint, self.long
        if self.session.state is _CLOSED or long is None:
            return False
        outbox = self.node.outbox
        usage = self.usage
        if usage is not None:
            usage.go_on()
        part = next(long.parts, None)
        if part is None:
            self._answer_in_whole(long, now)
            return False
        if isinstance(part, int):
            long.repeat(part)
        else:
            outbox.required_batch = 0
            guard = self.session.guard
            try:
                response = endpoint.rule(part, self) if guard is None else guard.ask(part, self)
                if response is NO_REPLY:
                    return True
                assert isinstance(response, Message)
                if self.amend is not None:
                    response, self.amend = self.amend(response), None
                if self.response is None:
                    self.response = response
                divided = endpoint.divided
                if divided is not None and divided.merge is not None:
                    _add_endpoints(self.response, response)
                    long.keep(getattr(response, divided.answers), outbox.required_batch)
                else:
                    long.add(endpoint.encode_part(endpoint.shape(response, endpoint.version)), outbox.required_batch)
            except AnswerTooLongError:
                self._refuse_long()
                return False
            except Exception as error:
                self._drop_pieces()
                self.answer(self._unforeseen(error, now), 0, now)
                return False
        if long.held > SHORT and self.node.parts is not None:
            self.node.parts.hold(self.session, long.held)
        if usage is not None:
            usage.park()
        if long.size > MAX_ANSWER_BYTES:
            self._refuse_long()
            return False
        return True

    def _answer_in_whole(self, long: LongAnswer, now: float) -> None:
        if self.response is None:
            self._end(now)
            return
        divided = self.endpoint.divided
        if divided is not None and divided.merge is not None:
            setattr(self.response, divided.answers, divided.merge(long.kept))
            self.long = None
            self.answer(self.response, long.required_batch, now)
            return
        throttling = self.node.throttling
        if throttling is not None and self.usage is not None:
            response = throttling.charge(self, self.response, now)
            if response is not self.response:
                # The head of the answer again, now with the time for which the client is throttled.
                assert response is not None
                assert self.endpoint.divided is not None
                head = copy(response)
                setattr(head, self.endpoint.divided.answers, [])
                long.add(self.endpoint.encode_part(self.endpoint.shape(head, self.endpoint.version)), 0)
                self.response = response
        self.pieces = self.endpoint.frame_of(self.correlation_id, long.body(self.endpoint))
        if long.size <= SHORT or self.node.parts is None:
            self._join()
        self._leave(long.required_batch, now)

    def _join(self) -> None:
        """Make one piece of an answer in pieces."""
        self.data = b"".join(self.pieces)
        self._drop_pieces()

    def _drop_pieces(self) -> None:
        self.long, self.pieces = None, NO_PIECES
        if self.node.parts is not None:
            self.node.parts.release(self.session)

    def _leave(self, required_batch: int, now: float) -> None:
        """Send the encoded answer when batch `required_batch` is durable."""
        durability = self.node.durability
        if required_batch > durability.durable:
            self.step = _HELD
            self.since = now
            durability.held[required_batch].append(self)
        else:
            self.send(now)

    def _unforeseen(self, error: Exception, now: float) -> Message:
        """Return the answer after the rule raised. Records that it wrote are not trusted."""
        node, endpoint, request = self.node, self.endpoint, self.request
        self.amend = None
        node.failures.note(Border.REQUEST, f"{endpoint} of {self.session.transport.peer}", error)
        outbox = node.outbox
        if outbox.records and outbox.required_batch == outbox.batch:
            names = endpoint.row.groups_of(request) + endpoint.row.transactional_ids_of(request)
            node.durability.distrust({node.groups.partition_of(name) for name in names}, now)
        outbox.required_batch = 0
        response: Message = endpoint.api.error(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        return response

    def answer(self, response: Message, required_batch: int, now: float) -> None:
        """Answer the request with `response`, which leaves when batch `required_batch` is durable."""
        session = self.session
        if session.state is _CLOSED:
            return
        if self.amend is not None:
            response, self.amend = self.amend(response), None
        if self.usage is not None:
            response = self._charged(response, now)
        self.response = response
        endpoint = self.endpoint
        last_response, body = session.last_answer
        if response is not last_response:
            try:
                body = endpoint.body(response)
            except Exception as error:
                self.node.failures.note(Border.ANSWER, f"encoding the answer to {endpoint}", error)
                self._drop_pieces()
                self.response = response = endpoint.api.error(self.request, ErrorCode.UNKNOWN_SERVER_ERROR)
                try:
                    body = endpoint.body(response)
                except Exception:
                    self._refuse_answer("cannot be encoded")
                    return
            if len(body) > SHORT:
                self._answer_long(body, required_batch, now)
                return
            if endpoint.key is _FETCH and len(body) <= _REUSED_BODY:
                session.last_answer = (response, body)
        self.data = endpoint.frame(self.correlation_id, body)
        # As `_leave`, without another call: every ordinary answer passes here.
        durability = self.node.durability
        if required_batch > durability.durable:
            self.step = _HELD
            self.since = now
            durability.held[required_batch].append(self)
        else:
            self.send(now)

    def _answer_long(self, body: bytes, required_batch: int, now: float) -> None:
        """Send a long answer that was encoded at once as the client reads it."""
        if len(body) > MAX_ANSWER_BYTES:
            self._refuse_long()
            return
        parts = self.node.parts
        if parts is None:
            self.data = self.endpoint.frame(self.correlation_id, body)
        else:
            self.pieces = self.endpoint.frame_of(self.correlation_id, [body])
            parts.hold(self.session, len(body))
        self._leave(required_batch, now)

    def _charged(self, response: Message, now: float) -> Message:
        """Return the answer with the time for which the client is throttled."""
        throttling = self.node.throttling
        if throttling is None:
            return response
        charged = throttling.charge(self, response, now) or response
        if charged is not response:
            # A throttled fetch gets no records, and they may have been counted.
            self._drop_pieces()
        return charged

    def _mute(self, now: float) -> None:
        """Read no more from a throttled client."""
        usage = self.usage
        assert usage is not None
        throttling = self.node.throttling
        if throttling is not None and not usage.is_charged:
            throttling.charge(self, None, now)
        if usage.throttle_ms > 0:
            self.session.mute(now + usage.throttle_ms / 1000)

    def _refuse_answer(self, reason: str) -> None:
        self.step = _REFUSED
        self.session.refuse(f"the answer to {self.endpoint.api.name}, version {self.endpoint.version}, {reason}")

    def _refuse_long(self) -> None:
        self._refuse_answer(f"is longer than {MAX_ANSWER_BYTES} bytes")

    def send(self, now: float) -> None:
        """Show the answer to the trace and the interceptor, and send it; its records are durable."""
        session = self.session
        if session.state is _CLOSED:
            return
        node = self.node
        if node.outbox.listening:
            node.exchanges.answered(self)
        interceptor = node.interceptor
        if interceptor is not None:
            if self.pieces:
                self._join()
            if interceptor.answering(self, self.data, now):
                if self.step is not _INTERCEPTED:
                    self._end(now)
                return
        if self.pieces:
            session.send_in_pieces(self.pieces)
            self.long, self.pieces = None, NO_PIECES
        else:
            session.send(self.data)
        self.step = _SENT
        if self.usage is not None:
            self._mute(now)
        if session.exchange is self:
            session.finish(now)

    def fail(self, code: int, now: float) -> None:
        """Answer `code` in place of an answer that is held or that has not come yet (semantics 2.10)."""
        if not self.finished:
            self.amend = None
            self._drop_pieces()
            self.answer(self.endpoint.api.error(self.request, code), 0, now)

    def broken(self, error: Exception) -> None:
        """End the connection after an exception outside a rule, at the end of an answer or in a following request."""
        self.session.failed(error)

    def deliver(self, data: bytes, now: float) -> None:
        """Send these bytes as the answer, past trace and interceptor."""
        if self.session.state is not _CLOSED:
            self.session.send(data)
            self._end(now)

    def _end(self, now: float) -> None:
        self.step = _SENT
        if self.usage is not None:
            self._mute(now)
        session = self.session
        if session.exchange is self:
            session.finish(now)

    # For interceptors

    def hold(self) -> None:
        """Keep the exchange: the next request of its connection waits until it is run, delivered or substituted."""
        self.step = _INTERCEPTED
        if self.usage is not None:
            self.usage.park()

    def let_go(self, now: float) -> None:
        """End the exchange without an answer, unless an interceptor holds it or has answered it."""
        if self.step is _RUNNING:
            self._end(now)

    def substitute(self, code: int, now: float) -> None:
        """Answer the error `code`, without the rule and without another call of the interceptor."""
        self.response = self.endpoint.api.error(self.request, code)
        if self.node.outbox.listening:
            self.node.exchanges.answered(self)
        self.deliver(self.error_frame(code), now)

    def error_frame(self, code: int) -> bytes:
        """Return the frame of an answer with the error `code`."""
        endpoint = self.endpoint
        return endpoint.frame(self.correlation_id, endpoint.body(endpoint.api.error(self.request, code)))


class HugeExchange(Exchange):
    """An exchange with its answer encoded in a turn of its own, once its records are durable. `size` counts the bytes
    of its request."""

    __slots__ = ("__weakref__", "size")

    size: int

    @property
    def is_long(self) -> bool:
        return True

    def answer(self, response: Message, required_batch: int, now: float) -> None:
        """See `Exchange.answer`."""
        if self.node.parts is None:
            super().answer(response, required_batch, now)
        elif self.session.state is not _CLOSED:
            self.response = response
            self._leave(required_batch, now)

    def send(self, now: float) -> None:
        """Send the answer, or let it be encoded when it is its turn."""
        parts = self.node.parts
        if self.data or self.pieces or parts is None:
            super().send(now)
        else:
            parts.add(_Encoding(self))

    def encode(self, now: float) -> None:
        """Encode the answer, and send it. One that becomes too long, often for errors that repeat a name, is not
        encoded, since others would wait for half a second."""
        assert self.response is not None
        if self.size > _VAST and characters_of(self.response) > MAX_ANSWER_BYTES:
            self._refuse_long()
            return
        super().answer(self.response, 0, now)


def _add_endpoints(whole: Any, part: Any) -> None:
    """Add the addresses of new leaders in the answer to a part (KIP-951), each node once."""
    if part is not whole and getattr(part, "node_endpoints", None):
        nodes = {each.node_id for each in whole.node_endpoints}
        whole.node_endpoints += [each for each in part.node_endpoints if each.node_id not in nodes]


class _Encoding:
    """The turn in which an answer is encoded."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: HugeExchange) -> None:
        self._exchange = exchange

    def go_on(self, now: float) -> bool:
        self._exchange.encode(now)
        return False

    def broken(self, error: Exception) -> None:
        self._exchange.broken(error)
