"""A frame as hex with the names of its fields, by the declarations of `apis/`.

Decides how bytes are cut into fields; what cannot be read (a frame that is broken on purpose) is shown without names
from there on. It walks a message itself, since a compiled decoder does not say which bytes a field came from.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.types import Array, Blob, Fixed, Nested, Type, uuid, uuid_text
from kafka_shim.conformance.protocol import BY_KEY

_API_VERSIONS: Final = 18
_ROW: Final = 12
_TEXT_SHOWN: Final = 60


@dataclass(frozen=True)
class Piece:
    """Some bytes and what they are: `path` such as `topics[0].name`, `text` its value."""

    start: int
    end: int
    path: str
    text: str


class Reader:
    """Reads one frame; `pieces` is what it has found so far."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.pieces: list[Piece] = []

    def fixed(self, path: str, code: str) -> Any:
        start = self.position
        (value,) = struct.unpack_from(">" + code, self.data, start)
        self.position += struct.calcsize(">" + code)
        name = path.rpartition(".")[2]
        shown = _error(value) if name.endswith("error_code") else str(value)
        if code == "16s":
            shown = uuid_text(value)
        if name == "api_key" and value in BY_KEY:
            shown = f"{value} {BY_KEY[value].name}"
        self._add(start, path, shown)
        return value

    def varint(self, path: str, what: str) -> int:
        start, value, shift = self.position, 0, 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        self._add(start, path, f"{what} {value - 1 if what in ('length', 'count') else value}")
        return value

    def tags(self, path: str) -> None:
        """A section of tagged fields; those that are there are shown as bytes."""
        for _ in range(self.varint(f"{path}tags", "tagged fields")):
            tag = self.varint(f"{path}tags", "tag")
            size = self.varint(f"{path}tags[{tag}]", "size")
            self._add(self.position, f"{path}tags[{tag}]", f"{size} bytes", self.position + size)
            self.position += size

    def value(self, type: Type[Any], path: str, version: int, flexible: bool, nullable: bool) -> None:
        if isinstance(type, Fixed):
            self.fixed(path, "16s" if type is uuid else type.code)
        elif isinstance(type, Blob):
            self.blob(type, path, flexible)
        elif isinstance(type, Array):
            count = self.varint(path, "count") - 1 if flexible else self.fixed(f"{path} count", "i")
            for index in range(max(0, count)):
                self.value(type.element, f"{path}[{index}]", version, flexible, False)
        elif isinstance(type, Nested):
            if nullable and self.fixed(f"{path} present", "b") < 0:
                return
            self.struct(type.struct, f"{path}.", version, flexible)

    def blob(self, type: Blob[Any], path: str, flexible: bool) -> None:
        start = self.position
        if flexible:
            length = self.varint(path, "length") - 1
            self.pieces.pop()
        else:
            (length,) = struct.unpack_from(">" + type.code, self.data, start)
            self.position += struct.calcsize(">" + type.code)
        if length < 0:
            self._add(start, path, "null")
            return
        value = self.data[self.position : self.position + length]
        if len(value) < length:
            raise IndexError
        self.position += length
        text = repr(value.decode("utf-8", "replace")) if type.is_text else f"{length} bytes"
        self._add(start, path, text if len(text) <= _TEXT_SHOWN else text[:_TEXT_SHOWN] + "...")

    def struct(self, cls: Any, path: str, version: int, flexible: bool) -> None:
        for each in cls.fields:
            if version in each.versions and not (flexible and version in each.tagged):
                self.value(each.type, path + each.name, version, flexible, version in each.nullable)
        if flexible:
            self.tags(path)

    def rest(self) -> None:
        """What is left, without names."""
        if self.position < len(self.data):
            self._add(self.position, "?", "bytes of no field", len(self.data))

    def _add(self, start: int, path: str, text: str, end: int | None = None) -> None:
        self.pieces.append(Piece(start, self.position if end is None else end, path, text))


def request_pieces(data: bytes) -> tuple[list[Piece], tuple[int, int, int] | None]:
    """The fields of a request with its size before it; and its API key, version and correlation id if it has them."""
    reader, sent = Reader(data), None
    try:
        reader.fixed("size", "i")
        key, version = reader.fixed("api_key", "h"), reader.fixed("api_version", "h")
        sent = (key, version, reader.fixed("correlation_id", "i"))
        api = BY_KEY[key]
        flexible = version in api.request.flexible
        reader.value(_CLIENT_ID, "client_id", version, False, True)
        if flexible:
            reader.tags("header ")
        if version in api.request.versions:
            reader.struct(api.request, "", version, flexible)
    except (struct.error, IndexError, KeyError):
        """It ends here, as far as anybody can read it."""
    reader.rest()
    return reader.pieces, sent


def answer_pieces(data: bytes, sent: dict[int, tuple[int, int]]) -> list[Piece]:
    """The fields of an answer without its size. `sent`: API key and version by correlation id."""
    reader = Reader(data)
    try:
        key, version = sent[reader.fixed("correlation_id", "i")]
        response = BY_KEY[key].response
        flexible = version in response.flexible
        if flexible and key != _API_VERSIONS:
            reader.tags("header ")
        if version in response.versions:
            reader.struct(response, "", version, flexible)
    except (struct.error, IndexError, KeyError):
        """As above."""
    reader.rest()
    return reader.pieces


def lines_of(data: bytes, pieces: list[Piece], limit: int = 4096) -> Iterator[str]:
    """A line for each field, or several where it is long: offset, bytes, name and value."""
    for piece in pieces:
        shown = data[piece.start : min(piece.end, limit)]
        for start in range(0, max(1, len(shown)), _ROW):
            row = shown[start : start + _ROW].hex(" ")
            name = f"{piece.path}  {piece.text}" if start == 0 else ""
            yield f"    {piece.start + start:04x}  {row:<{_ROW * 3}}  {name}".rstrip()
        if piece.end > limit:
            yield f"    ... {len(data) - limit} more bytes"
            return


def _error(code: int) -> str:
    try:
        return f"{code} {ErrorCode(code).name}"
    except ValueError:
        return str(code)


_CLIENT_ID: Final = Blob("string", str, "h", is_text=True)
