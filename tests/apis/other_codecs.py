"""Three other implementations of the protocol to compare with ours: kio's, and two of kafka-python.

Each codec converts our messages to its own by the names of fields (kafka-python's old one by position), so no API needs
code of its own here.

- kio: generated from Kafka 4.x's schemas; a class per API and version; values are Python types, a `timedelta` for
  fields that end in `_ms`.
- kafka-python: interprets Kafka 4.x's schemas, in any version from 0.
- kafka-python's old one: schemas written by hand over the years, so the only one from the time of the versions that
  Kafka 4 dropped. Compared in versions without tagged fields.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import pkgutil
import re
import typing
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any

import kafka.protocol.old
import kio.index
import kio.schema.errors
import kio.serial
import kio.static.constants
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.old import types

from kafka_shim.apis.wire import Message, Struct
from kafka_shim.apis.wire.declared import Field
from kafka_shim.apis.wire.types import Array, Nested

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)
ZERO_UUID = bytes(16)


def fields_of(struct: type[Struct] | type[Message], version: int) -> list[Field]:
    return [each for each in struct.fields if version in each.versions]


def nested_struct(field: Field) -> type[Struct] | None:
    """Return the struct of a field, or of its elements."""
    inner = field.type.element if isinstance(field.type, Array) else field.type
    return inner.struct if isinstance(inner, Nested) else None


def is_uuid(field: Field) -> bool:
    return (field.type.element if isinstance(field.type, Array) else field.type).name == "uuid"


def over_lists(convert: Any, value: Any) -> Any:
    return [convert(each) for each in value] if isinstance(value, (list, tuple)) else convert(value)


class Kio:
    """The codec kio."""

    def covers(self, message: type[Message], version: int) -> bool:
        try:
            self._class(message, version)
        except (kio.index.UnknownAPIKey, kio.index.UnknownEntity):
            return False
        return True

    def encode(self, message: Message, version: int) -> bytes:
        buffer = io.BytesIO()
        entity_class = self._class(type(message), version)
        kio.serial.entity_writer(entity_class)(buffer, self._to(message, entity_class))
        return buffer.getvalue()

    def decode(self, message: type[Message], data: bytes, version: int) -> Message:
        entity, size = kio.serial.entity_reader(self._class(message, version))(data, 0)
        assert size == len(data)
        return self._from(entity, message)

    def _class(self, message: type[Message], version: int) -> Any:
        name = message.__name__
        kinds = kio.static.constants.EntityType
        if message.api_key is None:
            snake = re.sub("(?<!^)(?=[A-Z])", "_", name).lower()
            return kio.index.load_entity_schema(snake, version, kinds.data)
        kind = kinds.request if name.endswith("Request") else kinds.response
        return getattr(kio.index.load_payload_module(message.api_key, version, kind), name)

    def _to(self, struct: Any, entity_class: Any) -> Any:
        ours = {_KIO_NAMES.get(each.name, each.name): each for each in struct.fields}
        values = {}
        for theirs in dataclasses.fields(entity_class):
            field = ours.get(theirs.name) or ours[theirs.name + "_ms"]
            value = over_lists(partial(self._value_to, field, theirs), getattr(struct, field.name))
            values[theirs.name] = tuple(value) if isinstance(value, list) else value
        return entity_class(**values)

    def _value_to(self, field: Field, theirs: Any, value: Any) -> Any:
        if nested_struct(field) is None:
            return _KIO_OUT.get(theirs.metadata["kafka_type"], _same)(value)
        return None if value is None else self._to(value, _entity_of(theirs.type))

    def _from(self, entity: Any, struct: type[Any]) -> Any:
        theirs = {each.name: each for each in dataclasses.fields(entity)}
        values = {}
        for field in struct.fields:
            name = _KIO_NAMES.get(field.name, field.name)
            their = theirs.get(name) or theirs.get(name.removesuffix("_ms"))
            if their is not None:
                values[field.name] = over_lists(partial(self._value_from, field, their), getattr(entity, their.name))
        return struct(**values)

    def _value_from(self, field: Field, theirs: Any, value: Any) -> Any:
        inner = nested_struct(field)
        if inner is None:
            return _KIO_IN.get(theirs.metadata["kafka_type"], _same)(value)
        return None if value is None else self._from(value, inner)


def _entity_of(annotation: Any) -> Any:
    if dataclasses.is_dataclass(annotation):
        return annotation
    return next(filter(None, map(_entity_of, typing.get_args(annotation))), None)


_KIO_NAMES = {
    # Kafka 4.4 renamed a field of StreamsGroupHeartbeat 0, and kio has the schemas of an older release.
    "acceptable_recovery_lag_legacy": "acceptable_recovery_lag",
    "acceptable_recovery_lag": "acceptable_recovery_lag of version 1",
}


def _same(value: Any) -> Any:
    return value


_KIO_OUT = {
    "error_code": kio.schema.errors.ErrorCode,
    "timedelta_i32": lambda value: value * MS,
    "timedelta_i64": lambda value: value * MS,
    "datetime_i64": lambda value: None if value == -1 else EPOCH + value * MS,
    "uuid": lambda value: None if value == ZERO_UUID else uuid.UUID(bytes=value),
}
_KIO_IN = {
    "error_code": int,
    "timedelta_i32": lambda value: value // MS,
    "timedelta_i64": lambda value: value // MS,
    "datetime_i64": lambda value: -1 if value is None else round((value - EPOCH) / MS),
    "uuid": lambda value: ZERO_UUID if value is None else value.bytes,
}


class KafkaPython:
    """kafka-python's codec. A message without an API key is encoded with its version in front."""

    def __init__(self) -> None:
        modules = [importlib.import_module(f"kafka.protocol.{name}") for name in _PACKAGES]
        self._classes = {name: value for module in modules for name, value in vars(module).items()}

    def covers(self, message: type[Message], version: int) -> bool:
        return message.__name__ in self._classes and version <= self._classes[message.__name__].max_version

    def encode(self, message: Message, version: int) -> bytes:
        return bytes(self._to(message, self._classes[type(message).__name__], version).encode(version=version))

    def decode(self, message: type[Message], data: bytes, version: int) -> Message:
        # Bypass the class's own decode: like a client, it reads an ApiVersions answer with an error as version 0.
        decoded = ApiMessage.decode.__func__(self._classes[message.__name__], data, version=version)
        return self._from(decoded, message, version)

    def _to(self, struct: Any, container: Any, version: int) -> Any:
        theirs = container._struct.fields
        values = {}
        for field in fields_of(struct, version):
            value = getattr(struct, field.name)
            if field.tag is not None and value == field.default_value():
                continue
            name = _their_name(field, theirs)
            values[name] = over_lists(partial(self._value_to, field, theirs[name], version), value)
        return container(version=version, **values)

    def _value_to(self, field: Field, theirs: Any, version: int, value: Any) -> Any:
        if value is None:
            return None
        if nested_struct(field) is not None:
            return self._to(value, theirs.data_class, version)
        if is_uuid(field):
            return uuid.UUID(bytes=value)
        if theirs.type_str == "bitfield":
            return _bits(value)
        return value

    def _from(self, container: Any, struct: type[Any], version: int) -> Any:
        theirs = container._struct.fields
        values = {}
        for field in fields_of(struct, version):
            if field.tag is not None and field.name not in (container.tags or ()):
                continue
            name = _their_name(field, theirs)
            value = getattr(container, name)
            if theirs[name].type_str == "bitfield":
                values[field.name] = _from_bits(value)
            else:
                values[field.name] = over_lists(partial(self._value_from, field, version), value)
        return struct(**values)

    def _value_from(self, field: Field, version: int, value: Any) -> Any:
        if is_uuid(field):
            return ZERO_UUID if value is None else value.bytes
        inner = nested_struct(field)
        return value if inner is None or value is None else self._from(value, inner, version)


def _bits(value: int) -> set[int]:
    return {bit for bit in range(32) if value >> bit & 1}


def _from_bits(bits: set[int] | None) -> int:
    value = sum(1 << bit for bit in ({31} if bits is None else bits))
    return value - 2**32 * (value >> 31)


_PACKAGES = ("admin", "consumer", "metadata", "producer")


def _their_name(field: Field, theirs: Any) -> str:
    return field.name if field.name in theirs else field.name.replace("topic_", "").replace("cluster_", "")


_WRONG = {"DescribeLogDirsRequest_v0"}
"""Schemas with an error: they declare a topic's partitions as one number."""


class OldKafkaPython:
    """kafka-python's schemas before version 3."""

    def __init__(self) -> None:
        names = [each.name for each in pkgutil.iter_modules(kafka.protocol.old.__path__)]
        modules = [importlib.import_module(f"kafka.protocol.old.{name}") for name in names]
        self._classes = {name: value for module in modules for name, value in vars(module).items()}

    def covers(self, message: type[Message], version: int) -> bool:
        name = f"{message.__name__}_v{version}"
        return name in self._classes and version not in message.flexible and name not in _WRONG

    def encode(self, message: Message, version: int) -> bytes:
        schema = self._classes[f"{type(message).__name__}_v{version}"].SCHEMA
        return bytes(schema.encode(_pack(schema, iter([message]), version)))

    def decode(self, message: type[Message], data: bytes, version: int) -> Message:
        schema = self._classes[f"{message.__name__}_v{version}"].SCHEMA
        return _unpack(schema, schema.decode(io.BytesIO(data)), message, version)


def _pack(schema: Any, values: Iterator[Any], version: int) -> Any:
    """Return the next value in the form of `schema`: these structs have no names, and some are flattened."""
    if isinstance(schema, types.Schema):
        value = next(values)
        if isinstance(value, Struct | Message):
            values = iter([getattr(value, each.name) for each in fields_of(type(value), version)])
        else:
            values = chain([value], values)
        return tuple(_pack(each, values, version) for each in schema.fields)
    value = next(values)
    if isinstance(value, Struct):
        value = getattr(value, fields_of(type(value), version)[0].name)
    if isinstance(schema, types.Array) and value is not None:
        return [_pack(schema.array_of, iter([each]), version) for each in value]
    return _bits(value) if schema is types.BitField else value


def _unpack(schema: Any, decoded: Any, struct: Any, version: int) -> Any:
    flat = list(_flatten(schema, decoded))
    values = {}
    for field, (inner_schema, value) in zip(fields_of(struct, version), flat, strict=True):
        inner = nested_struct(field)
        if inner is not None and value is not None:
            value = [_unpack(inner_schema.array_of, each, inner, version) for each in value]
        elif inner_schema is types.BitField:
            value = _from_bits(value)
        values[field.name] = value
    return struct(**values)


def _flatten(schema: Any, decoded: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(schema, types.Schema):
        for each, value in zip(schema.fields, decoded, strict=True):
            yield from _flatten(each, value)
    else:
        yield schema, decoded


CODECS = {"kio": Kio(), "kafka-python": KafkaPython(), "old kafka-python": OldKafkaPython()}
SINCE_4_4 = {
    ("ApiVersions", 5),
    ("TxnOffsetCommit", 6),
    ("DeleteGroups", 3),
    ("StreamsGroupHeartbeat", 1),
    ("StreamsGroupDescribe", 1),
    ("StreamsGroupTopologyDescriptionUpdate", 0),
    ("UnregisterController", 0),
}
"""Versions that no other codec has. Tests encode and decode them, and compare them with nothing of Kafka's."""
REMOVED_IN_4_0 = {
    ("CreateDelegationToken", 0),
    ("RenewDelegationToken", 0),
    ("ExpireDelegationToken", 0),
    ("DescribeDelegationToken", 0),
}
"""Versions that no other codec has any more. Their bytes are those of the version after them."""
ERROR_CODES = sorted(int(each) for each in kio.schema.errors.ErrorCode)
