"""Annotated hex of a frame: each field of a request or response beside its bytes.

Reads the declared fields one by one, because the compiled decoders do not keep positions. In a malformed frame, the
bytes from the first unreadable field on have no name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.declared import Declarable, Field
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.primitives import read_uvarint
from kafka_shim.apis.wire.types import Array, Blob, Fixed, Nested, Type, string, uuid_text

BYTES_A_LINE: Final = 12
LINES_A_FIELD: Final = 3
"""Number of lines printed for one field; the rest of a long field is left out."""
_TEXT_LENGTH: Final = 60
_SIZE: Final = 4


class Piece(NamedTuple):
    """Bytes `start` to `end`: the field `path`, such as `topics[0].name`, nested in `depth` structs, and its value as
    text.
    """

    start: int
    end: int
    depth: int
    path: str
    text: str


class RequestHeader(NamedTuple):
    """The request header fields needed to read the response."""

    key: int
    version: int
    correlation_id: int


def request_pieces(data: bytes) -> tuple[list[Piece], RequestHeader | None]:
    """Return the fields of a request frame, its size included, and its header if the header is complete."""
    if int.from_bytes(data[:_SIZE]) != len(data) - _SIZE:
        return [Piece(0, len(data), 0, "?", "incomplete frame")], None
    walk: _Walk = _Walk(data)
    header: RequestHeader | None = None
    with suppress(*_UNREADABLE):
        walk.fixed("size", "i")
        key, version = walk.fixed("api_key", "h"), walk.fixed("api_version", "h")
        header = RequestHeader(key, version, walk.fixed("correlation_id", "i"))
        # Not compact in any version: a broker must read it before it knows the version.
        walk.value(string, "client_id", 0, True)
        walk.body(APIS[key], version, APIS[key].request, True)
    return walk.pieces(), header


def answer_pieces(data: bytes, key: int, version: int, *, with_size: bool = True) -> list[Piece]:
    """Return the fields of a response to a request of this API and version; `with_size` if it has the frame's size."""
    walk = _Walk(data)
    with suppress(*_UNREADABLE):
        if with_size:
            walk.fixed("size", "i")
        walk.fixed("correlation_id", "i")
        # The answer to ApiVersions has the old header in all versions.
        walk.body(APIS[key], version, APIS[key].response, key != ApiKey.API_VERSIONS)
    return walk.pieces()


def lines(data: bytes, pieces: list[Piece], limit: int = 4096) -> Iterator[str]:
    """Yield one line per field, or more if its bytes need them: offset, bytes, name and value. Stop after `limit`
    bytes.
    """
    for piece in pieces:
        if piece.start >= limit:
            yield f"    ... {len(data) - piece.start} more bytes"
            return
        field = data[piece.start : piece.end]
        rows = [field[at : at + BYTES_A_LINE].hex(" ") for at in range(0, len(field), BYTES_A_LINE)] or [""]
        label = f"{piece.path}  {piece.text}".rstrip()
        yield f"    {piece.start:04x}  {rows[0]:<{BYTES_A_LINE * 3}}  {label}"
        for number, row in enumerate(rows[1:LINES_A_FIELD], 1):
            yield f"    {piece.start + number * BYTES_A_LINE:04x}  {row}"
        if len(rows) > LINES_A_FIELD:
            yield f"          ... {len(field) - LINES_A_FIELD * BYTES_A_LINE} more bytes of this field"


_UNREADABLE: Final = (struct.error, IndexError, KeyError, DecodeError)


class _Walk:
    """Reads the fields of one frame."""

    def __init__(self, data: bytes) -> None:
        self._pieces: list[Piece] = []
        self._flexible = False
        self._version = 0
        self._data = data
        self._at = 0

    def pieces(self) -> list[Piece]:
        """Return the fields that were read and, if bytes remain, one piece without a name for them."""
        read = self._pieces[-1].end if self._pieces else 0
        if read < len(self._data):
            self._at = len(self._data)
            self._note(read, 0, "?", "bytes of no field")
        return self._pieces

    def body(self, api: Api, version: int, message: type[Declarable], header_has_tags: bool) -> None:
        """Read the rest of the header and the fields of the message."""
        self._version = version
        self._flexible = version in api.request.flexible
        if self._flexible and header_has_tags:
            self._tagged((), "header.", 0)
        if version in api.request.versions:
            self.struct(message, "", 0)

    def fixed(self, path: str, code: str, depth: int = 0) -> Any:
        start = self._at
        (value,) = struct.unpack_from(">" + code, self._data, start)
        self._at += struct.calcsize(">" + code)
        self._note(start, depth, path, _format(path.rpartition(".")[2], value))
        return value

    def struct(self, cls: type[Declarable], path: str, depth: int) -> None:
        present = [each for each in cls.fields if self._version in each.versions]
        tagged = tuple(each for each in present if self._flexible and self._version in each.tagged)
        for each in present:
            if each not in tagged:
                self.value(each.type, path + each.name, depth, self._version in each.nullable)
        if self._flexible:
            self._tagged(tagged, path, depth)

    def value(self, type: Type[Any], path: str, depth: int, nullable: bool) -> None:
        start = self._at
        if isinstance(type, Fixed):
            self.fixed(path, type.code, depth)
        elif isinstance(type, Blob):
            self._blob(type, path, depth)
        elif isinstance(type, Array):
            count = self._length("i")
            self._note(start, depth, path, "null" if count < 0 else f"count {count}")
            for number in range(max(count, 0)):
                self.value(type.element, f"{path}[{number}]", depth + 1, False)
        elif isinstance(type, Nested):
            if nullable:
                self._at += 1
                is_null = self._data[start] >= 0x80
                self._note(start, depth, path, "null" if is_null else "present")
                if is_null:
                    return
            self.struct(type.struct, f"{path}.", depth + 1)

    def _blob(self, type: Blob[Any], path: str, depth: int) -> None:
        start = self._at
        length = self._length(type.code)
        if length < 0:
            self._note(start, depth, path, "null")
            return
        value = self._data[self._at : self._at + length]
        if len(value) < length:
            raise IndexError
        self._at += length
        text = repr(value.decode("utf-8", "replace")) if type.is_text else f"{length} bytes"
        self._note(start, depth, path, text if len(text) <= _TEXT_LENGTH else text[:_TEXT_LENGTH] + "...")

    def _length(self, code: str) -> int:
        """Read the length or count in front of a value; -1 is null."""
        if self._flexible:
            length, self._at = read_uvarint(self._data, self._at)
            return length - 1
        (length,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(length)

    def _tagged(self, fields: tuple[Field, ...], path: str, depth: int) -> None:
        """Read a section of tagged fields. A field that is not declared becomes a piece of plain bytes."""
        start = self._at
        count, self._at = read_uvarint(self._data, self._at)
        self._note(start, depth, f"{path}tags", f"tagged fields {count}")
        for _ in range(count):
            start = self._at
            tag, self._at = read_uvarint(self._data, self._at)
            size, self._at = read_uvarint(self._data, self._at)
            end = self._at + size
            if end > len(self._data):
                raise IndexError
            declared = next((each for each in fields if each.tag == tag), None)
            self._note(start, depth + 1, f"{path}tags[{tag}]", f"tag {tag}, size {size}")
            nullable = declared is not None and self._version in declared.nullable
            if declared is not None and not (isinstance(declared.type, Nested) and nullable):
                self.value(declared.type, path + declared.name, depth + 1, nullable)
            elif size:
                self._at = end
                name = f"tags[{tag}].value" if declared is None else declared.name
                self._note(end - size, depth + 1, path + name, f"{size} bytes")

    def _note(self, start: int, depth: int, path: str, text: str) -> None:
        self._pieces.append(Piece(start, self._at, depth, path, text))


def _format(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return uuid_text(value)
    if name.endswith("error_code"):
        try:
            return f"{value} {ErrorCode(value).name}"
        except ValueError:
            return str(value)
    if name == "api_key" and value in APIS:
        return f"{value} {APIS[value].name}"
    return str(value)
