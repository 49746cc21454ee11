"""A second implementation of the wire format to check the compiler: no code generation, no fused fields.

Written from the protocol guide and KIP-482 for clarity alone; it trusts its input.
"""

from __future__ import annotations

import struct
from typing import Any

from kafka_shim.apis.wire.types import Array, Blob, Fixed, Nested, Type


def uvarint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value % 128 + 128])
        value //= 128
    return out + bytes([value])


def encode(message: Any, version: int) -> bytes:
    return _struct(message, version, version in type(message).flexible)


def _struct(value: Any, version: int, flexible: bool) -> bytes:
    out = b""
    tagged = {}
    for each in value.fields:
        if version not in each.versions:
            continue
        inner = getattr(value, each.name)
        if version in each.tagged:
            if inner != each.default_value():
                tagged[each.tag] = _value(each.type, inner, version, flexible, version in each.nullable)
                if inner is None and isinstance(each.type, Nested):
                    tagged[each.tag] = b"\0"
        else:
            out += _value(each.type, inner, version, flexible, version in each.nullable)
    if flexible:
        out += uvarint(len(tagged))
        for tag in sorted(tagged):
            out += uvarint(tag) + uvarint(len(tagged[tag])) + tagged[tag]
    return out


def _value(type: Type[Any], value: Any, version: int, flexible: bool, nullable: bool = False) -> bytes:
    if isinstance(type, Fixed):
        return struct.pack(">" + type.code, value)
    if isinstance(type, Nested):
        if not nullable:
            return _struct(value, version, flexible)
        return b"\xff" if value is None else b"\x01" + _struct(value, version, flexible)
    if value is None:
        assert nullable
        length, content = -1, b""
    elif isinstance(type, Blob):
        content = value.encode() if type.is_text else value
        length = len(content)
    else:
        assert isinstance(type, Array)
        content = b"".join(_value(type.element, each, version, flexible) for each in value)
        length = len(value)
    if flexible:
        return uvarint(length + 1) + content
    return struct.pack(">h" if isinstance(type, Blob) and type.is_text else ">i", length) + content
