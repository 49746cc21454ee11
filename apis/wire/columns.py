"""Column-wise encoding of long arrays of flat structs.

A list comprehension over one attribute of all elements costs a third of the same attribute in a loop over elements. So
the pieces of all elements are laid out in one list, each column is filled at once, and parts that all elements share
(nulls, equal lengths, the empty tagged fields) become one constant. Two cases fall back to the element-by-element loop
that follows in the encoder: a length too long for the table of lengths, and a value that the version does not have.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from kafka_shim.apis.wire import primitives
from kafka_shim.apis.wire.declared import Struct
from kafka_shim.apis.wire.source import Source
from kafka_shim.apis.wire.types import Blob, Fixed

WORTHWHILE: Final = 32
"""Shorter arrays are written faster one element at a time."""

Column = bytes | list[bytes]
"""One piece per element, or the single piece that all elements share."""


class Writer(Protocol):
    """The encoder around the columns; `encoding.py` implements it."""

    source: Source
    version: int
    flexible: bool
    pieces: str

    def packed(self, run: list[tuple[str, str]]) -> str: ...

    def fixed(self, type: Fixed[Any], value: str) -> str: ...


def write_columns(writer: Writer, cls: type[Struct], items: str, count: str) -> None:
    """Write the code for the columns, if elements of `cls` are flat; it adds to `pieces` and leaves `items` empty."""
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
    """Return the column of lengths and that of values. Raises IndexError for a value too long for `lengths`."""
    if len(values[0]) == len(values[-1]):
        sizes = [len(value) for value in values]
        if sizes.count(sizes[0]) == len(values):
            return lengths[sizes[0]], values
    return [lengths[len(value)] for value in values], values


def nullable(values: list[str | bytes | None], lengths: tuple[bytes, ...], null: bytes) -> tuple[Column, ...]:
    """Return the columns of values that may be null, with their lengths. Raises IndexError as `led` does."""
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
