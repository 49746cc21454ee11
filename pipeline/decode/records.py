"""A decoder from records of `__consumer_offsets` to Arrow rows of `LOG_RECORDS`, many records at a time.

Committed offsets, which are nearly all records, are decoded column by column with numpy. Records of any other form are
decoded one by one by `persistence/`; a record that this cannot read either becomes damage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafka_shim.apis.consumer_protocol import assignment_from_bytes
from kafka_shim.apis.wire import Message, Struct
from kafka_shim.persistence.batch import CODECS, OVERHEAD
from kafka_shim.persistence.records import (
    GroupMetadataValue,
    OffsetCommitValue,
    RecordError,
    UnknownValue,
    Value,
    decode_key,
    decode_value,
    group_of,
)
from kafka_shim.pipeline.decode.batches import Batches
from kafka_shim.pipeline.decode.varints import Bytes, Ints, fixed, padded, strings, uvarints, varints

KINDS: Final = {
    0: "OffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    9: "ShareGroupPartitionMetadata",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    18: "StreamsGroupPartitionMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
"""Names of the record types by number (semantics 5.2)."""

SCHEMA: Final = pa.schema(
    [
        ("log", pa.string()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("offsets_partition", pa.int32()),
        ("record_offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("kind", pa.string()),
        ("record_type", pa.int16()),
        ("value_version", pa.int16()),
        ("tombstone", pa.bool_()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp", pa.int64()),
        ("expire_timestamp", pa.int64()),
        ("member_id", pa.string()),
        ("value", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("transactional", pa.bool_()),
        ("control", pa.string()),
        ("codec", pa.string()),
        ("reason", pa.string()),
        ("damaged_bytes", pa.int64()),
    ]
)

_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_FEW: Final = 8
_MALFORMED: Final = "a record is malformed: its lengths do not fit its batch"
_CODEC_NAMES: Final = pa.array([*CODECS, "?", "?", "?"])

Masks = NDArray[np.bool_]


class Source(NamedTuple):
    """The origin of records: path of the segment, its partition of `__consumer_offsets` (None if unknown), and its
    log."""

    file: str
    offsets_partition: int | None
    log: str


def decode(batches: Batches, source: Source) -> Iterator[pa.RecordBatch]:
    """Decode the records of these batches into several record batches, in no order."""
    rows, bad = _rows(batches, source)
    yield from bad
    if rows is not None:
        yield from rows.decoded()


def _rows(batches: Batches, source: Source) -> tuple[_InBatches | None, list[pa.RecordBatch]]:
    """Locate the records of these batches (None if there are none), and make a row for each malformed batch."""
    owner, starts, ends, wrong = record_bounds(batches)
    bad = []
    for index in wrong:
        size = int(batches.header["length"][index]) + OVERHEAD
        offset = int(batches.header["base_offset"][index])
        bad.append(damage(source, int(batches.positions[index]), size, offset, _MALFORMED))
    return (_InBatches(batches, owner, starts, ends, source) if owner.size else None), bad


def damage(source: Source, position: int, size: int, offset: int, reason: str) -> pa.RecordBatch:
    """Make the row for bytes that could not be read."""
    row = {**source._asdict(), "position": position, "record_offset": offset, "reason": reason, "damaged_bytes": size}
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def gap(source: Source, position: int, first: int, last: int) -> pa.RecordBatch:
    """Make the row for the log offsets that are missing before `position`."""
    place = {"position": position, "kind": "gap", "record_offset": first, "committed_offset": last}
    row = {**source._asdict(), **place, "reason": "offsets are missing", "damaged_bytes": 0}
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def from_messages(messages: pa.RecordBatch, file: str, topic: str) -> Iterator[pa.RecordBatch]:
    """Decode records as a consumer gets them into several record batches, in no order; unreadable ones become damage.

    The columns are `key`, `value`, `partition`, `offset` and `timestamp` (milliseconds).
    """
    if messages.num_rows:
        yield from _InMessages(messages, file, topic).decoded()


def record_bounds(batches: Batches) -> tuple[Ints, Ints, Ints, list[int]]:
    """Return for every record the index of its batch, its start and its end; and the indices of malformed batches.

    A record's start is known only once the record before it is read. So this walks all batches in step: the first
    record of each, then the second, and so on. Once only a few batches remain, it walks these one by one.
    """
    data, ends = batches.data, batches.ends
    at = batches.starts.copy()
    remaining = batches.header["count"].astype(np.int64)
    bad = remaining < 0
    active = np.flatnonzero(remaining > 0)
    owners: list[Ints] = []
    starts: list[Ints] = []
    stops: list[Ints] = []
    while active.size > _FEW:
        length, body = varints(data, at[active])
        stop = body + length
        wrong = (length < 4) | (stop > ends[active]) | (body > ends[active])
        if wrong.any():
            bad[active[wrong]] = True
            active, body, stop = active[~wrong], body[~wrong], stop[~wrong]
        owners.append(active)
        starts.append(body)
        stops.append(stop)
        at[active] = stop
        remaining[active] -= 1
        active = active[remaining[active] > 0]
    raw = data.tobytes() if active.size else b""
    for batch in active.tolist():
        flat_bounds = _walk_records(raw, int(at[batch]), int(ends[batch]), int(remaining[batch]))
        if flat_bounds is None:
            bad[batch] = True
            continue
        bounds = np.array(flat_bounds, np.int64).reshape(-1, 2)
        owners.append(np.full(len(bounds), batch, np.int64))
        starts.append(bounds[:, 0])
        stops.append(bounds[:, 1])
        at[batch] = bounds[-1, 1]
    bad |= ~bad & (at != ends)
    if not owners:
        empty = np.zeros(0, np.int64)
        return empty, empty, empty, np.flatnonzero(bad).tolist()
    owner, start, stop = np.concatenate(owners), np.concatenate(starts), np.concatenate(stops)
    if bad.any():
        good = ~bad[owner]
        owner, start, stop = owner[good], start[good], stop[good]
    return owner, start, stop, np.flatnonzero(bad).tolist()


def _walk_records(data: bytes, at: int, end: int, count: int) -> list[int] | None:
    """Return start and end of `count` records, flat; None if they do not fit."""
    bounds: list[int] = []
    for _ in range(count):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 35:
                return None
        stop = at + (value >> 1)
        if value & 1 or value < 8 or stop > end:
            return None
        bounds += (at, stop)
        at = stop
    return bounds


class _Rows:
    """Records whose keys and values lie in one buffer, and their conversion to rows.

    A size below 0 means null. A record that is not sound has no readable key; `unsound` is the reason for its row.
    """

    unsound: str
    data: Bytes
    key: Ints
    key_size: Ints
    value: Ints
    value_size: Ints
    sound: Masks
    control: Masks

    def decoded(self) -> Iterator[pa.RecordBatch]:
        """Convert all records to rows, in several record batches and no order."""
        self.record_type = fixed(self.data, np.where(self.sound, self.key, 0), ">i2")
        plain = self.plain_offsets()
        if plain.any():
            try:
                yield self.offsets(np.flatnonzero(plain))
            except pa.ArrowInvalid:
                # One string is not UTF-8: decode the records one by one, so that only its record fails.
                plain[:] = False
        if not plain.all():
            yield self.one_by_one(np.flatnonzero(~plain))

    def around(self, rows: Ints) -> dict[str, Any]:
        """Return the columns that do not depend on key and value."""
        raise NotImplementedError

    def size(self, row: int) -> int:
        """Return the size of a record in bytes."""
        raise NotImplementedError

    def plain_offsets(self) -> Masks:
        """Return which records are committed offsets of the usual forms; keeps their positions for `offsets`."""
        data = self.data
        candidate = self.sound & ~self.control & ((self.record_type >> 1) == 0) & (self.key_size >= 10)
        key = np.where(candidate, self.key, 0)
        key_end = key + self.key_size
        self.group_size = fixed(data, key + 2, ">i2")
        topic = np.clip(key + 4 + self.group_size, 0, data.size - 8)
        self.topic_size = fixed(data, topic, ">i2")
        self.topic = topic + 2
        good = candidate & (self.group_size >= 0) & (self.topic_size >= 0)
        good &= self.topic + self.topic_size + 4 == key_end
        tombstone = self.value_size < 0
        value = np.where(good & ~tombstone, self.value, 0)
        version = fixed(data, value, ">i2")
        flexible = version == 4
        # v4: offset, leader epoch, compact metadata, timestamp, tags; v3 the same with an int16 size and no tags;
        # v0 and v2: offset, metadata, timestamp; v1 also the time of expiry.
        text_at = value + np.where(version >= 3, 14, 10)
        self.text_size, self.text = fixed(data, text_at, ">i2"), text_at + 2
        if flexible.any():
            compact, compact_at = uvarints(data, text_at)
            self.text_size = np.where(flexible, compact.astype(np.int64) - 1, self.text_size)
            self.text = np.where(flexible, compact_at, self.text)
        self.committed = np.clip(self.text + self.text_size, 0, data.size - 24)
        end = self.committed + 8 + np.where(version == 1, 8, 0) + flexible
        untagged = ~flexible | (data[np.clip(end - 1, 0, data.size - 1)] == 0)
        readable = (version >= 0) & (version <= 4) & (self.text_size >= 0) & (end == value + self.value_size) & untagged
        self.tombstone: Masks = tombstone
        self.version = version
        plain: Masks = good & (tombstone | readable)
        return plain

    def offsets(self, rows: Ints) -> pa.RecordBatch:
        """Convert committed offsets to rows."""
        data = self.data
        null = self.tombstone[rows]
        value = np.where(null, 0, self.value[rows])
        version = self.version[rows]
        committed = np.where(null, 0, self.committed[rows])
        epoch = np.where(version >= 3, fixed(data, value + 10, ">i4"), -1)
        expire = np.where(version == 1, fixed(data, committed + 8, ">i8"), -1)
        key = self.key[rows]
        group_size, topic, topic_size = self.group_size[rows], self.topic[rows], self.topic_size[rows]
        nothing = pa.nulls
        count = len(rows)
        columns = {
            "kind": pa.repeat("OffsetCommit", count),
            "record_type": pa.array(self.record_type[rows], pa.int16()),
            "value_version": pa.array(version, pa.int16(), mask=null),
            "tombstone": pa.array(null),
            "group_id": strings(data, key + 4, group_size),
            "topic": strings(data, topic, topic_size),
            "partition": pa.array(fixed(data, topic + topic_size, ">i4"), pa.int32()),
            "committed_offset": pa.array(fixed(data, value + 2, ">i8"), mask=null),
            "leader_epoch": pa.array(epoch, pa.int32(), mask=null),
            "metadata": strings(data, self.text[rows], self.text_size[rows], null),
            "commit_timestamp": pa.array(fixed(data, committed, ">i8"), mask=null),
            "expire_timestamp": pa.array(expire, mask=null),
            "member_id": nothing(count, pa.string()),
            "value": nothing(count, pa.string()),
            "control": nothing(count, pa.string()),
            "reason": nothing(count, pa.string()),
            "damaged_bytes": nothing(count, pa.int64()),
        }
        return self._batch(rows, columns)

    def one_by_one(self, rows: Ints) -> pa.RecordBatch:
        """Convert all other records, and unreadable ones, to rows."""
        decoded_rows = [self._one(row) for row in rows.tolist()]
        names = [name for name in SCHEMA.names if name not in _OF_THE_BATCH]
        columns = {name: pa.array([row.get(name) for row in decoded_rows], SCHEMA.field(name).type) for name in names}
        return self._batch(rows, columns)

    def _one(self, row: int) -> dict[str, Any]:
        if not self.sound[row]:
            return {"reason": self.unsound, "damaged_bytes": self.size(row)}
        key = self.data[self.key[row] : self.key[row] + self.key_size[row]].tobytes()
        value_size = int(self.value_size[row])
        value = None if value_size < 0 else self.data[self.value[row] : self.value[row] + value_size].tobytes()
        if self.control[row]:
            kind = int.from_bytes(key[2:4], "big") if len(key) >= 4 else -1
            return {"kind": "control", "control": {0: "ABORT", 1: "COMMIT"}.get(kind), "tombstone": False}
        try:
            return readable(key, value)
        except RecordError as error:
            return {"reason": str(error), "damaged_bytes": self.size(row)}

    def _batch(self, rows: Ints, columns: dict[str, Any]) -> pa.RecordBatch:
        columns |= self.around(rows)
        return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


class _InBatches(_Rows):
    """The records of batches of a segment."""

    unsound = _MALFORMED

    def __init__(self, batches: Batches, owner: Ints, starts: Ints, ends: Ints, source: Source) -> None:
        data = batches.data
        header = batches.header
        self.data = data
        self.source = source
        self.owner = owner
        self.starts = starts
        self.ends = ends
        self.header = header
        self.positions = batches.positions
        attributes = header["attributes"].astype(np.int64)
        timestamp_delta, at = varints(data, starts + 1)
        offset_delta, at = varints(data, at)
        self.key_size, self.key = varints(data, at)
        after_key = self.key + np.maximum(self.key_size, 0)
        # A wrong size may point anywhere: clip it, so that the read stays inside the buffer.
        self.value_size, self.value = varints(data, np.clip(after_key, 0, data.size - 1))
        after = self.value + np.maximum(self.value_size, 0)
        self.sound = (after_key <= ends) & (after < ends) & (self.key_size >= 2)
        self.record_offset = header["base_offset"].astype(np.int64)[owner] + offset_delta
        appended = (attributes & _LOG_APPEND_TIME) != 0
        self.timestamp = np.where(
            appended[owner],
            header["max_timestamp"].astype(np.int64)[owner],
            header["base_timestamp"].astype(np.int64)[owner] + timestamp_delta,
        )
        self.codec = attributes & 0x07
        self.transactional = (attributes & _TRANSACTIONAL) != 0
        self.control = ((attributes & _CONTROL) != 0)[owner]

    def size(self, row: int) -> int:
        return int(self.ends[row] - self.starts[row])

    def around(self, rows: Ints) -> dict[str, Any]:
        owner = self.owner[rows]
        count = len(rows)
        return {
            "log": pa.repeat(self.source.log, count),
            "file": pa.repeat(self.source.file, count),
            "position": pa.array(self.positions[owner]),
            "offsets_partition": pa.repeat(pa.scalar(self.source.offsets_partition, pa.int32()), count),
            "record_offset": pa.array(self.record_offset[rows]),
            "timestamp": pa.array(self.timestamp[rows]),
            "producer_id": pa.array(self.header["producer_id"].astype(np.int64)[owner]),
            "producer_epoch": pa.array(self.header["producer_epoch"].astype(np.int16)[owner]),
            "transactional": pa.array(self.transactional[owner]),
            "codec": _CODEC_NAMES.take(pa.array(self.codec[owner])),
        }


class _InMessages(_Rows):
    """The records that a consumer got, without their batches."""

    unsound = "a record has no key"

    def __init__(self, messages: pa.RecordBatch, file: str, topic: str) -> None:
        self.messages = messages
        self.file = file
        self.log = topic
        keys, self.key, self.key_size = _places(messages["key"].cast(pa.binary()))
        values, self.value, self.value_size = _places(messages["value"].cast(pa.binary()))
        self.data = padded(keys, values)
        self.value += len(keys)
        self.sound = self.key_size >= 0
        self.control = np.zeros(messages.num_rows, bool)

    def size(self, row: int) -> int:
        return int(max(self.key_size[row], 0) + max(self.value_size[row], 0))

    def around(self, rows: Ints) -> dict[str, Any]:
        count = len(rows)
        chosen = self.messages.take(pa.array(rows))
        return {
            "log": pc.binary_join_element_wise(self.log, chosen["partition"].cast(pa.string()), "-"),
            "file": pa.repeat(self.file, count),
            "position": chosen["offset"],
            "offsets_partition": chosen["partition"],
            "record_offset": chosen["offset"],
            "timestamp": chosen["timestamp"],
            "producer_id": pa.repeat(pa.scalar(-1, pa.int64()), count),
            "producer_epoch": pa.repeat(pa.scalar(-1, pa.int16()), count),
            "transactional": pa.repeat(False, count),
            "codec": pa.nulls(count, pa.string()),
        }


def _places(column: pa.BinaryArray) -> tuple[memoryview, Ints, Ints]:
    """Return the bytes of a column, the start of each value in them, and its size, -1 for null."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    sizes = np.where(column.is_null().to_numpy(zero_copy_only=False), -1, np.diff(ends))
    return memoryview(data or b""), ends[:-1], sizes


_OF_THE_BATCH: Final = frozenset(
    {
        "log",
        "file",
        "position",
        "offsets_partition",
        "record_offset",
        "timestamp",
        "producer_id",
        "producer_epoch",
        "transactional",
        "codec",
    }
)


def readable(raw_key: bytes, raw_value: bytes | None) -> dict[str, Any]:
    """Decode one record with `kafka_shim.persistence.records`; return its columns. Raises RecordError."""
    key = decode_key(raw_key)
    value = None if raw_value is None else decode_value(key, raw_value)
    row: dict[str, Any] = {
        "kind": KINDS.get(key.record_type, f"type {key.record_type}"),
        "record_type": key.record_type,
        "value_version": None if raw_value is None else int.from_bytes(raw_value[:2], "big", signed=True),
        "tombstone": value is None,
        "group_id": group_of(key),
        "topic": getattr(key, "topic", None),
        "partition": getattr(key, "partition", None),
        "member_id": getattr(key, "member_id", None),
    }
    if isinstance(value, OffsetCommitValue):
        row |= {
            "committed_offset": value.offset,
            "leader_epoch": value.leader_epoch,
            "metadata": value.metadata,
            "commit_timestamp": value.commit_timestamp,
            "expire_timestamp": value.expire_timestamp,
        }
    elif value is not None:
        row["value"] = json.dumps(as_json(value), separators=(",", ":"))
    return row


def as_json(value: Value) -> Any:
    """Convert a value to JSON types: assignments of consumers by topic, other bytes as hexadecimal."""
    if isinstance(value, UnknownValue):
        return {"raw": value.raw.hex()}
    assert isinstance(value, Message)
    assignment: Callable[[bytes], Any] = bytes.hex
    if isinstance(value, GroupMetadataValue) and value.protocol_type == "consumer":
        assignment = _consumer_assignment
    return _plain(value, assignment)


def _consumer_assignment(data: bytes) -> Any:
    decoded = assignment_from_bytes(data)
    return (
        data.hex() if decoded is None else {each.topic: list(each.partitions) for each in decoded.assigned_partitions}
    )


def _plain(value: Any, assignment: Callable[[bytes], Any]) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_plain(each, assignment) for each in value]
    if isinstance(value, (Message, Struct)):
        return {
            field.name: assignment(part) if field.name == "assignment" else _plain(part, assignment)
            for field in value.fields
            for part in [getattr(value, field.name)]
        }
    return value
