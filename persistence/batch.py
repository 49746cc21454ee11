"""Record batches of message format 2, as a broker keeps them in its logs: reader and writer.

Keys and values are plain bytes here, except for the two numbers of a control record. Formats 0 and 1, of brokers before
Kafka 0.11, are detected and refused.

    base offset int64 · length int32 · leader epoch int32 · magic int8 · CRC-32C of all that follows uint32
    attributes int16 · last offset delta int32 · base and max timestamp int64 · producer id int64, epoch int16
    base sequence int32 · count int32 · records, compressed together
    record: length · attributes int8 · timestamp delta · offset delta · key · value · headers   (all others varints)

Source: the message format page of Kafka's documentation; KIP-98.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from mmap import mmap
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from kafka_shim.persistence.compression import CODECS as CODECS
from kafka_shim.persistence.compression import CannotDecompress, compress, decompress

HEADER: Final = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer id and
epoch, base sequence, count of records."""
HEADER_SIZE: Final = HEADER.size
OVERHEAD: Final = 12
"""Size of base offset and length, which the length does not count."""
LENGTH_AT, MAGIC_AT, CRC_AT, CHECKED_AT = 8, 16, 17, 21
"""Positions in a header; from the last one on the CRC covers all."""

MAGIC: Final = 2
NO_PRODUCER_ID: Final = -1
NO_TIMESTAMP: Final = -1
MAX_DECOMPRESSED: Final = 256 * 2**20
"""Bytes of the records of a batch at most; a larger one is corrupt. Kafka writes batches of 1 MiB, unless a setting
allows more."""

COMPRESSION: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
_START: Final = Struct(">qii")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT64: Final = Struct(">q")
_LAST_OFFSET_DELTA_AT, _MAX_TIMESTAMP_AT = 23, 35
_CONTROL_KEY: Final = Struct(">hh")

ABORT: Final = 0
COMMIT: Final = 1


class CorruptBatch(ValueError):
    """Bytes that are not a sound batch. `offset` is their base offset, None if even that is unreadable."""

    def __init__(self, reason: str, offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset


class Record(NamedTuple):
    """One record. `timestamp` is milliseconds of Unix time."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class Batch(NamedTuple):
    """One batch: its bytes, and the fields of its header. `records` decodes its records.

    Timestamps are milliseconds of Unix time.
    """

    data: bytes
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def payload(self) -> bytes:
        """The records as stored, perhaps compressed."""
        return self.data[HEADER_SIZE:]

    @property
    def last_offset(self) -> int:
        """Offset of the last record at the time of writing; compaction may have removed the record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; the numbers wrap to 0 after 2^31 - 1."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def has_producer(self) -> bool:
        """True if the producer is idempotent: its batches have sequence numbers."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def compression(self) -> int:
        """Number of the codec; one that does not exist has no name in `CODECS`."""
        return self.attributes & COMPRESSION

    @property
    def codec(self) -> str:
        """One of `CODECS`; raises CorruptBatch for an unknown number."""
        if self.compression >= len(CODECS):
            raise CorruptBatch(f"compression codec {self.compression} does not exist", self.base_offset)
        return CODECS[self.compression]

    @property
    def transactional(self) -> bool:
        """Part of a transaction of `producer_id`; takes effect when a control batch commits it."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Written by the broker: its single record ends a transaction."""
        return bool(self.attributes & CONTROL)

    def stamped(self, base_offset: int, append_time: int | None, leader_epoch: int) -> Batch:
        """Return this batch as a log keeps it: with its offset, the leader epoch and, unless None, the append time.

        Only the kind of timestamp and the append time change bytes that the CRC covers.
        """
        start = _START.pack(base_offset, len(self.data) - OVERHEAD, leader_epoch)
        if append_time is None and not self.attributes & LOG_APPEND_TIME:
            data = b"".join((start, memoryview(self.data)[MAGIC_AT:]))
            return self._replace(data=data, base_offset=base_offset, leader_epoch=leader_epoch)
        attributes, latest = self.attributes & ~LOG_APPEND_TIME, self.max_timestamp
        if append_time is not None:
            attributes, latest = self.attributes | LOG_APPEND_TIME, append_time
        changed = bytearray(self.data)
        changed[:MAGIC_AT] = start
        _INT16.pack_into(changed, CHECKED_AT, attributes)
        _INT64.pack_into(changed, _MAX_TIMESTAMP_AT, latest)
        _UINT32.pack_into(changed, CRC_AT, checksum(changed))
        return self._replace(
            data=bytes(changed),
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            attributes=attributes,
            max_timestamp=latest,
        )

    def unpacked(self) -> bytes:
        """Return the decompressed records as bytes. Raises CorruptBatch."""
        try:
            return decompress(self.codec, self.payload, MAX_DECOMPRESSED)
        except CannotDecompress as error:
            raise CorruptBatch(str(error), self.base_offset) from error

    def records(self) -> list[Record]:
        """Decode the records. Raises CorruptBatch."""
        return self.decoded(self.unpacked())

    def decoded(self, unpacked: bytes) -> list[Record]:
        """Decode the records from the result of `unpacked`. Raises CorruptBatch."""
        try:
            return _read_records(self, unpacked)
        except (IndexError, StructError, UnicodeDecodeError) as error:
            raise CorruptBatch(f"a record is malformed: {error}", self.base_offset) from error


def read_batch(data: bytes | mmap, position: int = 0) -> tuple[Batch, int] | None:
    """Return the batch at `position` and the position after it; None if it is incomplete. Raises CorruptBatch."""
    if len(data) - position <= MAGIC_AT:
        return None
    base_offset, length, _ = _START.unpack_from(data, position)
    magic = data[position + MAGIC_AT]
    if magic != MAGIC:
        if magic in (0, 1):
            raise CorruptBatch(f"message format {magic}, of brokers before Kafka 0.11, is not read", base_offset)
        raise CorruptBatch(f"message format {magic} does not exist", base_offset)
    if length < HEADER_SIZE - OVERHEAD or base_offset < 0:
        raise CorruptBatch(f"a batch of length {length} at offset {base_offset} does not exist", base_offset)
    end = position + OVERHEAD + length
    if end > len(data):
        return None
    batch, crc = unchecked(data[position:end])
    if checksum(batch.data) != crc:
        raise CorruptBatch("the checksum is wrong", base_offset)
    return batch, end


def unchecked(data: bytes) -> tuple[Batch, int]:
    """Return the batch with these bytes, as its header has it, and the CRC of the header."""
    base_offset, _, leader_epoch, _, crc, *rest = HEADER.unpack_from(data)
    return Batch._make((data, base_offset, leader_epoch, *rest)), crc


def checksum(batch: bytes | bytearray) -> int:
    """Return the CRC-32C of a batch."""
    return _crc32c()(memoryview(batch)[CHECKED_AT:])


@cache
def _crc32c() -> Callable[[memoryview], int]:
    # Imported with the first batch: the import takes much of the time in which a server starts.
    from crc32c import crc32c

    return crc32c


def max_timestamp(batch: bytes) -> int:
    """Return the largest timestamp of the records in a batch, ms."""
    timestamp: int = _INT64.unpack_from(batch, _MAX_TIMESTAMP_AT)[0]
    return timestamp


def last_offset(batch: bytes) -> int:
    """Return the offset of the last record that the producer wrote into a batch."""
    base: int = _INT64.unpack_from(batch)[0]
    delta: int = _INT32.unpack_from(batch, _LAST_OFFSET_DELTA_AT)[0]
    return base + delta


def write_batch(
    records: Sequence[Record],
    *,
    codec: str = "none",
    leader_epoch: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Encode one or more records of growing offsets as a batch."""
    attributes = CODECS.index(codec) | transactional * TRANSACTIONAL | control * CONTROL
    last_offset_delta = records[-1].offset - records[0].offset
    producer = producer_id, producer_epoch, base_sequence
    return _encoded(records, records[0].offset, leader_epoch, codec, attributes, last_offset_delta, producer)


def batch_size(records: Iterable[tuple[bytes, bytes | None]]) -> int:
    """Return the size in bytes of an uncompressed batch of these keys and values, all of one time and without headers.

    Kafka's coordinator compares this size with max.message.bytes. Source: `DefaultRecordBatch.sizeInBytes`.
    """
    size = HEADER_SIZE
    for offset, (key, value) in enumerate(records):
        body = 3 + _zigzag_size(offset) + _zigzag_size(len(key)) + len(key)  # attributes, timestamp delta, headers
        body += 1 if value is None else _zigzag_size(len(value)) + len(value)
        size += _zigzag_size(body) + body
    return size


def write_batches(records: Iterable[Record], max_bytes: int) -> Iterator[bytes]:
    """Encode records as batches of at most `max_bytes`, each with offsets from 0 on; a single record may be larger."""
    parts: list[bytes] = []
    size = HEADER_SIZE
    base = latest = NO_TIMESTAMP
    for record in records:
        part = _write_record(record._replace(offset=len(parts)), 0, base) if parts else b""
        if parts and size + len(part) > max_bytes:
            yield _joined(parts, base, latest)
            parts, size = [], HEADER_SIZE
        if not parts:
            base = latest = record.timestamp
            part = _write_record(record._replace(offset=0), 0, base)
        parts.append(part)
        size += len(part)
        latest = max(latest, record.timestamp)
    if parts:
        yield _joined(parts, base, latest)


def _joined(parts: Sequence[bytes], base_timestamp: int, latest: int) -> bytes:
    producer = NO_PRODUCER_ID, -1, -1
    return _framed(b"".join(parts), 0, 0, 0, len(parts) - 1, (base_timestamp, latest), producer, len(parts))


def rewritten(batch: Batch, records: Sequence[Record]) -> bytes:
    """Encode a batch again with these of its records alone. Its offsets and its producer do not change."""
    producer = batch.producer_id, batch.producer_epoch, batch.base_sequence
    return _encoded(
        records,
        batch.base_offset,
        batch.leader_epoch,
        batch.codec,
        batch.attributes,
        batch.last_offset_delta,
        producer,
    )


def _encoded(
    records: Sequence[Record],
    base_offset: int,
    leader_epoch: int,
    codec: str,
    attributes: int,
    last_offset_delta: int,
    producer: tuple[int, int, int],
) -> bytes:
    base_timestamp = records[0].timestamp
    latest = max(record.timestamp for record in records)
    payload = compress(codec, b"".join(_write_record(record, base_offset, base_timestamp) for record in records))
    times = base_timestamp, latest
    return _framed(payload, base_offset, leader_epoch, attributes, last_offset_delta, times, producer, len(records))


def _framed(
    payload: bytes,
    base_offset: int,
    leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    times: tuple[int, int],
    producer: tuple[int, int, int],
    count: int,
) -> bytes:
    length = HEADER_SIZE - OVERHEAD + len(payload)
    start = base_offset, length, leader_epoch, MAGIC, 0
    batch = bytearray(HEADER.pack(*start, attributes, last_offset_delta, *times, *producer, count))
    batch += payload
    _UINT32.pack_into(batch, CRC_AT, checksum(batch))
    return bytes(batch)


def end_of_transaction(record: Record) -> int | None:
    """Return `COMMIT` or `ABORT` for the record of a control batch, None for other control records."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        return None
    _, kind = _CONTROL_KEY.unpack_from(record.key)
    return kind if kind in (ABORT, COMMIT) else None


def end_marker(offset: int, timestamp: int, kind: int, coordinator_epoch: int = 0) -> Record:
    """Build the record of a control batch that ends a transaction; `kind` is `COMMIT` or `ABORT`."""
    return Record(offset, timestamp, _CONTROL_KEY.pack(0, kind), Struct(">hi").pack(0, coordinator_epoch))


def _read_records(batch: Batch, data: bytes) -> list[Record]:
    records = []
    at = 0
    size = len(data)
    append_time = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else None
    for _ in range(batch.record_count):
        length, at = varint(data, at)
        end = at + length
        if length < 0 or end > size:
            raise IndexError("it is longer than the batch")
        timestamp_delta, at = varint(data, at + 1)
        offset_delta, at = varint(data, at)
        key, at = _bytes(data, at, end)
        value, at = _bytes(data, at, end)
        count, at = varint(data, at)
        headers = []
        for _ in range(count):
            name, at = _bytes(data, at, end)
            text, at = _bytes(data, at, end)
            headers.append(((name or b"").decode(), text))
        if at != end:
            raise IndexError("its fields do not fill it")
        timestamp = batch.base_timestamp + timestamp_delta if append_time is None else append_time
        records.append(Record(batch.base_offset + offset_delta, timestamp, key, value, tuple(headers)))
    if at != size:
        raise IndexError(f"{size - at} bytes are left over")
    return records


def _write_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    parts = [
        b"\0",
        _zigzag(record.timestamp - base_timestamp),
        _zigzag(record.offset - base_offset),
        *_sized(record.key),
        *_sized(record.value),
        _zigzag(len(record.headers)),
    ]
    for name, text in record.headers:
        parts += _sized(name.encode())
        parts += _sized(text)
    body = b"".join(parts)
    return _zigzag(len(body)) + body


def varint(data: bytes, at: int, last_shift: int = 63) -> tuple[int, int]:
    """Return a zigzag varint, and the position after it. Raises IndexError if it has over 10 bytes, or over 5 with a
    `last_shift` of 28."""
    byte = data[at]
    at += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > last_shift:
            raise IndexError("a varint is too long")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return value >> 1 ^ -(value & 1), at


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = varint(data, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise IndexError("a field is longer than its record")
    return data[at : at + length], at + length


def _zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag_size(value: int) -> int:
    """Return the size in bytes of a zigzag varint that is not negative."""
    return max(1, ((value << 1).bit_length() + 6) // 7)


def _sized(data: bytes | None) -> tuple[bytes, ...]:
    return (b"\x01",) if data is None else (_zigzag(len(data)), data)
