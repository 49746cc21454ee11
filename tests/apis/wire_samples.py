"""Messages with every type and every way in which a field can depend on the version, to test the compiler.

Their fields have combinations that no real API has, on purpose.
"""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from kafka_shim.apis.wire import (
    Message,
    Struct,
    array,
    boolean,
    bytes_,
    field,
    float64,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    uint16,
    uint32,
    uuid,
)
from kafka_shim.apis.wire.types import Array, Blob, Nested, Type


class Row(Struct):
    """A flat struct: arrays of it take the fast path."""

    index: int = field(int32)
    name: str = field(string)
    note: str | None = field(string, nullable="1+")
    blob: bytes = field(bytes_)
    rest: bytes | None = field(bytes_, versions="1+", nullable="2+")
    id: bytes = field(uuid, versions="2+", ignorable=True)
    late: int = field(int16, versions="3+", default=-1)


class Point(Struct):
    """A struct with only fixed-width fields."""

    x: int = field(int32)
    y: int = field(int64)


class Tagging(Struct):
    """A struct with its own tagged fields."""

    kind: int = field(int8)
    hint: str = field(string, versions="2+", tag=0, tagged="2+", ignorable=True)


class Frozen(Struct, frozen=True):
    topic: str = field(string)
    partition: int = field(int32)


class Deep(Struct):
    rows: list[Row] = field(array(Row))
    point: Point = field(Point)
    ids: list[bytes] = field(array(uuid))
    matrix: list[list[int]] = field(array(array(int16)))


class Everything(Message, key=999, versions="0-4", flexible="2+"):
    flag: bool = field(boolean)
    small: int = field(int8)
    short: int = field(int16)
    port: int = field(uint16)
    count: int = field(int32)
    size: int = field(uint32)
    offset: int = field(int64)
    ratio: float = field(float64)
    id: bytes = field(uuid)
    name: str = field(string)
    alias: str | None = field(string, nullable="1+", default="")
    blob: bytes = field(bytes_)
    maybe: bytes | None = field(bytes_, nullable="0+", default=None)
    batch: bytes | None = field(records, nullable="0+", default=None)
    numbers: list[int] = field(array(int32))
    wide: list[int] | None = field(array(int64), nullable="0-3")
    flags: list[bool] = field(array(boolean))
    names: list[str] = field(array(string))
    blobs: list[bytes] | None = field(array(bytes_), versions="1+", nullable="1+", default=None)
    point: Point = field(Point)
    other: Point | None = field(Point, versions="1+", nullable="1+", default=None)
    key: Frozen = field(Frozen)
    points: list[Point] = field(array(Point))
    rows: list[Row] | None = field(array(Row), nullable="0+")
    keys: list[Frozen] = field(array(Frozen))
    tagging: list[Tagging] = field(array(Tagging))
    deep: list[Deep] = field(array(Deep), versions="3+")
    gone: str = field(string, versions="0-1", ignorable=True)
    needed: int = field(int32, versions="1-3", default=-1)
    tag_text: str | None = field(string, versions="2+", nullable="2+", tag=0, tagged="2+", default=None)
    tag_number: int = field(int64, versions="2+", tag=3, tagged="2+", default=-1)
    tag_rows: list[Row] = field(array(Row), versions="2+", tag=1, tagged="2+")
    tag_point: Point | None = field(Point, versions="2+", nullable="2+", tag=200, tagged="2+", default=None)
    tag_struct: Tagging = field(Tagging, versions="2+", tag=2, tagged="2+")
    was_plain: int = field(int32, versions="1+", tag=4, tagged="4+")


VERSIONS = list(Everything.versions)

_INTEGERS = {"b": 8, "h": 16, "i": 32, "q": 64, "H": 16, "I": 32}
_LENGTHS = [0, 1, 125, 126, 127, 128, 300, 1023, 1024]
_COUNTS = [0, 1, 3, 7, 8, 31, 32, 33]


def values(type: Type[Any], version: int, alike: bool = False) -> st.SearchStrategy[Any]:
    """Draw values of a type; with `alike`, all have the same lengths, as array elements often do."""
    if isinstance(type, Array):
        element = values(type.element, version, alike)
        if isinstance(type.element, Nested):
            counts = st.sampled_from(_COUNTS)
            alikes = values(type.element, version, alike=True)
            return counts.flatmap(lambda n: st.lists(alikes, min_size=n, max_size=n)) | st.lists(element, max_size=3)
        return st.lists(element, max_size=4)
    if isinstance(type, Nested):
        return messages(type.struct, version, alike)
    if isinstance(type, Blob):
        if alike:
            text = st.sampled_from(["same", "size", "für"])
            return text if type.is_text else text.map(str.encode)
        if type.is_text:
            return st.text(max_size=5) | st.sampled_from(_LENGTHS).map(lambda n: "x" * n) | st.just("ü" * 64)
        return st.binary(max_size=5) | st.sampled_from(_LENGTHS).map(bytes)
    code = getattr(type, "code", "")
    if code in _INTEGERS:
        bits = _INTEGERS[code]
        return st.integers(0, 2**bits - 1) if code.isupper() else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return {"?": st.booleans(), "d": st.floats(allow_nan=False), "16s": st.binary(min_size=16, max_size=16)}[code]


@functools.cache
def messages(cls: Any, version: int, alike: bool = False) -> st.SearchStrategy[Any]:
    """Draw messages or structs that are possible in one version; fields that it lacks have their defaults."""
    present = [each for each in cls.fields if version in each.versions]
    strategies = []
    for each in present:
        value = values(each.type, version, alike)
        nullable = version in each.nullable and not alike
        strategies.append(st.none() | value if nullable else value)
    return st.tuples(*strategies).map(lambda row: cls(**dict(zip([f.name for f in present], row, strict=True))))
