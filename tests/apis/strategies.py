"""Messages that are possible in one version: fields that the version lacks have their defaults."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kafka_shim.apis.wire import Message, Struct
from kafka_shim.apis.wire.declared import Field
from kafka_shim.apis.wire.types import Array, Nested, Type
from tests.apis.other_codecs import ERROR_CODES

_INTEGERS = {"int8": (-(2**7), 2**7 - 1), "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1)}
_INTEGERS |= {"int32": (-(2**31), 2**31 - 1), "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1)}
_LATEST_MS = 253_402_300_799_999
_TIMES = {"transaction_start_time_ms", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"}
_PERIODS = {
    "retention_time_ms",
    "session_lifetime_ms",
    "max_lifetime_ms",
    "renew_period_ms",
    "expiry_time_period_ms",
}

# Compact lengths take one byte up to 126: both sides of that, in characters of one and of more bytes.
_TEXTS = st.sampled_from(["", "a", "x" * 126, "x" * 127, "ü" * 64, "€🙂"]) | st.text(
    st.characters(codec="utf-8"), max_size=5
)
_BLOBS = st.sampled_from([b"", b"\x00", b"y" * 126, b"y" * 127]) | st.binary(max_size=5)


def range_of(field: Field, type_name: str) -> tuple[int, int]:
    """Return the range of an integer field; if another codec has a narrower type than Kafka, its range."""
    if field.name in _TIMES:
        return 0, _LATEST_MS
    if field.name == "log_append_time_ms":
        return -1, _LATEST_MS
    if field.name in _PERIODS:
        return -(10**15), 10**15
    return _INTEGERS[type_name]


def _values(field: Field, of: Type[Any], version: int) -> st.SearchStrategy[Any]:
    if isinstance(of, Array):
        return st.lists(_values(field, of.element, version), max_size=2)
    if isinstance(of, Nested):
        return structs(of.struct, version)
    if field.name.endswith("error_code"):
        return st.sampled_from(ERROR_CODES)
    if of.name in _INTEGERS:
        low, high = range_of(field, of.name)
        return st.sampled_from([low, -1 if low < 0 else 0, 0, 1, high]) | st.integers(low, high)
    return {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
        "string": _TEXTS,
        "bytes": _BLOBS,
        "records": _BLOBS,
    }[of.name]


def structs(struct: type[Struct] | type[Message], version: int) -> st.SearchStrategy[Any]:
    """Draw structs, or whole messages, of one version."""
    present = [each for each in struct.fields if version in each.versions]
    names = [each.name for each in present]
    values = []
    for each in present:
        value = _values(each, each.type, version)
        values.append(st.none() | value if version in each.nullable else value)
    return st.tuples(*values).map(lambda row: struct(**dict(zip(names, row, strict=True))))


def edges(struct: type[Struct] | type[Message], version: int, *, high: bool) -> Any:
    """Return a message with every field at one end of its range; null counts as the low end."""

    def edge(field: Field, of: Type[Any]) -> Any:
        if not high and version in field.nullable:
            return None
        if isinstance(of, Array):
            return [edge(field, of.element)] * 2 if high else []
        if isinstance(of, Nested):
            return edges(of.struct, version, high=high)
        if field.name.endswith("error_code"):
            return ERROR_CODES[-1 if high else 0]
        if of.name in _INTEGERS:
            return range_of(field, of.name)[high]
        return {
            "bool": high,
            "float64": 1.5 * high,
            "uuid": bytes([255 * high]) * 16,
            "string": "ü" * 150 * high,
            "bytes": b"\xff" * 300 * high,
            "records": b"\xff" * 300 * high,
        }[of.name]

    return struct(**{each.name: edge(each, each.type) for each in struct.fields if version in each.versions})
