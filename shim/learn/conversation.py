"""Frames of a conversation: the bytes of connections cut into requests, and each answer matched with its request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafka_shim.apis.annotated import answer_pieces, lines, request_pieces
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.frames import FrameSplitter


class Frame(NamedTuple):
    """One frame with its size. `key` and `version` are those of the request, also for an answer."""

    connection: int
    way: str
    """`in` for a request, `out` for an answer."""
    key: int
    version: int
    data: bytes

    def lines(self) -> Iterator[str]:
        """Yield a title, then annotated hex."""
        api = APIS.get(self.key)
        kind = "request" if self.way == "in" else "answer"
        name = f"API key {self.key}" if api is None else api.name
        yield f"{name} v{self.version}, {kind} on connection {self.connection}, {len(self.data)} bytes"
        if self.way == "in":
            yield from lines(self.data, request_pieces(self.data)[0])
        else:
            yield from lines(self.data, answer_pieces(self.data, self.key, self.version))


class Conversation:
    """Cuts the bytes of connections into frames, in order of arrival."""

    def __init__(self) -> None:
        self._requests: dict[int, FrameSplitter] = {}
        self._in_flight: dict[tuple[int, bytes], tuple[int, int]] = {}
        """By connection and correlation id, the key and version of a request without an answer."""

    def feed(self, way: str, connection: int, data: bytes) -> list[Frame]:
        """Return the frames that these bytes complete. An answer always comes whole."""
        if way == "out":
            key, version = self._in_flight.pop((connection, data[4:8]), (-1, -1))
            return [Frame(connection, way, key, version, data)]
        try:
            bodies = self._requests.setdefault(connection, FrameSplitter()).feed(data)
        except DecodeError:
            return []
        frames = []
        for body in bodies:
            key, version = int.from_bytes(body[:2], signed=True), int.from_bytes(body[2:4], signed=True)
            self._in_flight[connection, bytes(body[4:8])] = key, version
            frames.append(Frame(connection, way, key, version, len(body).to_bytes(4) + body))
        return frames
