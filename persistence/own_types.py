"""Record types of extensions, which only their classes of keys and values know.

A class of keys is a NamedTuple of texts, the group first, with the number of its type at the end:

    class LotteryKey(NamedTuple):
        group: str
        record_type: Literal[-1000] = -1000

A class of values is a `Message`: its newest version is written, and all are read. Without the extension these records
are an `UnknownKey` and an `UnknownValue`: the store keeps them as they are, and no group has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kafka_shim.apis.wire import Message
from kafka_shim.persistence.keys import RecordError, UnknownKey, decode_key, names_in
from kafka_shim.persistence.records import decode_message


def type_of(key: type[Any]) -> int:
    """Return the record type of a class of keys. Raises ValueError, in one clause, if an extension cannot have it."""
    fields: tuple[str, ...] = getattr(key, "_fields", ())
    number = getattr(key, "_field_defaults", {}).get("record_type")
    if len(fields) < 2 or fields[0] != "group" or fields[-1] != "record_type" or not isinstance(number, int):
        raise ValueError(f"{key.__name__} must be a NamedTuple with group first, and record_type last with a number")
    if not -(1 << 15) <= number < 0:
        raise ValueError(f"{key.__name__} must have a record type below zero, not {number}")
    if _is_ours(number):
        raise ValueError(f"{key.__name__} must have another record type: {number} is taken")
    return number


def _is_ours(record_type: int) -> bool:
    try:
        return not isinstance(decode_key(record_type.to_bytes(2, "big", signed=True)), UnknownKey)
    except RecordError:
        return True


def with_own(
    records: Iterable[tuple[Any, Any]], types: Mapping[int, tuple[type[Any], type[Message]]]
) -> Iterator[tuple[Any, Any]]:
    """Yield the records of a store, those of these types in their own classes. `types` has the classes of the key and
    of the value by number. Raises RecordError for one that they cannot read.
    """
    for key, value in records:
        if isinstance(key, UnknownKey) and key.record_type in types:
            key_class, value_class = types[key.record_type]
            raw = value
            key = key_class(*names_in(key.raw, len(key_class._fields) - 1))
            value = None if raw is None else decode_message(key, value_class, value_class.versions[-1], raw.raw)
        yield key, value
