"""Requests of every API and version, most of them plausible, some odd, some damaged.

Decides the bytes that a hostile client sends, without the encoders of `apis`. The form of a message comes from its
declaration. Values come from small pools, from answers of the server (`Memory.learn`), or from a list of odd values.
The pools are bounded, and so is the state of a server that gets them. It knows no socket.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from typing import Any, Final

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message, Struct
from kafka_shim.apis.wire.declared import Field
from kafka_shim.apis.wire.headers import is_flexible
from kafka_shim.apis.wire.types import Array, Blob, Fixed, Nested, Type
from kafka_shim.conformance.record_batch import record_batch

PROTECTED: Final = "bystander"
"""No request names a thing with this in its name: the bystander has these for itself."""

_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "group": ("g0", "g1", "g2", "share-0", "share-1", "streams-0"),
    "topic": ("t0", "t1", "t2", "compacted", "new"),
    "member": ("", "m0", "m1", "AAAAAAAAAAAAAAAAAAAAAA"),
    "transaction": ("tx0", "tx1"),
    "instance": ("i0", "i1"),
    "protocol_type": ("consumer", "connect"),
    "protocol": ("range", "roundrobin", "uniform"),
    "regex": ("t.*", ".*", "[", "(t|n).*", "\\C", "x{1000}", "(a+)+$"),
    "config": (
        "cleanup.policy",
        "max.message.bytes",
        "retention.ms",
        "retention.bytes",
        "segment.bytes",
        "min.compaction.lag.ms",
        "message.timestamp.type",
        "consumer.session.timeout.ms",
        "share.auto.offset.reset",
        "share.record.lock.duration.ms",
        "share.isolation.level",
        "streams.num.standby.replicas",
        "no.such.setting",
    ),
    "value": (
        "compact",
        "delete",
        "0",
        "1000",
        "-1",
        "1048588",
        "LogAppendTime",
        "latest",
        "earliest",
        "by_duration:PT1H",
        "by_duration:P" + "9" * 310 + "D",
        "9" * 40,
        "true",
    ),
    "resource": ("t0", "compacted", "g0", "share-0", "1"),
    "other": ("", "a", "rack-1", "client"),
}
_KINDS: Final[dict[str, str]] = {
    "group_id": "group",
    "group": "group",
    "groups": "group",
    "group_ids": "group",
    "groups_names": "group",
    "key": "group",
    "coordinator_keys": "group",
    "topic": "topic",
    "topics": "topic",
    "name": "topic",
    "topic_name": "topic",
    "topic_names": "topic",
    "subscribed_topic_names": "topic",
    "member_id": "member",
    "transactional_id": "transaction",
    "transactional_ids": "transaction",
    "group_instance_id": "instance",
    "instance_id": "instance",
    "protocol_type": "protocol_type",
    "protocol_name": "protocol",
    "server_assignor": "protocol",
    "subscribed_topic_regex": "regex",
    "resource_name": "resource",
    "configuration_keys": "config",
    "value": "value",
}
_CONFIG_APIS: Final = (ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
_ODD_TEXTS: Final = (
    b"",
    b"\xff" * 10_923,
    b"\xff" * 15_000,
    b"\xff" * 32_767,
    b"\xed\xa0\x80" * 30,
    b"\xc3\xa9" * 16_383,
    b"x" * 32_767,
    b"x" * 249,
    b"\xf0\x9f\x99\x82" * 60,
    b"\x00\x01\x1b[2J\r\n\x07",
    b"..",
    b"a/b:c d",
    b"\xff",
    b"\xe2\x80\xae",
)
_ODD_NUMBERS: Final = {
    "b": (-(2**7), -2, -1, 0, 1, 2**7 - 1),
    "h": (-(2**15), -2, -1, 0, 1, 2**15 - 1),
    "i": (-(2**31), -2, -1, 0, 1, 2**16, 2**31 - 1),
    "q": (-(2**63), -2, -1, 0, 1, 2**31, 2**62, 2**63 - 1),
    "H": (0, 1, 2**16 - 1),
    "I": (0, 1, 2**32 - 1),
    "d": (0.0, -1.0, 1e308, float("inf"), float("nan")),
    "?": (0, 1),
}
_MAX_PARTITIONS: Final = 12
_REPEATED_BYTES: Final = 1 << 19
_OFTEN: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.CREATE_TOPICS,
)
"""These build state up, so they come more often than the rest."""
_KEYS: Final = tuple(APIS) + _OFTEN * 3


class Memory:
    """Values of the server's answers by the name of their field, and the members of groups: group, member id, epoch."""

    def __init__(self) -> None:
        self.values: dict[str, deque[Any]] = {}
        self.members: deque[tuple[str, str, int]] = deque(maxlen=60)

    def learn(self, response: Any, group: str | None) -> None:
        """Keep the values that later requests can name."""
        values = {each.name: getattr(response, each.name) for each in type(response).fields}
        if any(isinstance(value, str) and PROTECTED in value for value in values.values()):
            return
        for name, value in values.items():
            if isinstance(value, Struct):
                self.learn(value, group)
            elif isinstance(value, list):
                for element in value[:20]:
                    if isinstance(element, Struct):
                        self.learn(element, group)
            elif name.endswith(("_id", "epoch")) and value not in (None, "", -1, bytes(16)):
                self.values.setdefault(name, deque(maxlen=30)).append(value)
        epoch = values.get("member_epoch", values.get("generation_id", -1))
        if group is not None and values.get("member_id"):
            self.members.append((group, values["member_id"], epoch))

    def recall(self, name: str, chance: random.Random) -> Any:
        """A value that a field of this name had in an answer; None if there was none."""
        values = self.values.get(name)
        return chance.choice(values) if values else None


class Requests:
    """One stream of requests; the same seed and the same answers make the same ones."""

    def __init__(self, chance: random.Random, memory: Memory) -> None:
        self.group: str | None = None
        """The group that the newest request is about, if it is about one."""
        self._chance = chance
        self._memory = memory
        self._oddness = 0.0
        self._scene: dict[str, Any] = {}
        self._key: int = 0

    def next(self, correlation_id: int) -> tuple[Api | None, int, bytes]:
        """The API and version of a request, and its frame; without an API where the bytes are no request."""
        chance = self._chance
        kind = chance.random()
        if kind < 0.02:
            return None, 0, self._noise()
        api = APIS[chance.choice(_KEYS)]
        version = chance.choice(api.request.versions)
        self._key = api.key
        self._oddness = 0.0 if kind < 0.5 else chance.choice((0.02, 0.1, 0.5))
        self._choose_scene()
        head = struct.pack(">hhi", api.key, version, correlation_id) + self._client_id()
        if is_flexible(api.key, version):
            head += b"\0"
        data = head + self._message(api.request, version)
        if kind > 0.93:
            return None, 0, _framed(self._damaged(data))
        return api, version, _framed(data)

    def _choose_scene(self) -> None:
        memory, chance = self._memory, self._chance
        self._scene = {}
        if memory.members and chance.random() < 0.7:
            group, member, epoch = chance.choice(memory.members)
            epochs = dict.fromkeys(("member_epoch", "generation_id", "generation_id_or_member_epoch"), epoch)
            self._scene = {"group_id": group, "member_id": member, **epochs}
        else:
            self._scene["group_id"] = chance.choice(_TEXTS["group"])
        self.group = self._scene["group_id"]

    def _noise(self) -> bytes:
        chance = self._chance
        return chance.choice(
            (
                b"\x80\x00\x00\x00",
                b"\x7f\xff\xff\xff",
                struct.pack(">i", 0),
                struct.pack(">i", 200) + b"x" * 20,
                b"GET / HTTP/1.1\r\n\r\n",
                _framed(chance.randbytes(chance.randrange(80))),
                _framed(struct.pack(">hhih", chance.randrange(100), chance.randrange(20), 1, -1)),
            )
        )

    def _client_id(self) -> bytes:
        if self._is_odd():
            return self._odd_text(compact=False)
        return struct.pack(">h", 6) + b"fuzzer"

    def _damaged(self, data: bytes) -> bytes:
        """The same with some bytes changed, cut out, repeated or added, all after the header's first 8."""
        chance, changed = self._chance, bytearray(data)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(8, len(changed) + 1)
            change = chance.randrange(4)
            if change == 0 and at < len(changed):
                changed[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            elif change == 1:
                del changed[at : at + chance.choice((1, 2, 4, 30))]
            elif change == 2:
                changed[at:at] = changed[at : at + chance.choice((1, 8, 60))]
            else:
                changed[at:at] = chance.randbytes(chance.choice((1, 2, 4, 16)))
        return bytes(changed)

    # Values

    def _is_odd(self) -> bool:
        return self._oddness > 0 and self._chance.random() < self._oddness

    def _message(self, message: type[Message] | type[Struct], version: int) -> bytes:
        flexible = is_flexible(self._key, version)
        parts, tagged = [], []
        for each in message.fields:
            if version not in each.versions:
                continue
            if version in each.tagged:
                if each.tag is not None and self._chance.random() < 0.5:
                    tagged.append((each.tag, self._field(each, version, flexible)))
            else:
                parts.append(self._field(each, version, flexible))
        if flexible:
            if self._is_odd():
                tagged.append((self._chance.choice((0, 9, 2**31)), self._chance.randbytes(5)))
            parts.append(_uvarint(len(tagged)))
            parts += [_uvarint(tag) + _uvarint(len(data)) + data for tag, data in sorted(tagged)]
        return b"".join(parts)

    def _field(self, field: Field, version: int, flexible: bool) -> bytes:
        nullable = version in field.nullable
        if (nullable and self._chance.random() < 0.25) or (not nullable and self._oddness and self._is_rarely_odd()):
            null = self._null(field.type, flexible)
            if null is not None:
                return null
        there = b"\1" if nullable and isinstance(field.type, Nested) else b""
        return there + self._value(field.name, field.type, version, flexible)

    def _is_rarely_odd(self) -> bool:
        return self._chance.random() < self._oddness / 20

    def _null(self, of: Type[Any], flexible: bool) -> bytes | None:
        if isinstance(of, (Array, Blob)) and flexible:
            return b"\0"
        if isinstance(of, Array):
            return struct.pack(">i", -1)
        if isinstance(of, Blob):
            return struct.pack(">" + of.code, -1)
        return b"\xff" if isinstance(of, Nested) else None

    def _value(self, name: str, of: Type[Any], version: int, flexible: bool) -> bytes:
        if isinstance(of, Array):
            return self._array(name, of.element, version, flexible)
        if isinstance(of, Nested):
            return self._message(of.struct, version)
        if isinstance(of, Blob):
            if of.is_text and self._is_odd():
                return self._odd_text(flexible)
            return _sized(self._text(name).encode() if of.is_text else self._bytes(of), of.code, flexible)
        assert isinstance(of, Fixed)
        if of.name == "uuid":
            return self._uuid(name)
        if self._is_odd():
            return struct.pack(">" + of.code, self._chance.choice(_ODD_NUMBERS[of.code]))
        return struct.pack(">" + of.code, self._number(name, of.code))

    def _array(self, name: str, element: Type[Any], version: int, flexible: bool) -> bytes:
        chance = self._chance
        count = chance.choice((0, 1, 1, 1, 2, 3))
        if self._is_odd():
            count = chance.choice((0, 1, 5, 40))
        elements = [self._value(name, element, version, flexible) for _ in range(count)]
        if elements and self._is_odd():
            # A nested array would become hundreds of megabytes, which cost the fuzzer more than the server.
            elements += elements[:1] * min(chance.choice((1, 30)), _REPEATED_BYTES // (len(elements[0]) + 1))
        count = len(elements)
        if self._is_rarely_odd():
            count = chance.choice((0, count + 1, 2**31 - 1))
        return (_uvarint(count + 1) if flexible else struct.pack(">i", count)) + b"".join(elements)

    def _text(self, name: str) -> str:
        chance = self._chance
        if name in self._scene and chance.random() < 0.9:
            return str(self._scene[name])
        value = self._memory.recall(name, chance)
        if isinstance(value, str) and chance.random() < 0.3:
            return value
        kind = _KINDS.get(name, "other")
        if self._key in _CONFIG_APIS and name == "name":
            kind = "config"
        elif self._key == ApiKey.JOIN_GROUP and name == "name":
            kind = "protocol"
        return chance.choice(_TEXTS[kind])

    def _odd_text(self, compact: bool) -> bytes:
        text = self._chance.choice(_ODD_TEXTS)
        if self._is_rarely_odd():
            return _uvarint(2**31) + text if compact else struct.pack(">h", -2) + text
        return _sized(text, "h", compact)

    def _bytes(self, of: Blob[Any]) -> bytes:
        chance = self._chance
        if of.name != "records":
            return chance.choice((b"", b"\0\1\0\0\0\1\0\2t0\0\0\0\0", chance.randbytes(20)))
        producer = (self._memory.recall("producer_id", chance) or -1, chance.choice((-1, 0, 1)), chance.choice((-1, 0)))
        whole = record_batch(
            [b"v"] * chance.randint(1, 5), 1_700_000_000_000, producer, transactional=chance.random() < 0.3
        )
        return whole if not self._is_odd() else self._damaged(whole)

    def _uuid(self, name: str) -> bytes:
        value = self._memory.recall(name, self._chance)
        if isinstance(value, bytes) and self._chance.random() < 0.9:
            return value
        return self._chance.choice((bytes(16), bytes(15) + b"\1", b"\xff" * 16))

    def _number(self, name: str, code: str) -> Any:
        chance = self._chance
        if isinstance(value := self._scene.get(name), int) and chance.random() < 0.8:
            return value
        if name.endswith(("_id", "epoch")) and chance.random() < 0.6:
            value = self._memory.recall(name, chance)
            if isinstance(value, int) and min(_ODD_NUMBERS[code]) <= value <= max(_ODD_NUMBERS[code]):
                return value
        if code == "?":
            return chance.random() < 0.5
        if name in ("num_partitions", "count"):
            return chance.randint(1, _MAX_PARTITIONS)
        if name == "replication_factor":
            return chance.choice((1, -1))
        if name == "resource_type":
            return chance.choice((2, 2, 4, 8, 16, 32))
        if name.endswith("_ms") and code == "i":
            return chance.choice((0, 1, 20, 60, 300, 1000))
        if name.endswith("max_bytes") or name == "max_records":
            return chance.choice((0, 1, 500, 100_000))
        return chance.choice((0, 0, 0, 1, 1, 2, 3) if code.isupper() else (-1, 0, 0, 0, 1, 1, 2, 3))


def _sized(data: bytes, code: str, flexible: bool) -> bytes:
    return (_uvarint(len(data) + 1) if flexible else struct.pack(">" + code, len(data))) + data


def _framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _uvarint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
