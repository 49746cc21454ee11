"""Decoding of an array of structs that all have the same layout, in one sweep.

Most long arrays are uniform: the partitions of a commit all have empty metadata, the members of a group have ids and
subscriptions of equal length. Then every element begins one stride after the element before. The code computes the
stride from the lengths in the first element, checks with strided slices that every element has these lengths and no
tagged fields, and reads all of them by one `struct` layout. If a check fails, or a length takes more than one byte, the
element-by-element loop that follows in the decoder does the work.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack
from typing import Any, Final, Protocol

from kafka_shim.apis.wire.declared import Declarable, Field
from kafka_shim.apis.wire.primitives import TEXT_ERRORS, unpacker
from kafka_shim.apis.wire.source import Source
from kafka_shim.apis.wire.types import Blob, Fixed

WORTHWHILE: Final = 8
"""Shorter arrays are read faster one element at a time."""


class Writer(Protocol):
    """The decoder around the sweep; `decoding.py` implements it."""

    source: Source
    version: int
    flexible: bool

    def default(self, field: Field) -> str: ...


def read_alike(writer: Writer, cls: type[Declarable], items: str, count: str) -> None:
    """Write the sweep, if elements of `cls` are flat. Its code fills `items`, moves `pos` and leaves `count` at 0."""
    present = [each for each in cls.fields if writer.version in each.versions and writer.version not in each.tagged]
    if cls.frozen or not present or not all(isinstance(each.type, (Fixed, Blob)) for each in present):
        return
    with ExitStack() as blocks:
        blocks.enter_context(writer.source.block(f"if {count} >= {WORTHWHILE}:"))
        _Sweep(writer, count, blocks).write(cls, present, items)


class _Sweep:
    """One sweep under construction; `blocks` closes the conditions around it.

    `_at` is the expression of a place in the first element, `_past` the number of bytes after it; `_layout` is the
    inside of the f-string that builds the layout of all elements, `_checks` are its conditions.
    """

    def __init__(self, writer: Writer, count: str, blocks: ExitStack) -> None:
        self.writer = writer
        self.source = writer.source
        self.count = count
        self.blocks = blocks
        self.stride = self.source.name("stride")
        self.end = self.source.name("end")
        self._at = "pos"
        self._past = 0
        self._layout = ">"
        self._checks = [f"{self.end} <= len(data)"]

    def write(self, cls: type[Declarable], present: list[Field], items: str) -> None:
        read: list[str] = []
        values = {each.name: self.writer.default(each) for each in cls.fields}
        for each in present:
            value = self.source.name("value")
            read.append(value)
            values[each.name] = value
            if isinstance(each.type, Fixed):
                self._layout += each.type.code
                self._past += each.type.size
            elif isinstance(each.type, Blob):
                values[each.name] = self.blob(each.type, value, self.writer.version in each.nullable)
        if self.writer.flexible:
            self._checks.append(f"data[{self.place()} : {self.end} : {self.stride}] == bytes({self.count})")
            self._layout += "x"
            self._past += 1
        self.source.line(f"{self.stride} = {self.place()} - pos")
        self.source.line(f"{self.end} = pos + {self.stride} * {self.count}")
        with self.source.block(f"if {' and '.join(self._checks)}:"):
            unpack = self.source.helper(struct.iter_unpack)
            with self.source.block(f'for {", ".join(read)}, in {unpack}(f"{self._layout}", data[pos : {self.end}]):'):
                created = self.source.name("o")
                new = self.source.constant("new", object.__new__)
                self.source.line(f"{created} = {new}({self.source.constant(cls.__name__, cls)})")
                for name, value in values.items():
                    self.source.line(f"{created}.{name} = {value}")
                self.source.line(f"{items}.append({created})")
            self.source.line(f"pos = {self.end}")
            self.source.line(f"{self.count} = 0")

    def place(self) -> str:
        """Return the expression of the present place in the first element."""
        return f"{self._at} + {self._past}" if self._past else self._at

    def blob(self, type: Blob[Any], value: str, nullable: bool) -> str:
        """Write the step over the first element's value; return the expression of the object for each `value`."""
        at, length = self.source.name("at"), self.source.name("n")
        self.source.line(f"{at} = {self.place()}")
        if self.writer.flexible:
            width = 1
            self.source.line(f"{length} = data[{at}]")
            condition = f"{length} < 128" if nullable else f"0 < {length} < 128"
            size = f"({length} or 1)"
            is_null = f"{length} == 0"
        else:
            width = struct.calcsize(">" + type.code)
            unpack = self.source.constant(f"unpack_{type.code}", unpacker(type.code))
            self.source.line(f"{length}, = {unpack}(data, {at})")
            condition = "" if nullable else f"{length} >= 0"
            size = f"{width} + ({length} if {length} > 0 else 0)"
            is_null = f"{length} < 0"
        if condition:
            self.blocks.enter_context(self.source.block(f"if {condition}:"))
        after = self.source.name("after")
        self.source.line(f"{after} = {at} + {size}")
        for byte in range(width):
            first = f"{at} + {byte}" if byte else at
            self._checks.append(
                f"data[{first} : {self.end} : {self.stride}] == data[{first} : {at} + {byte + 1}] * {self.count}"
            )
        self._layout += f"{'x' * width}{{{after} - {at} - {width}}}s"
        self._at, self._past = after, 0
        empty = '""' if type.is_text else 'b""'
        if nullable:
            missing = self.source.name("empty")
            self.source.line(f"{missing} = None if {is_null} else {empty}")
            empty = missing
        if type.is_text:
            return f'{value}.decode("utf-8", "{TEXT_ERRORS}") if {value} else {empty}'
        return f"{value} or {empty}" if nullable else value
