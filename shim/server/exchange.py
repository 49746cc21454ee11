"""One request of a client, from its bytes to the bytes of its answer.

Decides through which steps a request goes: it is run, which is to be handed to its rule; it may be parked by the rule;
its answer is held until the records that it may show are durable; then it is sent. Instead of any of these it may be
refused, which ends the connection. Rules know an exchange only as the object that they reply to. An interceptor of the
laboratory may hold an exchange before its rule and before its answer leaves. It does not know what a request does
(`requests.py`), nor when a connection's next request is served (`session.py`).
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any, Final, Protocol

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import EncodeError, Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.broker import Broker
from kafka_shim.groups.interface import NO_REPLY, PARKED, Client
from kafka_shim.groups.service import GroupService
from kafka_shim.server.node import Node, Transport
from kafka_shim.server.table import Endpoint

log: Final = logging.getLogger("kafka_shim.server")

_REUSED_BODY: Final = 4096
"""Encoded answers of so many bytes are kept for the next exchange, which may get the same answer."""


class Step(Enum):
    """How far an exchange is."""

    RUNNING = "running"
    INTERCEPTED = "intercepted"
    PARKED = "parked"
    HELD = "held"
    SENT = "sent"
    REFUSED = "refused"


_RUNNING, _INTERCEPTED, _PARKED, _HELD = Step.RUNNING, Step.INTERCEPTED, Step.PARKED, Step.HELD
_SENT, _REFUSED = Step.SENT, Step.REFUSED
_FETCH: Final = ApiKey.FETCH


class Conversation(Protocol):
    """The connection that an exchange is on; `session.py` has it."""

    node: Node
    transport: Transport
    number: int
    exchange: Exchange | None
    last_answer: tuple[object, bytes]

    @property
    def closed(self) -> bool: ...

    @property
    def client_id(self) -> str: ...

    def send(self, data: bytes) -> None: ...

    def refuse(self, reason: str) -> None: ...

    def finish(self, now: float) -> None: ...

    def finish_with(self, data: bytes, now: float) -> None: ...


class Exchange:
    """`arrived` is when the request was handed to its rule, monotonic seconds. `response` is the answer once a rule has
    returned it, and `data` its frame; `since` is when it began to be held."""

    __slots__ = (
        "arrived",
        "client",
        "correlation_id",
        "data",
        "endpoint",
        "request",
        "response",
        "session",
        "since",
        "step",
    )

    request: Any

    def __init__(
        self,
        session: Conversation,
        endpoint: Endpoint,
        request: Any,
        client: Client,
        correlation_id: bytes,
    ) -> None:
        self.session = session
        self.endpoint = endpoint
        self.request = request
        self.client = client
        self.correlation_id = correlation_id
        self.arrived = self.since = 0.0
        self.response: Message | None = None
        self.data = b""
        self.step = _RUNNING

    @property
    def version(self) -> int:
        """The version of the request."""
        return self.endpoint.version

    @property
    def groups(self) -> GroupService:
        """The group rules of the node that got the request."""
        return self.session.node.groups

    @property
    def broker(self) -> Broker:
        """The other rules of that node."""
        return self.session.node.broker

    @property
    def finished(self) -> bool:
        """Whether the next request of the connection may be served."""
        return self.step is _SENT or self.step is _REFUSED

    def copy(self, session: Conversation) -> Exchange:
        """The same request as if it had come on another connection."""
        return Exchange(session, self.endpoint, self.request, self.client, self.correlation_id)

    # Steps

    def arrive(self, now: float) -> None:
        """Show the request to the interceptor, and run it unless that takes it over."""
        interceptor = self.session.node.interceptor
        if interceptor is None or not interceptor.requested(self, now):
            self.run(now)

    def run(self, now: float) -> None:
        """Hand the request to its rule."""
        session = self.session
        if session.closed:
            return
        self.arrived = now
        self.step = _RUNNING
        endpoint, node = self.endpoint, session.node
        endpoint.calls += 1
        if node.frames is not None:
            node.frames.running(self)
        outbox = node.outbox
        outbox.begin()
        try:
            response = endpoint.rule(self.request, self)
        except Exception:
            log.exception("%s of %s failed", endpoint, session.transport.peer)
            response = endpoint.api.error(self.request, ErrorCode.UNKNOWN_SERVER_ERROR)
        if response is PARKED:
            self.step = _PARKED
            if outbox.tracing:
                node.exchanges.parked(self)
        elif response is NO_REPLY:
            self._end(now)
        else:
            assert isinstance(response, Message)
            self.answer(response, outbox.required_batch, now)

    def answer(self, response: Message, required_batch: int, now: float) -> None:
        """The request has this answer, which leaves when batch `required_batch` is durable."""
        session = self.session
        if session.closed:
            return
        self.response = response
        endpoint = self.endpoint
        last_response, body = session.last_answer
        if response is not last_response:
            try:
                body = endpoint.body(response)
            except EncodeError:
                log.exception("the answer to %s cannot be encoded", endpoint)
                self.step = _REFUSED
                session.refuse(f"the answer to {endpoint.api.name}, version {endpoint.version}, cannot be encoded")
                return
            if endpoint.key is _FETCH and len(body) <= _REUSED_BODY:
                session.last_answer = (response, body)
        self.data = endpoint.frame(self.correlation_id, body)
        durability = session.node.durability
        if required_batch > durability.durable:
            self.step = _HELD
            self.since = now
            durability.hold(required_batch, self)
        else:
            self.send(now)

    def send(self, now: float) -> None:
        """What the answer may show is durable: show it to the trace and the interceptor, and let it leave."""
        session = self.session
        if session.closed:
            return
        node = session.node
        if node.outbox.tracing:
            node.exchanges.answered(self)
        interceptor = node.interceptor
        if interceptor is None or not interceptor.answering(self, self.data, now):
            self.deliver(self.data, now)
        elif self.step is not _INTERCEPTED:
            self._end(now)

    def fail(self, code: int, now: float) -> None:
        """Answer `code` in place of the answer that was held or that has not come yet (semantics 2.10)."""
        if not self.finished:
            self.answer(self.endpoint.api.error(self.request, code), 0, now)

    def deliver(self, data: bytes, now: float) -> None:
        """Send these bytes as the answer. Neither trace nor interceptor see them."""
        if not self.session.closed:
            self.session.send(data)
            self._end(now)

    def _end(self, now: float) -> None:
        self.step = _SENT
        session = self.session
        if session.exchange is self:
            session.finish(now)

    # For interceptors

    def hold(self) -> None:
        """Keep the exchange: nothing more of its connection is served until it is run, delivered or substituted."""
        self.step = _INTERCEPTED

    def substitute(self, code: int, now: float) -> None:
        """Answer the error `code` without calling the rule or, again, the interceptor."""
        self.response = self.endpoint.api.error(self.request, code)
        if self.session.node.outbox.tracing:
            self.session.node.exchanges.answered(self)
        self.deliver(self.error_frame(code), now)

    def error_frame(self, code: int) -> bytes:
        """The frame of the answer that says `code`."""
        endpoint = self.endpoint
        return endpoint.frame(self.correlation_id, endpoint.body(endpoint.api.error(self.request, code)))
