"""Records of `__consumer_offsets`: pairs of a key and a value, byte for byte as Kafka 4.2 writes and reads them.

A value is an int16 version and a message of that version (semantics 5.2; the fields are those of Kafka 4.2's
coordinator record schemas). None as a value is a tombstone. The store and the rules share values: never change one
after it was written. The code that replays a record applies it to its group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct as Packer
from struct import error as PackingError
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire import (
    DecodeError,
    Message,
    Struct,
    array,
    bytes_,
    field,
    int8,
    int32,
    int64,
    string,
    uuid,
)
from kafka_shim.apis.wire.primitives import read_uvarint, write_uvarint
from kafka_shim.persistence.keys import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    DocumentKey,
    GroupMetadataKey,
    GroupOptionsKey,
    Key,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    PendingOffsetKey,
    RecordError,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStartsKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    TransactionKey,
    UnknownKey,
    decode_key,
    encode_key,
    group_of,
)
from kafka_shim.persistence.own_records import (
    DocumentValue,
    GroupOptionsValue,
    ShareGroupStartsValue,
    ShareStart,
    TransactionPartitions,
    TransactionValue,
)
from kafka_shim.persistence.streams_records import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
)

__all__ = [
    "NO_TOPIC_ID",
    "AssignedTopicPartitions",
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "DocumentKey",
    "DocumentValue",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "GroupOptionsKey",
    "GroupOptionsValue",
    "Key",
    "LegacyOffsetCommitKey",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "OffsetCommitValues",
    "PartitionMetadata",
    "PendingOffsetKey",
    "PendingOffsetValue",
    "RecordError",
    "ShareGroupCurrentMemberAssignmentKey",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupMemberMetadataKey",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataKey",
    "ShareGroupMetadataValue",
    "ShareGroupStartsKey",
    "ShareGroupStartsValue",
    "ShareGroupStatePartitionMetadataKey",
    "ShareGroupStatePartitionMetadataValue",
    "ShareGroupTargetAssignmentMemberKey",
    "ShareGroupTargetAssignmentMemberValue",
    "ShareGroupTargetAssignmentMetadataKey",
    "ShareGroupTargetAssignmentMetadataValue",
    "ShareStart",
    "ShareTopic",
    "ShareTopicPartitions",
    "StreamsGroupCurrentMemberAssignmentKey",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupMemberMetadataKey",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupMetadataKey",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMemberKey",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupTargetAssignmentMetadataKey",
    "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupTopologyKey",
    "StreamsGroupTopologyValue",
    "TopicMetadata",
    "TopicPartitions",
    "TransactionKey",
    "TransactionPartitions",
    "TransactionValue",
    "UnknownKey",
    "UnknownValue",
    "Value",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_offset",
    "encode_value",
    "group_of",
]

NO_TOPIC_ID: Final = bytes(16)


class OffsetCommitValue(NamedTuple):
    """A committed offset. Timestamps are milliseconds of Unix time, -1 for none.

    Not a `Message`: there are millions of these, and the rules keep this very object as the state of a partition.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int = -1
    topic_id: bytes = NO_TOPIC_ID


class OffsetCommitValues(NamedTuple):
    """The values of one commit, as columns: a member commits ten offsets together, again and again, and few of the
    values are ever read. `places` maps each key to its index in the columns; `repeats` is set if an earlier commit had
    the same `places` object. `size` is an upper bound for the bytes of its records.
    """

    places: Mapping[OffsetCommitKey, int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str]
    commit_timestamps: Sequence[int]
    expire_timestamps: Sequence[int]
    topic_ids: Sequence[bytes]
    size: int
    repeats: bool = False

    def of(self, key: OffsetCommitKey) -> OffsetCommitValue:
        """Return the value of one key."""
        place = self.places[key]
        return OffsetCommitValue(
            self.offsets[place],
            self.leader_epochs[place],
            self.metadata[place],
            self.commit_timestamps[place],
            self.expire_timestamps[place],
            self.topic_ids[place],
        )


class MemberMetadata(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="3+", nullable="3+", default=None, ignorable=True)
    client_id: str = field(string)
    client_host: str = field(string)
    rebalance_timeout: int = field(int32, versions="1+", default=-1, ignorable=True)
    session_timeout: int = field(int32)
    subscription: bytes = field(bytes_)
    assignment: bytes = field(bytes_)


class GroupMetadataValue(Message, key=2, versions="0-4", flexible="4+"):
    """A classic group. v1: rebalance timeout; v2: timestamp of the state; v3: group instance id; v4: flexible."""

    protocol_type: str = field(string)
    generation: int = field(int32)
    protocol: str | None = field(string, nullable="0+")
    leader: str | None = field(string, nullable="0+")
    current_state_timestamp: int = field(int64, versions="2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field(array(MemberMetadata))


class ConsumerGroupMetadataValue(Message, key=3, versions="0", flexible="0+"):
    epoch: int = field(int32)
    metadata_hash: int = field(int64, tag=0, tagged="0+")


class PartitionMetadata(Struct):
    partition: int = field(int32)
    racks: list[str] = field(array(string))


class TopicMetadata(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    num_partitions: int = field(int32)
    partition_metadata: list[PartitionMetadata] = field(array(PartitionMetadata))


class ConsumerGroupPartitionMetadataValue(Message, key=4, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = field(array(TopicMetadata))


class ClassicProtocol(Struct):
    name: str = field(string)
    metadata: bytes = field(bytes_)


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = field(int32)
    supported_protocols: list[ClassicProtocol] = field(array(ClassicProtocol))


class ConsumerGroupMemberMetadataValue(Message, key=5, versions="0", flexible="0+"):
    instance_id: str | None = field(string, nullable="0+")
    rack_id: str | None = field(string, nullable="0+")
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable="0+")
    rebalance_timeout_ms: int = field(int32, default=-1)
    server_assignor: str | None = field(string, nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, nullable="0+", tag=0, tagged="0+"
    )
    """None for a member of the consumer protocol. Kafka writes None explicitly, because its default is an empty
    struct.
    """
    extension: bytes = field(bytes_, tag=10_010, tagged="0+")
    """Ours: data of an extension about the member, in its own form. Kafka skips unknown tags."""


class ConsumerGroupTargetAssignmentMetadataValue(Message, key=6, versions="0", flexible="0+"):
    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0, tagged="0+")


class TopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


class ConsumerGroupTargetAssignmentMemberValue(Message, key=7, versions="0", flexible="0+"):
    """`extension` is ours, as that of a member: data about its assignment."""

    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))
    extension: bytes = field(bytes_, tag=10_010, tagged="0+")


class AssignedTopicPartitions(Struct):
    """`assignment_epochs`: the epoch of the target assignment with which the member got each partition. Null in records
    of Kafka below 4.3: the member's epoch counts."""

    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))
    assignment_epochs: list[int] | None = field(array(int32), nullable="0+", tag=0, tagged="0+", default=None)


class ConsumerGroupCurrentMemberAssignmentValue(Message, key=8, versions="0", flexible="0+"):
    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[AssignedTopicPartitions] = field(array(AssignedTopicPartitions))
    partitions_pending_revocation: list[AssignedTopicPartitions] = field(array(AssignedTopicPartitions))


class ConsumerGroupRegularExpressionValue(Message, key=16, versions="0", flexible="0+"):
    topics: list[str] = field(array(string))
    version: int = field(int64)
    timestamp: int = field(int64)


class ShareGroupMemberMetadataValue(Message, key=10, versions="0", flexible="0+"):
    rack_id: str | None = field(string, nullable="0+")
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))


class ShareGroupMetadataValue(Message, key=11, versions="0", flexible="0+"):
    epoch: int = field(int32)
    metadata_hash: int = field(int64)


class ShareGroupTargetAssignmentMetadataValue(Message, key=12, versions="0", flexible="0+"):
    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0, tagged="0+")


class ShareGroupTargetAssignmentMemberValue(Message, key=13, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


class ShareGroupCurrentMemberAssignmentValue(Message, key=14, versions="0", flexible="0+"):
    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[TopicPartitions] = field(array(TopicPartitions))


class ShareTopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


class ShareTopic(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)


class ShareGroupStatePartitionMetadataValue(Message, key=15, versions="0", flexible="0+"):
    """Partitions of a share group by the progress of their share state: initializing, initialized, or deleting."""

    initializing_topics: list[ShareTopicPartitions] = field(array(ShareTopicPartitions))
    initialized_topics: list[ShareTopicPartitions] = field(array(ShareTopicPartitions))
    deleting_topics: list[ShareTopic] = field(array(ShareTopic))


class PendingOffsetValue(NamedTuple):
    """An offset in an open transaction; `producer_epoch` is the producer's epoch.

    `sequence` grows with every such offset of a partition of `__consumer_offsets`. 0 means that a later commit outside
    the transaction replaced the offset: it is then ignored even if the transaction is committed.
    """

    producer_epoch: int
    sequence: int
    offset: OffsetCommitValue


class UnknownValue(NamedTuple):
    """The value of an `UnknownKey`: `raw` is the whole value, with its version."""

    raw: bytes


Value = OffsetCommitValue | PendingOffsetValue | Message | UnknownValue

_WRITTEN: Final[dict[type[Message], int]] = {
    # Kafka 4.2 writes the group record in its last version that is not flexible, for downgrades (KIP-915); the offset
    # record moved to its flexible version in 4.1, for the topic id.
    GroupMetadataValue: 3,
    ConsumerGroupMetadataValue: 0,
    ConsumerGroupPartitionMetadataValue: 0,
    ConsumerGroupMemberMetadataValue: 0,
    ConsumerGroupTargetAssignmentMetadataValue: 0,
    ConsumerGroupTargetAssignmentMemberValue: 0,
    ConsumerGroupCurrentMemberAssignmentValue: 0,
    ConsumerGroupRegularExpressionValue: 0,
    StreamsGroupCurrentMemberAssignmentValue: 0,
    StreamsGroupMemberMetadataValue: 0,
    StreamsGroupMetadataValue: 0,
    StreamsGroupTargetAssignmentMemberValue: 0,
    StreamsGroupTargetAssignmentMetadataValue: 0,
    StreamsGroupTopologyValue: 0,
    ShareGroupMemberMetadataValue: 0,
    ShareGroupMetadataValue: 0,
    ShareGroupTargetAssignmentMetadataValue: 0,
    ShareGroupTargetAssignmentMemberValue: 0,
    ShareGroupCurrentMemberAssignmentValue: 0,
    ShareGroupStatePartitionMetadataValue: 0,
    TransactionValue: 1,
    GroupOptionsValue: 0,
    DocumentValue: 0,
    ShareGroupStartsValue: 0,
}

_READ: Final[dict[type, tuple[type[Message], int]]] = {
    GroupMetadataKey: (GroupMetadataValue, 4),
    ConsumerGroupMetadataKey: (ConsumerGroupMetadataValue, 0),
    ConsumerGroupPartitionMetadataKey: (ConsumerGroupPartitionMetadataValue, 0),
    ConsumerGroupMemberMetadataKey: (ConsumerGroupMemberMetadataValue, 0),
    ConsumerGroupTargetAssignmentMetadataKey: (ConsumerGroupTargetAssignmentMetadataValue, 0),
    ConsumerGroupTargetAssignmentMemberKey: (ConsumerGroupTargetAssignmentMemberValue, 0),
    ConsumerGroupCurrentMemberAssignmentKey: (ConsumerGroupCurrentMemberAssignmentValue, 0),
    ConsumerGroupRegularExpressionKey: (ConsumerGroupRegularExpressionValue, 0),
    StreamsGroupCurrentMemberAssignmentKey: (StreamsGroupCurrentMemberAssignmentValue, 0),
    StreamsGroupMemberMetadataKey: (StreamsGroupMemberMetadataValue, 0),
    StreamsGroupMetadataKey: (StreamsGroupMetadataValue, 0),
    StreamsGroupTargetAssignmentMemberKey: (StreamsGroupTargetAssignmentMemberValue, 0),
    StreamsGroupTargetAssignmentMetadataKey: (StreamsGroupTargetAssignmentMetadataValue, 0),
    StreamsGroupTopologyKey: (StreamsGroupTopologyValue, 0),
    ShareGroupMemberMetadataKey: (ShareGroupMemberMetadataValue, 0),
    ShareGroupMetadataKey: (ShareGroupMetadataValue, 0),
    ShareGroupTargetAssignmentMetadataKey: (ShareGroupTargetAssignmentMetadataValue, 0),
    ShareGroupTargetAssignmentMemberKey: (ShareGroupTargetAssignmentMemberValue, 0),
    ShareGroupCurrentMemberAssignmentKey: (ShareGroupCurrentMemberAssignmentValue, 0),
    ShareGroupStatePartitionMetadataKey: (ShareGroupStatePartitionMetadataValue, 0),
    TransactionKey: (TransactionValue, 1),
    GroupOptionsKey: (GroupOptionsValue, 0),
    DocumentKey: (DocumentValue, 0),
    ShareGroupStartsKey: (ShareGroupStartsValue, 0),
}

_INT16: Final = Packer(">h").pack
_INT64_STRING: Final = Packer(">hqh")
_TAIL: Final = Packer(">q")
_V3_HEAD: Final = Packer(">hqih")
_V4_PLAIN: Final = Packer(">hqiBqB")
_V4_HEAD: Final = Packer(">hqi")
_PENDING: Final = Packer(">hhq")


def encode_value(key: Key, value: Value) -> bytes:
    """Encode a value in the version that Kafka 4.2 writes."""
    if isinstance(value, OffsetCommitValue):
        if key.__class__ is LegacyOffsetCommitKey:
            return encode_offset(value, 0)
        offset, leader_epoch, metadata, commit_timestamp, expire_timestamp, topic_id = value
        if expire_timestamp == -1 and not metadata and topic_id == NO_TOPIC_ID:
            return _V4_PLAIN.pack(4, offset, leader_epoch, 1, commit_timestamp, 0)
        return encode_offset(value, 4 if expire_timestamp == -1 else 1)
    if isinstance(value, PendingOffsetValue):
        return _PENDING.pack(0, value.producer_epoch, value.sequence) + encode_offset(value.offset, 4)
    if isinstance(value, UnknownValue):
        return value.raw
    version = _WRITTEN.get(value.__class__, value.versions[-1])
    return _INT16(version) + value.encode(version)


def encode_offset(value: OffsetCommitValue, version: int) -> bytes:
    """Encode a committed offset in one of its versions, 0 to 4.

    Only v1 has the expire timestamp, v3+ the leader epoch; v4 is flexible and has the topic id as tag 0. As in Kafka, a
    field that the version lacks is lost.
    """
    text = value.metadata.encode()
    if version == 4:
        tags = b"\0" if value.topic_id == NO_TOPIC_ID else b"\1\0\x10" + value.topic_id
        size = write_uvarint(len(text) + 1)
        head = _V4_HEAD.pack(4, value.offset, value.leader_epoch)
        return b"".join((head, size, text, _TAIL.pack(value.commit_timestamp), tags))
    if version == 3:
        head = _V3_HEAD.pack(3, value.offset, value.leader_epoch, len(text))
        return b"".join((head, text, _TAIL.pack(value.commit_timestamp)))
    head = _INT64_STRING.pack(version, value.offset, len(text))
    tail = _TAIL.pack(value.expire_timestamp) if version == 1 else b""
    return b"".join((head, text, _TAIL.pack(value.commit_timestamp), tail))


def decode_value(key: Key, raw: bytes) -> Value:
    """Decode a value of any version. Raises RecordError."""
    kind = key.__class__
    if kind is OffsetCommitKey or kind is LegacyOffsetCommitKey:
        return _decode_offset(raw)
    if kind is UnknownKey:
        return UnknownValue(raw)
    if kind is PendingOffsetKey:
        if len(raw) < _PENDING.size or raw[:2] != b"\0\0":
            raise RecordError(f"a pending offset of {len(raw)} bytes is malformed")
        _, producer_epoch, sequence = _PENDING.unpack_from(raw)
        return PendingOffsetValue(producer_epoch, sequence, _decode_offset(raw[_PENDING.size :]))
    return decode_message(key, *_READ[kind], raw)


def decode_message(key: Any, message: type[Message], latest: int, raw: bytes) -> Message:
    """Decode the value of a key: an int16 version up to `latest`, and a message. Raises RecordError."""
    version = int.from_bytes(raw[:2], "big", signed=True)
    if len(raw) < 2 or not 0 <= version <= latest:
        raise RecordError(f"a value of record type {key.record_type} has version {version}, not 0 to {latest}")
    try:
        return message.decode(raw[2:], version)
    except DecodeError as error:
        raise RecordError(f"a value of record type {key.record_type} version {version}: {error}") from error


def _decode_offset(raw: bytes) -> OffsetCommitValue:
    if len(raw) == 24 and raw[:2] == b"\0\4" and raw[14] == 1:
        # Fast path without metadata and tags, as nearly every consumer commits.
        _, offset, leader_epoch, _, commit_timestamp, tags = _V4_PLAIN.unpack(raw)
        if not tags:
            return OffsetCommitValue(offset, leader_epoch, "", commit_timestamp)
    try:
        version = int.from_bytes(raw[:2], "big", signed=True)
        if version == 4:
            return _decode_flexible_offset(raw)
        if not 0 <= version <= 4:
            raise RecordError(f"a committed offset has version {version}, not 0 to 4")
        leader_epoch = expire_timestamp = -1
        if version == 3:
            _, offset, leader_epoch, size = _V3_HEAD.unpack_from(raw)
            start = _V3_HEAD.size
        else:
            _, offset, size = _INT64_STRING.unpack_from(raw)
            start = _INT64_STRING.size
        end = start + size
        (commit_timestamp,) = _TAIL.unpack_from(raw, end)
        if version == 1:
            (expire_timestamp,) = _TAIL.unpack_from(raw, end + 8)
        return OffsetCommitValue(offset, leader_epoch, str(raw[start:end], "utf-8"), commit_timestamp, expire_timestamp)
    except (PackingError, IndexError, DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"a committed offset of {len(raw)} bytes is malformed: {error}") from error


def _decode_flexible_offset(raw: bytes) -> OffsetCommitValue:
    _, offset, leader_epoch = _V4_HEAD.unpack_from(raw)
    size, start = read_uvarint(raw, _V4_HEAD.size)
    end = start + size - 1
    (commit_timestamp,) = _TAIL.unpack_from(raw, end)
    topic_id = NO_TOPIC_ID
    tags, at = read_uvarint(raw, end + 8)
    for _ in range(tags):
        tag, at = read_uvarint(raw, at)
        length, at = read_uvarint(raw, at)
        if at + length > len(raw):
            raise IndexError("a tagged field is cut short")
        if tag == 0:
            topic_id = raw[at : at + length]
        at += length
    return OffsetCommitValue(offset, leader_epoch, str(raw[start:end], "utf-8"), commit_timestamp, -1, topic_id)
