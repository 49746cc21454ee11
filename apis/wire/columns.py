"""Writing a long array of flat structs column by column.

A list comprehension over one attribute of all elements costs a third of what the same attribute costs in a loop over
elements. So the pieces of all elements are laid out in one list, every column of it filled by a comprehension, and
columns that are the same for all elements by repetition. Decides which arrays can be written so and how. A length too
long for the table of lengths, and a value the version does not have, are left to the element-by-element loop that
follows in the encoder.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from apis.wire import primitives
from apis.wire.types import Blob, Fixed

if TYPE_CHECKING:
    from apis.wire.encoding import EncoderWriter
    from apis.wire.message import Field, Struct

WORTHWHILE: Final = 10
"""Shorter arrays are written faster one by one."""


def write_columns(writer: EncoderWriter, cls: type[Struct], items: str, count: str) -> None:
    """Write the columns, if elements of `cls` can be written so: they go to `pieces` and leave `items` empty."""
    present = [each for each in cls.fields if writer.version in each.versions]
    if not all(isinstance(each.type, (Fixed, Blob)) and writer.version not in each.tagged for each in present):
        return
    source = writer.source
    conditions = [f"{count} >= {WORTHWHILE}"]
    for each in cls.fields:
        if each not in present and not each.ignorable:
            default = source.literal(each.default_value())
            conditions.append(f"[o.{each.name} for o in {items}].count({default}) == {count}")
    with source.block(f"if {' and '.join(conditions)}:"):
        with source.block("try:"):
            columns = _Columns(writer, items, count)
            for each in present:
                columns.field(each)
            columns.write()
        with source.block("except IndexError:"):
            source.line("pass")


class _Columns:
    """The columns of one array: each a bytes literal or the name of a list, in order."""

    def __init__(self, writer: EncoderWriter, items: str, count: str) -> None:
        self.writer = writer
        self.source = writer.source
        self.items = items
        self.count = count
        self._columns: list[str] = []
        self._run: list[tuple[str, str]] = []

    def field(self, field: Field) -> None:
        if isinstance(field.type, Fixed):
            self._run.append((field.type.code, self.writer.fixed(field.type, f"o.{field.name}")))
        elif isinstance(field.type, Blob):
            self.end_run()
            if self.writer.version in field.nullable:
                self.nullable_blob(field.type, field.name)
            else:
                self.blob(field.type, field.name)

    def write(self) -> None:
        if self.writer.flexible:
            self._run.append(("B", "0"))
        self.end_run()
        if len(self._columns) == 1:
            self.source.line(f"{self.writer.pieces} += {self._columns[0]}")
        else:
            width = len(self._columns)
            template = ", ".join(each if _is_constant(each) else "b''" for each in self._columns)
            together = self.source.name("columns")
            self.source.line(f"{together} = [{template}] * {self.count}")
            for index, each in enumerate(self._columns):
                if not _is_constant(each):
                    self.source.line(f"{together}[{index}::{width}] = {each}")
            self.source.line(f"{self.writer.pieces} += {together}")
        self.source.line(f"{self.items} = ()")

    def end_run(self) -> None:
        run, self._run = self._run, []
        if run:
            packed = self.writer.packed(run)
            is_constant = _is_constant(packed)
            self._columns.append(packed if is_constant else self.column("run", f"{packed} for o in {self.items}"))

    def column(self, stem: str, comprehension: str) -> str:
        name = self.source.name(stem)
        self.source.line(f"{name} = [{comprehension}]")
        return name

    def lengths(self, type: Blob[Any]) -> str:
        """The name of the table of what leads a value of each length."""
        if self.writer.flexible:
            return self.source.constant("lengths", primitives.COMPACT_LENGTHS)
        return self.source.constant("lengths", primitives.LENGTHS[type.code])

    def blob(self, type: Blob[Any], name: str) -> None:
        values = self.column("b", f"o.{name}{'.encode()' if type.is_text else ''} for o in {self.items}")
        self._columns.append(self.column("n", f"{self.lengths(type)}[len(b)] for b in {values}"))
        self._columns.append(values)

    def nullable_blob(self, type: Blob[Any], name: str) -> None:
        """One column; where all values are equal, as nulls and metadata mostly are, it is worked out once."""
        values = self.column("v", f"o.{name} for o in {self.items}")
        same = self.source.name("same")
        self.source.line(f"{same} = {values}.count({values}[0]) == {self.count}")
        null = repr(b"\0" if self.writer.flexible else struct.pack(">" + type.code, -1))
        encoded = self.source.name("encoded")
        encode = f"{encoded} := v.encode()" if type.is_text else f"{encoded} := v"
        value = f"{null} if v is None else {self.lengths(type)}[len({encode})] + {encoded}"
        column = self.column("c", f"{value} for v in ({values}[:1] if {same} else {values})")
        with self.source.block(f"if {same}:"):
            self.source.line(f"{column} *= {self.count}")
        self._columns.append(column)


def _is_constant(column: str) -> bool:
    return column.startswith(("b'", 'b"'))
