"""Writing a long array of flat structs column by column.

A list comprehension over one attribute of all elements costs a third of what the same attribute costs in a loop over
elements. So the pieces of all elements are laid out in one list, every column of it filled at once, and what all
elements have in common (nulls, equal lengths, the empty tagged fields) becomes one constant. Decides which arrays can
be written so, and how. A length too long for the table of lengths, and a value the version does not have, are left to
the element-by-element loop that follows in the encoder.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from kafka_shim.apis.wire import primitives
from kafka_shim.apis.wire.declared import Struct
from kafka_shim.apis.wire.source import Source
from kafka_shim.apis.wire.types import Blob, Fixed

WORTHWHILE: Final = 32
"""Shorter arrays are written faster one by one."""

Column = bytes | list[bytes]
"""The pieces of all elements in one place, or the one piece that all have there."""


class Writer(Protocol):
    """What writes the encoder around the columns; `encoding.py` has it."""

    source: Source
    version: int
    flexible: bool
    pieces: str

    def packed(self, run: list[tuple[str, str]]) -> str: ...

    def fixed(self, type: Fixed[Any], value: str) -> str: ...


def write_columns(writer: Writer, cls: type[Struct], items: str, count: str) -> None:
    """Write the columns, if elements of `cls` can be written so: they go to `pieces` and leave `items` empty."""
    present = [each for each in cls.fields if writer.version in each.versions]
    flat = all(isinstance(each.type, (Fixed, Blob)) and writer.version not in each.tagged for each in present)
    if not present or not flat:
        return
    source = writer.source
    columns: list[str] = []
    run: list[tuple[str, str]] = []

    def end_run() -> None:
        if run:
            packed = writer.packed(run)
            columns.append(packed if packed.startswith(("b'", 'b"')) else f"[{packed} for o in {items}]")
            run.clear()

    for each in present:
        if isinstance(each.type, Fixed):
            run.append((each.type.code, writer.fixed(each.type, f"o.{each.name}")))
        elif isinstance(each.type, Blob):
            end_run()
            code = "" if writer.flexible else each.type.code
            lengths = source.constant("lengths", primitives.LENGTHS[code])
            if writer.version in each.nullable:
                null = primitives.null_blob(code)
                columns.append(f"*{source.helper(nullable)}([o.{each.name} for o in {items}], {lengths}, {null!r})")
            else:
                encode = ".encode()" if each.type.is_text else ""
                columns.append(f"*{source.helper(led)}([o.{each.name}{encode} for o in {items}], {lengths})")
    if writer.flexible:
        run.append(("B", "0"))
    end_run()

    conditions = [f"{count} >= {WORTHWHILE}"]
    for each in cls.fields:
        if each not in present and not each.ignorable:
            default = source.literal(each.default_value())
            conditions.append(f"[o.{each.name} for o in {items}].count({default}) == {count}")
    with source.block(f"if {' and '.join(conditions)}:"):
        with source.block("try:"):
            source.line(f"{source.helper(interleave)}({writer.pieces}, {count}, ({', '.join(columns)},))")
            source.line(f"{items} = ()")
        with source.block("except IndexError:"):
            source.line("pass")


def led(values: list[bytes], lengths: tuple[bytes, ...]) -> tuple[Column, Column]:
    """The columns of values and of the lengths before them. Raises IndexError at one too long for `lengths`."""
    if len(values[0]) == len(values[-1]):
        sizes = [len(value) for value in values]
        if sizes.count(sizes[0]) == len(values):
            return lengths[sizes[0]], values
    return [lengths[len(value)] for value in values], values


def nullable(values: list[str | bytes | None], lengths: tuple[bytes, ...], null: bytes) -> tuple[Column, ...]:
    """The columns of values, of which any may be null, with their lengths. Raises IndexError as `led` does."""
    first = values[0]
    if first == values[-1] and values.count(first) == len(values):
        return (null,) if first is None else (lengths[len(value := _encoded(first))] + value,)
    if None in values:
        return ([null if each is None else lengths[len(value := _encoded(each))] + value for each in values],)
    return led([_encoded(each) for each in values if each is not None], lengths)


def _encoded(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def interleave(pieces: list[bytes], count: int, columns: tuple[Column, ...]) -> None:
    """Add the first piece of every column to `pieces`, then the second of every column, and so on `count` times."""
    merged: list[Column] = []
    for column in columns:
        if merged and isinstance(column, bytes) and isinstance(merged[-1], bytes):
            merged[-1] += column
        else:
            merged.append(column)
    tail = b""
    if len(merged) > 1 and isinstance(merged[0], bytes) and isinstance(merged[-1], bytes):
        pieces.append(merged[0])
        tail = merged[-1]
        merged = [*merged[1:-1], tail + merged[0]]
    width = len(merged)
    together = [column if isinstance(column, bytes) else b"" for column in merged] * count
    for index, column in enumerate(merged):
        if isinstance(column, list):
            together[index::width] = column
    if tail:
        together[-1] = tail
    pieces += together
