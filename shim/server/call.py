"""Side of a request that the broker and the groups see: the batch its answer waits for, and its line in the trace."""

from __future__ import annotations

from typing import Any, Protocol

from kafka_shim.apis.wire import Message
from kafka_shim.groups.interface import Client
from kafka_shim.server.connection import Connection
from kafka_shim.server.table import Endpoint


class Call(Protocol):
    """An exchange; `exchange.py` implements it.

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

    def run(self, now: float) -> None:
        """Call the rule again."""

    def send(self, now: float) -> None:
        """Send the answer: the batch is durable."""

    def fail(self, code: int, now: float) -> None:
        """Send the error `code`: the batch failed, or the wait is over."""

    def broken(self, error: Exception) -> None:
        """End the connection: a method of this exchange has raised."""
