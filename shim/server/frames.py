"""The newest frames of a process for a page that watches: the bytes of requests and answers, and the deciding rows.

The kind of a group says the row of a request (`Kind.row_of`), just before the rule runs. Without a watcher no frame is
kept, and repeated requests take their shortcut (`remembered/`). `apis/annotated.py` splits bytes into fields.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.apis.annotated import Piece, answer_pieces, request_pieces
from kafka_shim.apis.wire import uuid_text
from kafka_shim.groups.interface import Row
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.node import Node
from kafka_shim.server.passwords import holds_password

KEPT_BYTES: Final = 8 * 1024 * 1024
"""The limit in bytes; the oldest frames are dropped first."""
LARGEST: Final = 256 * 1024
"""A longer frame is not kept."""
_OVERHEAD: Final = 512
"""The memory of a pair beside its bytes, roughly."""
MOST_NAMES: Final = 100
"""Names of one kind of resource of a request to show at most."""
_ID_REQUIRED_SINCE: Final = 4
"""The first version of JoinGroup in which a new member gets an id and joins again with it (KIP-394)."""


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
    """The time when its rule was called, in seconds of the coordinator's clock; None before."""
    row: Row | None = None
    """The row of a table that decides the request; None if no table does."""
    concerns: tuple[str, ...] = ()
    """The resources of the request, each with the operation that a client must be allowed on it."""

    @property
    def size(self) -> int:
        """The bytes of memory that it takes, roughly."""
        return len(self.request) + len(self.answer) + sum(map(len, self.concerns)) + _OVERHEAD

    def as_dict(self) -> dict[str, Any]:
        """Return all fields for a page: bytes as hex, their split into fields, and the row."""
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
    """The newest frames of some nodes. While it has a watcher it is the `FrameWatch` of the nodes."""

    def __init__(self, nodes: Callable[[], Iterable[Node]], kept_bytes: int = KEPT_BYTES) -> None:
        self._nodes = nodes
        self._kept_bytes = kept_bytes
        self._bytes = 0
        self._pairs: deque[FramePair] = deque()
        """Oldest first."""
        self._open: dict[tuple[int, int], FramePair] = {}
        """Pairs without an answer, by connection and correlation id."""
        self._watchers = 0

    def start(self) -> None:
        """Keep frames from now on, until each `start` has had its `stop`."""
        self._watchers += 1
        for node in self._nodes():
            node.frames = self
            for session in node.sessions:
                session.forget()

    def stop(self) -> None:
        """End one `start`. The last one drops all frames."""
        self._watchers -= 1
        if not self._watchers:
            for node in self._nodes():
                node.frames = None
            self._pairs.clear()
            self._open.clear()
            self._bytes = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keep frames while the block runs."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def find(self, connection: int, correlation_id: int, arrived: float | None = None) -> FramePair | None:
        """Return the newest kept frames of a request by the numbers of its `exchange` event. If a client uses a
        correlation id twice, `arrived` tells which one."""
        for pair in reversed(self._pairs):
            same = pair.connection == connection and pair.correlation_id == correlation_id
            if same and arrived in (None, pair.arrived):
                return pair
        return None

    def __iter__(self) -> Iterator[FramePair]:
        return iter(self._pairs)

    # `FrameWatch`

    def requested(self, connection: int, frame: bytes) -> None:
        """See `FrameWatch`."""
        if 8 <= len(frame) <= LARGEST and not holds_password(frame):
            correlation_id = int.from_bytes(frame[4:8], signed=True)
            pair = FramePair(connection, correlation_id, len(frame).to_bytes(4) + frame)
            self._open[connection, correlation_id] = pair
            self._pairs.append(pair)
            self._count(pair.size)

    def running(self, exchange: Exchange) -> None:
        """See `FrameWatch`."""
        pair = self._open.get((exchange.session.number, int.from_bytes(exchange.correlation_id, signed=True)))
        if pair is not None:
            pair.arrived = exchange.arrived
            pair.node = exchange.node.id
            pair.client_id = exchange.client.client_id
            pair.api = exchange.endpoint.api.name
            pair.row = _row_of(exchange)
            # The rule may be called again, after a pause.
            before = pair.size
            pair.concerns = tuple(_concerns(exchange))
            self._count(pair.size - before)

    def answered(self, connection: int, data: bytes, *, is_whole: bool = True) -> None:
        """See `FrameWatch`."""
        pair = self._open.pop((connection, int.from_bytes(data[4:8], signed=True)), None)
        if pair is not None and is_whole and len(data) <= LARGEST:
            pair.answer = data
            self._count(len(data))

    def _count(self, more: int) -> None:
        self._bytes += more
        while self._bytes > self._kept_bytes:
            oldest = self._pairs.popleft()
            self._bytes -= oldest.size
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
    """Yield the resources with their operations, such as `READ of group billing`."""
    for resource, operation, names in exchange.endpoint.row.concerns:
        what = resource.name.lower().replace("_", " ")
        every = list(names(exchange.request))
        of = ", ".join(uuid_text(name) if isinstance(name, bytes) else name for name in every[:MOST_NAMES])
        more = f" and {len(every) - MOST_NAMES:,} more" if len(every) > MOST_NAMES else ""
        yield f"{operation.name} of {what} {of}{more}".rstrip()
