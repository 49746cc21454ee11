"""Keys of the records of `__consumer_offsets`: which types there are, and their bytes.

A key is an int16 record type and its fields, never flexible (semantics 5.2). A key here is a tuple, so that it is
hashed and compared without Python code; its type is its last item, so that keys of two types are never equal.

Types below zero are our own and no broker's. They are what Kafka keeps elsewhere, in transactional batches and in
`__transaction_state`, and a store, which has neither, must keep as records, and what Kafka does not know of groups.
They never leave it (`interchange.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from sys import intern
from typing import Final, Literal, NamedTuple, TypeAlias


class RecordError(ValueError):
    """A record that cannot be read: Kafka refuses to load a partition that has one (semantics 5.3)."""


class LegacyOffsetCommitKey(NamedTuple):
    """Type 0, written before Kafka 0.9 only."""

    group: str
    topic: str
    partition: int
    record_type: Literal[0] = 0


class OffsetCommitKey(NamedTuple):
    """Type 1: the committed offset of a group in a partition."""

    group: str
    topic: str
    partition: int
    record_type: Literal[1] = 1


class GroupMetadataKey(NamedTuple):
    """Type 2: a classic group."""

    group: str
    record_type: Literal[2] = 2


class ConsumerGroupMetadataKey(NamedTuple):
    """Type 3: the epoch of a KIP-848 group."""

    group: str
    record_type: Literal[3] = 3


class ConsumerGroupPartitionMetadataKey(NamedTuple):
    """Type 4, retired in 4.1 by KIP-1101; 4.1 and later only delete it."""

    group: str
    record_type: Literal[4] = 4


class ConsumerGroupMemberMetadataKey(NamedTuple):
    """Type 5: what a member of a KIP-848 group says of itself."""

    group: str
    member_id: str
    record_type: Literal[5] = 5


class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    """Type 6: the epoch of the target assignment."""

    group: str
    record_type: Literal[6] = 6


class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    """Type 7: the target assignment of a member."""

    group: str
    member_id: str
    record_type: Literal[7] = 7


class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    """Type 8: what a member has, and its epoch."""

    group: str
    member_id: str
    record_type: Literal[8] = 8


class ShareGroupMemberMetadataKey(NamedTuple):
    """Type 10: what a member of a share group says of itself."""

    group: str
    member_id: str
    record_type: Literal[10] = 10


class ShareGroupMetadataKey(NamedTuple):
    """Type 11: the epoch of a share group."""

    group: str
    record_type: Literal[11] = 11


class ShareGroupTargetAssignmentMetadataKey(NamedTuple):
    """Type 12: the epoch of the target assignment."""

    group: str
    record_type: Literal[12] = 12


class ShareGroupTargetAssignmentMemberKey(NamedTuple):
    """Type 13: the target assignment of a member."""

    group: str
    member_id: str
    record_type: Literal[13] = 13


class ShareGroupCurrentMemberAssignmentKey(NamedTuple):
    """Type 14: what a member has, and its epoch."""

    group: str
    member_id: str
    record_type: Literal[14] = 14


class ShareGroupStatePartitionMetadataKey(NamedTuple):
    """Type 15: the partitions that a share group has a state in."""

    group: str
    record_type: Literal[15] = 15


class ConsumerGroupRegularExpressionKey(NamedTuple):
    """Type 16: the topics a regular expression resolved to."""

    group: str
    regular_expression: str
    record_type: Literal[16] = 16


class StreamsGroupMetadataKey(NamedTuple):
    """Type 17: the epoch of a streams group (KIP-1071)."""

    group: str
    record_type: Literal[17] = 17


class StreamsGroupMemberMetadataKey(NamedTuple):
    """Type 19: what a member of a streams group says of itself."""

    group: str
    member_id: str
    record_type: Literal[19] = 19


class StreamsGroupTargetAssignmentMetadataKey(NamedTuple):
    """Type 20: the epoch of the target assignment of a streams group."""

    group: str
    record_type: Literal[20] = 20


class StreamsGroupTargetAssignmentMemberKey(NamedTuple):
    """Type 21: the target assignment of a member of a streams group."""

    group: str
    member_id: str
    record_type: Literal[21] = 21


class StreamsGroupCurrentMemberAssignmentKey(NamedTuple):
    """Type 22: what a member of a streams group has, and its epoch."""

    group: str
    member_id: str
    record_type: Literal[22] = 22


class StreamsGroupTopologyKey(NamedTuple):
    """Type 23: the topology of a streams group."""

    group: str
    record_type: Literal[23] = 23


class PendingOffsetKey(NamedTuple):
    """Type -1, our own: an offset that a producer committed in a transaction nobody has ended yet."""

    group: str
    topic: str
    partition: int
    producer_id: int
    record_type: Literal[-1] = -1


class TransactionKey(NamedTuple):
    """Type -2, our own: the state of a transactional id, in the partition that its name hashes to."""

    transactional_id: str
    record_type: Literal[-2] = -2


class GroupOptionsKey(NamedTuple):
    """Type -3, our own: options of a group that was created before its first member."""

    group: str
    record_type: Literal[-3] = -3


class RegisteredGroupKey(NamedTuple):
    """Type -4, our own: a group whose consumers register, which is an experiment (docs/designs.md)."""

    group: str
    record_type: Literal[-4] = -4


class DocumentKey(NamedTuple):
    """Type -5, our own: how a topic is, or what was set for groups, brokers or features (`document_records.py`)."""

    kind: str
    name: str
    record_type: Literal[-5] = -5


class UnknownKey(NamedTuple):
    """A type whose fields this code does not know; `raw` is all of the key."""

    raw: bytes
    record_type: int


Key: TypeAlias = (
    LegacyOffsetCommitKey
    | OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
    | ConsumerGroupRegularExpressionKey
    | StreamsGroupMetadataKey
    | StreamsGroupMemberMetadataKey
    | StreamsGroupTargetAssignmentMetadataKey
    | StreamsGroupTargetAssignmentMemberKey
    | StreamsGroupCurrentMemberAssignmentKey
    | StreamsGroupTopologyKey
    | PendingOffsetKey
    | TransactionKey
    | GroupOptionsKey
    | RegisteredGroupKey
    | DocumentKey
    | UnknownKey
)

_TOPIC_PARTITION_KEYS: Final[dict[int, Callable[[str, str, int], Key]]] = {
    0: LegacyOffsetCommitKey,
    1: OffsetCommitKey,
}
_ONE_NAME_KEYS: Final[dict[int, Callable[[str], Key]]] = {
    -4: RegisteredGroupKey,
    -3: GroupOptionsKey,
    -2: TransactionKey,
    2: GroupMetadataKey,
    3: ConsumerGroupMetadataKey,
    4: ConsumerGroupPartitionMetadataKey,
    6: ConsumerGroupTargetAssignmentMetadataKey,
    17: StreamsGroupMetadataKey,
    20: StreamsGroupTargetAssignmentMetadataKey,
    23: StreamsGroupTopologyKey,
    11: ShareGroupMetadataKey,
    12: ShareGroupTargetAssignmentMetadataKey,
    15: ShareGroupStatePartitionMetadataKey,
}
_TWO_NAME_KEYS: Final[dict[int, Callable[[str, str], Key]]] = {
    -5: DocumentKey,
    5: ConsumerGroupMemberMetadataKey,
    7: ConsumerGroupTargetAssignmentMemberKey,
    8: ConsumerGroupCurrentMemberAssignmentKey,
    10: ShareGroupMemberMetadataKey,
    13: ShareGroupTargetAssignmentMemberKey,
    14: ShareGroupCurrentMemberAssignmentKey,
    16: ConsumerGroupRegularExpressionKey,
    19: StreamsGroupMemberMetadataKey,
    21: StreamsGroupTargetAssignmentMemberKey,
    22: StreamsGroupCurrentMemberAssignmentKey,
}

_TYPE_LENGTH: Final = Struct(">hh").pack
_INT16: Final = Struct(">h").pack
_INT32: Final = Struct(">i").pack
_UNPACK_INT32: Final = Struct(">i").unpack_from
_INT32_INT64: Final = Struct(">iq").pack


def encode_key(key: Key) -> bytes:
    """The bytes of a key, as Kafka writes them."""
    kind = key.__class__
    if kind is OffsetCommitKey or kind is LegacyOffsetCommitKey:
        group, topic, partition, record_type = key  # type: ignore[misc]
        first = group.encode()
        second = topic.encode()
        head = _TYPE_LENGTH(record_type, len(first))
        return b"".join((head, first, _INT16(len(second)), second, _INT32(partition)))
    if kind is UnknownKey:
        return key[0]  # type: ignore[return-value]
    if isinstance(key, PendingOffsetKey):
        first, second = key.group.encode(), key.topic.encode()
        head = _TYPE_LENGTH(key.record_type, len(first))
        return b"".join((head, first, _INT16(len(second)), second, _INT32_INT64(key.partition, key.producer_id)))
    names: tuple[str, ...] = key[:-1]  # type: ignore[assignment]
    parts = [_INT16(key.record_type)]
    for name in names:
        text = name.encode()
        parts += (_INT16(len(text)), text)
    return b"".join(parts)


def decode_key(raw: bytes) -> Key:
    """The key in `raw`; an `UnknownKey` if its type is not one of those above. Raises RecordError."""
    record_type = int.from_bytes(raw[:2], "big", signed=True)
    reader = _Reader(raw)
    key: Key
    if record_type in _TOPIC_PARTITION_KEYS:
        key = _TOPIC_PARTITION_KEYS[record_type](reader.string(), reader.string(), reader.int32())
    elif record_type in _ONE_NAME_KEYS:
        key = _ONE_NAME_KEYS[record_type](reader.string())
    elif record_type in _TWO_NAME_KEYS:
        key = _TWO_NAME_KEYS[record_type](reader.string(), reader.string())
    elif record_type == -1 and len(raw) >= 2:
        key = PendingOffsetKey(reader.string(), reader.string(), reader.int32(), reader.int64())
    elif len(raw) < 2:
        raise RecordError(f"a record key of {len(raw)} bytes has no type")
    else:
        return UnknownKey(raw, record_type)
    reader.end()
    return key


def group_of(key: Key) -> str:
    """The group a record is about. Raises RecordError for an unknown key that does not begin with a name."""
    return _Reader(key.raw).string() if isinstance(key, UnknownKey) else key[0]


class KeyDecoder:
    """Decodes many keys that come in order, as a partition is loaded: names that repeat are decoded once and shared."""

    __slots__ = ("_prefix", "_group", "_topic")

    def __init__(self) -> None:
        self._prefix: bytes | None = None
        self._group = self._topic = ""

    def decode(self, raw: bytes) -> Key:
        """As `decode_key`."""
        # Nearly every record is an offset, and all those of one topic and group differ in their last four bytes only.
        if raw[:-4] == self._prefix:
            return OffsetCommitKey(self._group, self._topic, _UNPACK_INT32(raw, len(raw) - 4)[0])
        key = decode_key(raw)
        if key.__class__ is OffsetCommitKey:
            self._prefix = raw[:-4]
            group, topic, _, _ = key
            # Groups share topics: one object for all of them.
            self._group, self._topic = group, intern(topic)
            return OffsetCommitKey(group, self._topic, key.partition)
        return key


class _Reader:
    """Reads the fields of a key after its type."""

    __slots__ = ("raw", "at")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.at = 2

    def take(self, size: int) -> bytes:
        start = self.at
        self.at = start + size
        if size < 0 or self.at > len(self.raw):
            raise RecordError(f"a record key of type {int.from_bytes(self.raw[:2], 'big')} is cut short")
        return self.raw[start : self.at]

    def string(self) -> str:
        try:
            return self.take(int.from_bytes(self.take(2), "big", signed=True)).decode()
        except UnicodeDecodeError as error:
            raise RecordError(f"a record key of type {int.from_bytes(self.raw[:2], 'big')} is not UTF-8") from error

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def end(self) -> None:
        if self.at != len(self.raw):
            raise RecordError(f"a record key of type {int.from_bytes(self.raw[:2], 'big')} has bytes left over")
