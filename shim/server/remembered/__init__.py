"""Requests that a client repeats, recognised by their bytes: a shortcut to an exchange.

A request is a repeat if it differs only in the correlation id and certain numbers: in a commit the partitions, offsets
and leader epochs, in a fetch the epoch of its session. `layout.py` locates these numbers. The shortcut calls the same
rule as the table of requests; it saves splitting, decoding and encoding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kafka_shim.apis.keys import ApiKey
from kafka_shim.server.connection import Connection, State
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.remembered.commits import remember_commit
from kafka_shim.server.remembered.fetches import remember_fetch
from kafka_shim.server.remembered.heartbeats import remember_consumer_heartbeat, remember_heartbeat
from kafka_shim.server.remembered.layout import shared

MAX_REQUESTS: Final = 16
MAX_BYTES: Final = 16 * 1024
"""The limits for one session: the number of remembered requests, and their total size."""


class RememberedRequest(Protocol):
    """A remembered request of a connection."""

    def serve(self, session: Connection, data: bytes, now: float) -> bool:
        """Serve `data` if it is exactly one repeat of this request; else change nothing and return False. The first
        eight bytes are equal already."""


MAKERS: Final[dict[int, Callable[[Connection, Exchange, bytes, bytes], RememberedRequest | None]]] = {
    ApiKey.HEARTBEAT: remember_heartbeat,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: remember_consumer_heartbeat,
    ApiKey.FETCH: remember_fetch,
    ApiKey.OFFSET_COMMIT: remember_commit,
}


def remember(session: Connection, exchange: Exchange, frame: bytes, body: int) -> None:
    """Remember a request of an API in `MAKERS` if a repeat can be served faster. `body` is the start of its body in
    `frame`."""
    if len(frame) >= MAX_BYTES or session.state is State.CLOSED:
        return
    data = len(frame).to_bytes(4) + frame
    repeat = MAKERS[exchange.endpoint.key](session, exchange, data, data[: body + 4])
    if repeat is not None:
        head = shared(data[:8])
        remembered = session.remembered
        if head not in remembered:
            # The head of a remembered request begins with its size.
            together = len(data) + sum(int.from_bytes(each[:4]) for each in remembered)
            if not remembered or len(remembered) == MAX_REQUESTS or together > MAX_BYTES:
                remembered = session.remembered = {}
        remembered[head] = repeat
