"""Repeated fetches."""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.fetch import FetchRequest
from kafka_shim.server.connection import Connection
from kafka_shim.server.exchange import Exchange, Step
from kafka_shim.server.remembered.layout import Layout, invert, layout_of, layout_of_request

INITIAL_EPOCH: Final = 0
"""The session epoch of a fetch that opens a session; -1 means a fetch without a session."""
_parked, _sent, _refused = Step.PARKED, Step.SENT, Step.REFUSED


class RememberedFetch:
    """A Fetch, without a session or in an open session."""

    __slots__ = ("_endpoint", "_layout", "_node", "_request")

    def __init__(self, exchange: Exchange, layout: Layout) -> None:
        self._node = exchange.node
        self._endpoint = exchange.endpoint
        self._request: FetchRequest = exchange.request
        self._layout = layout

    def serve(self, session: Connection, data: bytes, now: float) -> bool:
        size, mask, fixed, struct = self._layout
        if len(data) != size or int.from_bytes(data) & mask != fixed:
            return False
        # Without a session the broker recognises the request by its identity.
        request = self._request
        if request.session_id:
            (epoch,) = struct.unpack(data)
            if epoch <= INITIAL_EPOCH:
                return False
            request = request.copied()
            request.session_epoch = epoch
        exchange = Exchange(self._node, session, self._endpoint, request, session.client, data[8:12])
        exchange.run(now)
        if exchange.step is not _sent and exchange.step is not _refused:
            session.begin(exchange)
        return True


def remember_fetch(session: Connection, exchange: Exchange, data: bytes, head: bytes) -> RememberedFetch | None:
    """Return a shortcut for a fetch that the client will repeat: one that changes nothing in its session, or one
    without a session that waits for records, because after them its offsets are others."""
    request = exchange.request
    if request.session_id and request.session_epoch > INITIAL_EPOCH:
        if request.topics or request.forgotten_topics_data:
            return None
        inverted = request.copied()
        invert(inverted, ("session_epoch",))
        layout = layout_of_request(exchange, data, head, inverted, "i")
    elif not request.session_id and request.session_epoch < INITIAL_EPOCH and exchange.step is _parked:
        layout = layout_of(data, data, "")
    else:
        return None
    return None if layout is None else RememberedFetch(exchange, layout)
