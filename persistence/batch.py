"""Record batches of message format 2: the bytes a broker keeps in its logs, read and written.

Decides what is a sound batch and what its records are. It does not know what keys and values mean, except for the two
numbers of a control record. Formats 0 and 1, which brokers before Kafka 0.11 wrote, are told apart and refused.

    base offset int64 · length int32 · leader epoch int32 · magic int8 · CRC-32C of all that follows uint32
    attributes int16 · last offset delta int32 · base and max timestamp int64 · producer id int64, epoch int16
    base sequence int32 · count int32 · records, compressed together
    record: length · attributes int8 · timestamp delta · offset delta · key · value · headers   (all others varints)

Source: the message format page of Kafka's documentation; KIP-98.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from mmap import mmap
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

import cramjam
from crc32c import crc32c

MAGIC: Final = 2
OVERHEAD: Final = 12
"""Bytes of base offset and length, which the length does not count."""
HEADER_SIZE: Final = 61
NO_PRODUCER_ID: Final = -1
NO_TIMESTAMP: Final = -1
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")

_CODEC: Final = 0x07
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_START: Final = Struct(">qiibI")
_CHECKED: Final = Struct(">hiqqqhii")
_CRC_AT: Final = 21
_CONTROL_KEY: Final = Struct(">hh")

ABORT: Final = 0
COMMIT: Final = 1


class CorruptBatch(ValueError):
    """Bytes that are no sound batch. `offset` is the base offset they claim, None if not even that can be read."""

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
    """One batch, without its records until `records` is called."""

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
    payload: bytes
    """The records as they are stored, perhaps compressed."""

    @property
    def last_offset(self) -> int:
        """Offset of the last record the batch was written with; compaction may have removed it."""
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> str:
        """One of `CODECS`; raises CorruptBatch for a number that means none."""
        number = self.attributes & _CODEC
        if number >= len(CODECS):
            raise CorruptBatch(f"compression codec {number} does not exist", self.base_offset)
        return CODECS[number]

    @property
    def transactional(self) -> bool:
        """Part of a transaction of `producer_id`; counts once a control batch commits it."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        """Written by the broker: its one record says how a transaction ended."""
        return bool(self.attributes & _CONTROL)

    def unpacked(self) -> bytes:
        """The records as bytes, no longer compressed. Raises CorruptBatch."""
        codec = self.codec
        if codec == "none":
            return self.payload
        try:
            return _DECOMPRESS[codec](self.payload)
        except Exception as error:
            raise CorruptBatch(f"{codec} data cannot be decompressed: {error}", self.base_offset) from error

    def records(self) -> list[Record]:
        """The records. Raises CorruptBatch."""
        payload = self.unpacked()
        try:
            return _read_records(self, payload)
        except (IndexError, StructError, UnicodeDecodeError) as error:
            raise CorruptBatch(f"a record is malformed: {error}", self.base_offset) from error


def read_batch(data: bytes | mmap, position: int = 0) -> tuple[Batch, int] | None:
    """The batch at `position` and the position after it; None if it is not all there. Raises CorruptBatch."""
    if len(data) - position < OVERHEAD + 5:
        return None
    base_offset, length, leader_epoch, magic, crc = _START.unpack(
        data[position : position + _START.size].ljust(_START.size, b"\0")
    )
    if magic != MAGIC:
        if magic in (0, 1):
            raise CorruptBatch(f"message format {magic}, of brokers before Kafka 0.11, is not read", base_offset)
        raise CorruptBatch(f"message format {magic} does not exist", base_offset)
    if length < HEADER_SIZE - OVERHEAD or base_offset < 0:
        raise CorruptBatch(f"a batch of length {length} at offset {base_offset} does not exist", base_offset)
    end = position + OVERHEAD + length
    if end > len(data):
        return None
    checked = data[position + _CRC_AT : end]
    if crc32c(checked) != crc:
        raise CorruptBatch("the checksum is wrong", base_offset)
    return Batch._make((base_offset, leader_epoch, *_CHECKED.unpack_from(checked), checked[_CHECKED.size :])), end


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
    """The bytes of a batch of one or more records, whose offsets grow."""
    base_offset = records[0].offset
    base_timestamp = records[0].timestamp
    payload = b"".join(_write_record(record, base_offset, base_timestamp) for record in records)
    attributes = CODECS.index(codec) | transactional * _TRANSACTIONAL | control * _CONTROL
    if codec != "none":
        payload = _COMPRESS[codec](payload)
    checked = (
        _CHECKED.pack(
            attributes,
            records[-1].offset - base_offset,
            base_timestamp,
            max(record.timestamp for record in records),
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
        + payload
    )
    length = HEADER_SIZE - OVERHEAD + len(payload)
    return _START.pack(base_offset, length, leader_epoch, MAGIC, crc32c(checked)) + checked


def rewritten(batch: Batch, records: Sequence[Record]) -> bytes:
    """The bytes of a batch with these of its records alone. Its offsets and its producer stay as they are."""
    base_timestamp = records[0].timestamp
    payload = b"".join(_write_record(record, batch.base_offset, base_timestamp) for record in records)
    if batch.codec != "none":
        payload = _COMPRESS[batch.codec](payload)
    checked = (
        _CHECKED.pack(
            batch.attributes,
            batch.last_offset_delta,
            base_timestamp,
            max(record.timestamp for record in records),
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            len(records),
        )
        + payload
    )
    length = HEADER_SIZE - OVERHEAD + len(payload)
    return _START.pack(batch.base_offset, length, batch.leader_epoch, MAGIC, crc32c(checked)) + checked


def end_of_transaction(record: Record) -> int | None:
    """What the record of a control batch says: `COMMIT`, `ABORT`, or None for other control records."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        return None
    _, kind = _CONTROL_KEY.unpack_from(record.key)
    return kind if kind in (ABORT, COMMIT) else None


def end_marker(offset: int, timestamp: int, kind: int, coordinator_epoch: int = 0) -> Record:
    """The record of a control batch that ends a transaction; `kind` is `COMMIT` or `ABORT`."""
    return Record(offset, timestamp, _CONTROL_KEY.pack(0, kind), Struct(">hi").pack(0, coordinator_epoch))


def _read_records(batch: Batch, data: bytes) -> list[Record]:
    records = []
    at = 0
    size = len(data)
    append_time = batch.max_timestamp if batch.attributes & _LOG_APPEND_TIME else None
    for _ in range(batch.record_count):
        length, at = _varint(data, at)
        end = at + length
        if length < 0 or end > size:
            raise IndexError("it is longer than the batch")
        timestamp_delta, at = _varint(data, at + 1)
        offset_delta, at = _varint(data, at)
        key, at = _bytes(data, at, end)
        value, at = _bytes(data, at, end)
        count, at = _varint(data, at)
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


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most 64 bits."""
    byte = data[at]
    at += 1
    value = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > 63:
            raise IndexError("a varint is too long")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return value >> 1 ^ -(value & 1), at


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = _varint(data, at)
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


def _sized(data: bytes | None) -> tuple[bytes, ...]:
    return (b"\x01",) if data is None else (_zigzag(len(data)), data)


# Compression. Java's snappy is framed its own way, "xerial": a magic, two versions, then blocks with their lengths.

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + Struct(">ii").pack(1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_LENGTH: Final = Struct(">i")


def _snappy_decompress(data: bytes) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return bytes(cramjam.snappy.decompress_raw(data))
    out = []
    at = len(_XERIAL_HEADER)
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length < 0 or at + length > len(data):
            raise ValueError("a block is cut short")
        out.append(bytes(cramjam.snappy.decompress_raw(data[at : at + length])))
        at += length
    return b"".join(out)


def _snappy_compress(data: bytes) -> bytes:
    out = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
        out += (_LENGTH.pack(len(block)), block)
    return b"".join(out)


# Kafka's readers refuse LZ4 frames whose blocks depend on one another: magic, independent blocks of at most 64 KiB and
# the checksum byte of just that; then each block with its length, the top bit set if it is stored as it was.

_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_BLOCK: Final = 64 * 1024
_LZ4_STORED: Final = 1 << 31
_LZ4_LENGTH: Final = Struct("<I")


def _lz4_compress(data: bytes) -> bytes:
    out = [_LZ4_HEADER]
    for at in range(0, len(data), _LZ4_BLOCK):
        block = data[at : at + _LZ4_BLOCK]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            out += (_LZ4_LENGTH.pack(len(packed)), packed)
        else:
            out += (_LZ4_LENGTH.pack(len(block) | _LZ4_STORED), block)
    out.append(_LZ4_LENGTH.pack(0))
    return b"".join(out)


_DECOMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": gzip.decompress,
    "snappy": _snappy_decompress,
    "lz4": lambda data: bytes(cramjam.lz4.decompress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.decompress(data)),
}
_COMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    # As Java's does: no time in it, so that the same records are the same bytes.
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "snappy": _snappy_compress,
    "lz4": _lz4_compress,
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}
