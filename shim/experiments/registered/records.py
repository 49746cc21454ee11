"""Record of a group of registered consumers: our own type -4, with all of its state.

Only `replay` of `group.py` reads it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int32, int64, string


class RegisteredGroupKey(NamedTuple):
    group: str
    record_type: Literal[-4] = -4


class OwnedPartitions(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class RegisteredMember(Struct):
    consumer_id: str = field(string)
    client_id: str = field(string)
    client_host: str = field(string)
    owned: list[OwnedPartitions] = field(array(OwnedPartitions))


class Rewind(Struct):
    topic: str = field(string)
    partition: int = field(int32)
    offset: int = field(int64)


class RegisteredGroupValue(Message, key=-4, versions="0"):
    """`rewinds` are offsets that take effect when the owners of their partitions have registered again."""

    generation: int = field(int32)
    session_timeout_ms: int = field(int64)
    ephemeral: bool = field(boolean)
    topics: list[str] = field(array(string))
    members: list[RegisteredMember] = field(array(RegisteredMember))
    rewinds: list[Rewind] = field(array(Rewind))
