"""Connection of a client and a request on it, as other parts of the server see them, and the transport below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Protocol

from kafka_shim.apis.wire import Message
from kafka_shim.groups.interface import Client
from kafka_shim.server.table import Endpoint


class Transport(Protocol):
    """The transport for the bytes of a connection. `paused` is true while reading is stopped."""

    peer: str

    @property
    def paused(self) -> bool: ...

    def send(self, data: bytes) -> bool:
        """Send, and return True if all bytes are out; if not, `Session.drained` is called later."""

    def pause(self) -> None:
        """Read no more from the client until `resume`."""

    def resume(self) -> None:
        """Read again."""

    def close(self) -> None:
        """End the connection, and call `Session.lost`."""


class State(Enum):
    """The use of the next bytes of the client."""

    READY = "ready"
    """They begin a request that can be served at once."""
    READING = "reading"
    """They continue a request with a part here."""
    BUSY = "busy"
    """They wait: an exchange is not finished."""
    BLOCKED = "blocked"
    """They wait: the client has not read all of the last answer."""
    MUTED = "muted"
    """They wait: the client is throttled."""
    CLOSED = "closed"
    """There are none: the connection has ended."""


class Guard(Protocol):
    """The control of the requests of a connection; `secured.py` implements it."""

    def ask(self, request: Any, exchange: Any) -> Any:
        """Call the rule of the exchange for `request`, all of its request or a part, as far as the client may."""

    def not_created(self, topics: Iterable[str], exchange: Any) -> list[str]:
        """Return the topics that the client may not create."""


class Connection(Protocol):
    """A connection; `session.py` implements it.

    `number` counts connections of the process, for the trace. `exchange` is the one that later requests wait for, if
    any. `guard` stands before each rule; None lets everything pass. `last_answer` is a response with its bytes, which
    may serve the next exchange too. `remembered` are the requests that the client may repeat (`remembered/`) by their
    first eight bytes. `last_commit` identifies the sender of the last commit: one that commits again will repeat it.
    `software` is the name and version of the client's software, empty if it did not tell.
    """

    number: int
    transport: Transport
    client: Client
    state: State
    exchange: Any
    guard: Guard | None
    last_answer: tuple[object, bytes]
    remembered: dict[bytes, Any]
    last_commit: object
    software: str

    def begin(self, exchange: Any) -> None:
        """Serve nothing more until this exchange is finished."""

    def send(self, data: bytes) -> None:
        """Send a whole answer."""

    def send_in_pieces(self, pieces: Sequence[bytes]) -> None:
        """Send a whole answer as the client reads it."""

    def sent(self, now: float) -> None:
        """Note that all pieces are sent."""

    def block(self) -> None:
        """Serve nothing more until the client has read what the transport could not send."""

    def mute(self, until: float) -> None:
        """Read nothing more from the client until this time."""

    def finish(self, now: float) -> None:
        """Finish the exchange that others wait for, and serve the requests since."""

    def finish_with(self, data: bytes, now: float) -> None:
        """Finish the remembered exchange that others wait for: send its answer."""

    def refuse(self, reason: str) -> None:
        """Close the connection without an answer, and log why."""

    def failed(self, error: Exception) -> None:
        """Close the connection after an exception while serving this client; other clients go on."""

    def forget(self) -> None:
        """Forget the remembered requests, so that the next one reaches the interceptor before its rule."""


class Call(Protocol):
    """Exchange as the batches and the trace see it; `exchange.py` implements it.

    `arrived` is the time when its rule was called, and `since` the time when its answer began to wait, both monotonic
    seconds. `response` is None until a rule has returned it.
    """

    endpoint: Endpoint
    session: Connection
    client: Client
    correlation_id: bytes
    arrived: float
    since: float
    response: Message | None

    @property
    def request(self) -> Any: ...

    @property
    def is_long(self) -> bool:
        """True if its request or its answer has very many bytes."""

    @property
    def under_way(self) -> bool:
        """True until it is answered, parked or held, or its connection has ended."""

    def run(self, now: float) -> None:
        """Call the rule again."""

    def send(self, now: float) -> None:
        """Send the answer: the batch is durable."""

    def fail(self, code: int, now: float) -> None:
        """Send the error `code`: the batch failed, or the wait is over."""

    def broken(self, error: Exception) -> None:
        """End the connection: a method of this exchange has raised."""
