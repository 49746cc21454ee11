"""Keys of the records of `__consumer_offsets`: their types, and their bytes.

A key is an int16 record type and its fields, never flexible (semantics 5.2). A key here is a tuple, so that it is
hashed and compared without Python code; its type is the last item, so that keys of two types are never equal.

Types below zero are our own. They hold data that Kafka keeps in transactional batches and in `__transaction_state`, and
data that Kafka does not have; `own_types.py` has those of extensions. They never leave a store (`interchange.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from sys import intern
from typing import Final, Literal, NamedTuple, TypeAlias


class RecordError(ValueError):
    """An unreadable record: Kafka refuses to load a partition that has one (semantics 5.3)."""


class LegacyOffsetCommitKey(NamedTuple):
    """Type 0, written only before Kafka 0.9."""

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
    """Type 4, retired in 4.1 by KIP-1101; newer brokers only delete it."""

    group: str
    record_type: Literal[4] = 4


class ConsumerGroupMemberMetadataKey(NamedTuple):
    """Type 5: the metadata of a member of a KIP-848 group."""

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
    """Type 8: the epoch and the present assignment of a member."""

    group: str
    member_id: str
    record_type: Literal[8] = 8


class ShareGroupMemberMetadataKey(NamedTuple):
    """Type 10: the metadata of a member of a share group."""

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
    """Type 14: the epoch and the present assignment of a member."""

    group: str
    member_id: str
    record_type: Literal[14] = 14


class ShareGroupStatePartitionMetadataKey(NamedTuple):
    """Type 15: the partitions in which a share group has a state."""

    group: str
    record_type: Literal[15] = 15


class ConsumerGroupRegularExpressionKey(NamedTuple):
    """Type 16: the topics that a regular expression resolved to."""

    group: str
    regular_expression: str
    record_type: Literal[16] = 16


class StreamsGroupMetadataKey(NamedTuple):
    """Type 17: the epoch of a streams group (KIP-1071)."""

    group: str
    record_type: Literal[17] = 17


class StreamsGroupMemberMetadataKey(NamedTuple):
    """Type 19: the metadata of a member of a streams group."""

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
    """Type 22: the epoch and the present assignment of a member of a streams group."""

    group: str
    member_id: str
    record_type: Literal[22] = 22


class StreamsGroupTopologyKey(NamedTuple):
    """Type 23: the topology of a streams group."""

    group: str
    record_type: Literal[23] = 23


class PendingOffsetKey(NamedTuple):
    """Type -1, our own: an offset that a producer committed in a transaction that is still open."""

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


class DocumentKey(NamedTuple):
    """Type -5, our own: the description of a topic, or a setting of groups, brokers or features
    (`own_records.py`).
    """

    kind: str
    name: str
    record_type: Literal[-5] = -5


class ShareGroupStartsKey(NamedTuple):
    """Type -6, our own: the offsets at which a share group begins in partitions, as set by requests."""

    group: str
    record_type: Literal[-6] = -6


class UnknownKey(NamedTuple):
    """A type that is unknown to this code; `raw` is the whole key."""

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
    | DocumentKey
    | ShareGroupStartsKey
    | UnknownKey
)

_TOPIC_PARTITION_KEYS: Final[dict[int, Callable[[str, str, int], Key]]] = {
    0: LegacyOffsetCommitKey,
    1: OffsetCommitKey,
}
_ONE_NAME_KEYS: Final[dict[int, Callable[[str], Key]]] = {
    -6: ShareGroupStartsKey,
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
    """Encode a key as Kafka does."""
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
    """Decode a key; returns an `UnknownKey` for a type that is not listed above. Raises RecordError."""
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


def names_in(raw: bytes, count: int) -> list[str]:
    """Return the `count` names of a key that has nothing else after its type. Raises RecordError."""
    reader = _Reader(raw)
    names = [reader.string() for _ in range(count)]
    reader.end()
    return names


def group_of(key: Key) -> str:
    """Return the group of a record. Raises RecordError for an unknown key that does not begin with a name."""
    return _Reader(key.raw).string() if isinstance(key, UnknownKey) else key[0]


class KeyDecoder:
    """Decoder for the keys of a partition in order: a name that repeats is decoded once and shared."""

    __slots__ = ("_prefix", "_group", "_topic")

    def __init__(self) -> None:
        self._prefix: bytes | None = None
        self._group = self._topic = ""

    def decode(self, raw: bytes) -> Key:
        """Decode a key as `decode_key` does."""
        # Nearly every record is an offset, and the keys of one topic and group differ in their last four bytes only.
        if raw[:-4] == self._prefix:
            return OffsetCommitKey(self._group, self._topic, _UNPACK_INT32(raw, len(raw) - 4)[0])
        key = decode_key(raw)
        if key.__class__ is OffsetCommitKey:
            self._prefix = raw[:-4]
            group, topic, _, _ = key
            # Groups share topics, so all of them share one string.
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
