"""A frame as annotated hex: which bytes are which field.

Decides where each field of a message begins and ends, by reading the declared fields one by one. The decoders of
`apis/wire/` do not keep this; what a field means is not known here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire.declared import Declarable, Field
from kafka_shim.apis.wire.headers import is_flexible
from kafka_shim.apis.wire.primitives import read_uvarint
from kafka_shim.apis.wire.types import Array, Blob, Fixed, Nested, Type, string, uuid_text

BYTES_A_LINE: Final = 12
SHOWN_LINES: Final = 3
"""Lines of a field that are shown; the rest of a long one is left out."""


class Span(NamedTuple):
    """The bytes from `start` to `end`: the field `name`, within `depth` structs, with this value as text."""

    start: int
    end: int
    depth: int
    name: str
    value: str


def request_spans(data: bytes) -> list[Span]:
    """The fields of a request's frame, its size included."""
    key, version = struct.unpack_from(">hh", data, 4)
    api = APIS[key]
    flexible = is_flexible(key, version)
    walk = _Walk(data, version, False)
    walk.fixed("size", "i")
    walk.fixed("api_key", "h", api.name)
    walk.fixed("api_version", "h")
    walk.fixed("correlation_id", "i")
    # Not compact in any version: a server must read it before it knows the version.
    walk.value(string, "client_id", 0, True)
    walk.flexible = flexible
    if flexible:
        walk.tagged((), 0)
    walk.struct(api.request, 0)
    return walk.spans


def answer_spans(data: bytes, key: int, version: int) -> list[Span]:
    """The fields of the frame of the answer to a request of this API and version, its size included."""
    walk = _Walk(data, version, is_flexible(key, version))
    walk.fixed("size", "i")
    walk.fixed("correlation_id", "i")
    # The answer to ApiVersions has the old header in all versions.
    if walk.flexible and APIS[key].name != "ApiVersions":
        walk.tagged((), 0)
    walk.struct(APIS[key].response, 0)
    return walk.spans


def lines(data: bytes, spans: list[Span]) -> Iterator[str]:
    """Annotated hex: a line for each field, more where its bytes need them."""
    for span in spans:
        field = data[span.start : span.end]
        rows = [field[at : at + BYTES_A_LINE] for at in range(0, len(field), BYTES_A_LINE)] or [b""]
        name = "  " * span.depth + span.name
        label = f"{name:34} {span.value}".rstrip()
        yield f"{span.start:5}  {rows[0].hex(' '):{BYTES_A_LINE * 3}}{label}"
        for number, row in enumerate(rows[1:SHOWN_LINES], 1):
            yield f"{span.start + number * BYTES_A_LINE:5}  {row.hex(' ')}"
        if len(rows) > SHOWN_LINES:
            yield f"       ... {span.end - span.start - SHOWN_LINES * BYTES_A_LINE} bytes more"


class _Walk:
    """Reads the fields of a frame that is whole and well-formed."""

    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.spans: list[Span] = []
        self.flexible = flexible
        self._data = data
        self._version = version
        self._at = 0

    def _note(self, start: int, depth: int, name: str, value: str) -> None:
        self.spans.append(Span(start, self._at, depth, name, value))

    def fixed(self, name: str, code: str, meaning: str = "", depth: int = 0) -> None:
        start = self._at
        (value,) = struct.unpack_from(">" + code, self._data, start)
        self._at += struct.calcsize(">" + code)
        shown = uuid_text(value) if code == "16s" else str(value)
        self._note(start, depth, name, f"{shown}  {meaning}".rstrip())

    def struct(self, cls: type[Declarable], depth: int) -> None:
        present = [each for each in cls.fields if self._version in each.versions]
        tagged = tuple(each for each in present if self._version in each.tagged)
        for each in present:
            if each not in tagged:
                self.value(each.type, each.name, depth, self._version in each.nullable)
        if self.flexible:
            self.tagged(tagged, depth)

    def _length(self, code: str) -> int:
        """A length or count that leads a value; -1 is null."""
        if self.flexible:
            length, self._at = read_uvarint(self._data, self._at)
            return length - 1
        (length,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(length)

    def value(self, type: Type[Any], name: str, depth: int, nullable: bool) -> None:
        start = self._at
        if isinstance(type, Fixed):
            self.fixed(name, type.code, depth=depth)
        elif isinstance(type, Blob):
            length = self._length(type.code)
            found = self._data[self._at : self._at + max(length, 0)]
            self._at += len(found)
            shown = "null" if length < 0 else repr(found.decode()) if type.is_text else f"{length} bytes"
            self._note(start, depth, name, shown)
        elif isinstance(type, Array):
            count = self._length("i")
            self._note(start, depth, name, "null" if count < 0 else f"{count} of them")
            for number in range(max(count, 0)):
                self.value(type.element, f"{name}[{number}]", depth + 1, False)
        elif isinstance(type, Nested):
            if nullable:
                self._at += 1
                is_there = self._data[start] < 0x80
                self._note(start, depth, name, "" if is_there else "null")
                if not is_there:
                    return
            else:
                self._note(start, depth, name, "")
            self.struct(type.struct, depth + 1)

    def tagged(self, fields: tuple[Field, ...], depth: int) -> None:
        start = self._at
        count, self._at = read_uvarint(self._data, self._at)
        self._note(start, depth, "tagged fields", str(count or "none"))
        for _ in range(count):
            start = self._at
            tag, self._at = read_uvarint(self._data, self._at)
            size, self._at = read_uvarint(self._data, self._at)
            end = self._at + size
            field = next((each for each in fields if each.tag == tag), None)
            self._note(start, depth + 1, f"tag {tag}", f"{size} bytes")
            if field is not None and not (isinstance(field.type, Nested) and self._version in field.nullable):
                self.value(field.type, field.name, depth + 1, self._version in field.nullable)
            elif size:
                self._at = end
                self._note(end - size, depth + 1, "unknown" if field is None else field.name, f"{size} bytes")
