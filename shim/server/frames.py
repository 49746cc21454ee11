"""The newest frames of a process, while somebody watches: the bytes of requests and answers, and what decided.

Decides how many are kept. Which row of a table a request met, the kind of its group says (`Kind.row_of`): it looks at
the group just before the rule does. While nobody watches nothing is kept, and repeated requests take their shortcut
(`remembered.py`). How bytes are fields, `apis/annotated.py` knows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.apis.annotated import Piece, answer_pieces, request_pieces
from kafka_shim.apis.wire import uuid_text
from kafka_shim.groups.rows import Row
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.node import Node

KEPT_BYTES: Final = 8 * 1024 * 1024
"""Bytes that are kept; the oldest go first."""
LARGEST: Final = 256 * 1024
"""A longer frame is not kept."""
_OVERHEAD: Final = 512
"""What a pair takes beside its bytes, about."""
_ID_REQUIRED_SINCE: Final = 4
"""The first version of JoinGroup whose members come back with the id they were given (KIP-394)."""


@dataclass
class FramePair:
    """A request and its answer, each with its size; `answer` is empty while there is none."""

    connection: int
    correlation_id: int
    request: bytes
    answer: bytes = b""
    node: int = 0
    client_id: str = ""
    api: str = ""
    arrived: float | None = None
    """When it met its rule, seconds of the coordinator's clock; None while it has not."""
    row: Row | None = None
    """The row of a table that the request met; None if no table decides."""
    concerns: tuple[str, ...] = ()
    """What the request is about, each with the operation that a client must be allowed on it."""

    def shown(self) -> dict[str, Any]:
        """Everything for whoever draws it: bytes as hex, the fields that they are, and the row."""
        pieces, sent = request_pieces(self.request)
        key, version = (-1, 0) if sent is None else (sent.key, sent.version)
        row = self.row
        return {
            "connection": self.connection,
            "correlation_id": self.correlation_id,
            "node": self.node,
            "client_id": self.client_id,
            "api": self.api,
            "version": version,
            "arrived": self.arrived,
            "request": _frame(self.request, pieces),
            "answer": _frame(self.answer, answer_pieces(self.answer, key, version)) if self.answer else None,
            "row": None if row is None else {**row._asdict(), "cells": [cell._asdict() for cell in row.cells]},
            "concerns": list(self.concerns),
        }


class FrameHistory:
    """The newest frames of some nodes. It is their `FrameWatch` while somebody watches."""

    def __init__(self, nodes: Callable[[], Iterable[Node]], kept_bytes: int = KEPT_BYTES) -> None:
        self._nodes = nodes
        self._kept_bytes = kept_bytes
        self._bytes = 0
        self._pairs: deque[FramePair] = deque()
        """The oldest first."""
        self._open: dict[tuple[int, int], FramePair] = {}
        """Those without an answer, by connection and correlation id."""
        self._watchers = 0

    def start(self) -> None:
        """Keep frames from now on, until there was a `stop` for every `start`."""
        self._watchers += 1
        for node in self._nodes():
            node.frames = self
            for session in node.sessions:
                session.forget()

    def stop(self) -> None:
        """Whoever called `start` needs no more."""
        self._watchers -= 1
        if not self._watchers:
            for node in self._nodes():
                node.frames = None
            self._pairs.clear()
            self._open.clear()
            self._bytes = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keep frames during a block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def find(self, connection: int, correlation_id: int, arrived: float | None = None) -> FramePair | None:
        """The newest frames of a request by the numbers of its `exchange` event, if they are kept still. A client may
        give a correlation id twice: then it is the one that arrived at this time."""
        for pair in reversed(self._pairs):
            same = pair.connection == connection and pair.correlation_id == correlation_id
            if same and arrived in (None, pair.arrived):
                return pair
        return None

    def __iter__(self) -> Iterator[FramePair]:
        return iter(self._pairs)

    # As the nodes' watch

    def requested(self, connection: int, frame: bytes) -> None:
        """See `FrameWatch`."""
        if 8 <= len(frame) <= LARGEST:
            correlation_id = int.from_bytes(frame[4:8], signed=True)
            pair = FramePair(connection, correlation_id, len(frame).to_bytes(4) + frame)
            self._open[connection, correlation_id] = pair
            self._pairs.append(pair)
            self._count(len(pair.request) + _OVERHEAD)

    def running(self, exchange: Exchange) -> None:
        """See `FrameWatch`."""
        pair = self._open.get((exchange.session.number, int.from_bytes(exchange.correlation_id, signed=True)))
        if pair is not None:
            pair.arrived = exchange.arrived
            pair.node = exchange.session.node.id
            pair.client_id = exchange.client.client_id
            pair.api = exchange.endpoint.api.name
            pair.row = _row_of(exchange)
            pair.concerns = tuple(_concerns(exchange))

    def answered(self, connection: int, data: bytes) -> None:
        """See `FrameWatch`."""
        pair = self._open.pop((connection, int.from_bytes(data[4:8], signed=True)), None)
        if pair is not None and len(data) <= LARGEST:
            pair.answer = data
            self._count(len(data))

    def _count(self, more: int) -> None:
        self._bytes += more
        while self._bytes > self._kept_bytes:
            oldest = self._pairs.popleft()
            self._bytes -= len(oldest.request) + len(oldest.answer) + _OVERHEAD
            key = oldest.connection, oldest.correlation_id
            if self._open.get(key) is oldest:
                del self._open[key]


def _frame(data: bytes, pieces: list[Piece]) -> dict[str, Any]:
    return {"hex": data.hex(), "pieces": [piece._asdict() for piece in pieces]}


def _row_of(exchange: Exchange) -> Row | None:
    names = exchange.endpoint.row.groups_of(exchange.request)
    if len(names) != 1:
        return None
    id_required = exchange.version >= _ID_REQUIRED_SINCE
    return exchange.groups.row_of(names[0], exchange.request, member_id_required=id_required)


def _concerns(exchange: Exchange) -> Iterator[str]:
    """`READ of group billing`, say."""
    for resource, operation, names in exchange.endpoint.row.concerns:
        what = resource.name.lower().replace("_", " ")
        of = ", ".join(uuid_text(name) if isinstance(name, bytes) else name for name in names(exchange.request))
        yield f"{operation.name} of {what} {of}".rstrip()
