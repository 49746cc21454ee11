"""Records that contradict their batch: each is answered as a running Kafka 4.2.2 answered the same bytes."""

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batch_records import MAX_RECORDS, MAX_UNPACKED, check_records
from kafka_shim.broker.batches import InvalidBatch
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.persistence.compression import CODECS, compress
from tests.broker.context import EPOCH_MS, Cluster

OK, WRONG, UNREADABLE = ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.UNKNOWN_SERVER_ERROR
HEADER_BYTES = 61
PACKED = CODECS[1:]


def varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def record(
    number: int,
    value: bytes = b"v",
    *,
    key_size: int = -1,
    headers: bytes = b"\0",
    more: bytes = b"",
    length: int | None = None,
    time: bytes = b"\0",
    offset: bytes | None = None,
) -> bytes:
    body = (
        b"\0"
        + time
        + (varint(number) if offset is None else offset)
        + varint(key_size)
        + varint(len(value))
        + value
        + headers
        + more
    )
    return varint(len(body) if length is None else length) + body


def batch(records: bytes, count: int, codec: str = "none") -> bytes:
    """A batch that claims `count` records."""
    made = bytearray(write_batch([Record(0, EPOCH_MS, None, b"v")])[:HEADER_BYTES]) + records
    struct.pack_into(">i", made, 8, len(made) - 12)
    struct.pack_into(">hi", made, 21, CODECS.index(codec), count - 1)
    struct.pack_into(">i", made, 57, count)
    struct.pack_into(">I", made, 17, crc32c(memoryview(made)[21:]))
    return bytes(made)


def answer(data: bytes) -> int:
    cluster = Cluster()
    cluster.topics.declare("t", 1)
    return cluster.send("t", 0, data).error_code


@pytest.mark.parametrize(
    ("records", "count", "error"),
    [
        (record(0) + record(1), 2, OK),
        (bytes(8), 2**31 - 1, WRONG),
        (record(0), 2, WRONG),
        (record(0) + record(1) + record(2), 2, WRONG),
        (record(0) + record(1) + b"\0", 2, WRONG),
        (b"", 2, WRONG),
        (record(0) + record(7), 2, OK),
        (record(0) + record(0), 2, OK),
        (record(0) + record(1, more=b"zz"), 2, WRONG),
        (record(0) + record(1, length=3), 2, WRONG),
        (record(0) + record(1, length=300), 2, WRONG),
        (record(0) + record(1, length=-1), 2, WRONG),
        (record(0) + record(1, key_size=-5), 2, OK),
        (record(0) + record(1, headers=varint(-1)), 2, WRONG),
        (record(0) + record(1, headers=varint(100)), 2, WRONG),
        (record(0) + record(1, headers=varint(1) + varint(-1) + varint(-1)), 2, WRONG),
        (record(0) + record(1, headers=varint(1) + varint(1) + b"h" + varint(-1)), 2, OK),
        (record(0) + record(1, bytes(1000)), 2, OK),
    ],
)
def test_uncompressed_records_are_counted(records: bytes, count: int, error: ErrorCode) -> None:
    assert answer(batch(records, count)) == error


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize(
    ("records", "count", "error"),
    [
        (record(0) + record(1), 2, OK),
        (record(0), 2, WRONG),
        (record(0), 2**31 - 1, WRONG),
        (record(0) + record(1) + record(2), 2, WRONG),
        (record(0) + record(7), 2, UNREADABLE),
        (record(0) + record(1, more=b"zz"), 2, WRONG),
        (record(0) + record(1, length=-1), 2, WRONG),
        (record(0, bytes(100_000)), 1, OK),
    ],
)
def test_compressed_records_are_counted(codec: str, records: bytes, count: int, error: ErrorCode) -> None:
    assert answer(batch(compress(codec, records), count, codec)) == error


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("damage", [lambda packed: b"garbage" * 5, lambda packed: packed[:-20]])
def test_records_that_cannot_be_unpacked_are_refused(codec: str, damage: Callable[[bytes], bytes]) -> None:
    packed = compress(codec, b"".join(record(number, bytes([number * 37 % 256]) * 50) for number in range(40)))
    assert answer(batch(damage(packed), 40, codec)) == UNREADABLE


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_small_batch_cannot_grow_beyond_the_bound(codec: str) -> None:
    data = batch(compress(codec, record(0, bytes(4 * MAX_UNPACKED))), 1, codec)
    assert len(data) < 2**20
    tracemalloc.start()
    try:
        assert answer(data) == UNREADABLE
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_UNPACKED
    finally:
        tracemalloc.stop()


def test_records_and_headers_of_a_batch_are_bounded() -> None:
    most = b"".join(record(number, b"") for number in range(MAX_RECORDS))
    assert answer(batch(most, MAX_RECORDS)) == OK
    assert answer(batch(most + record(MAX_RECORDS, b""), MAX_RECORDS + 1)) == WRONG
    headers = varint(MAX_RECORDS + 1) + varint(0) + varint(0)
    assert answer(batch(record(0, headers=headers), 1)) == WRONG


def long(value: int, size: int) -> bytes:
    """Encode a varint in this number of bytes, more than it needs or than it may have."""
    rest = value << 1
    return bytes([*(rest >> 7 * at & 0x7F | 0x80 for at in range(size - 1)), rest >> 7 * (size - 1)])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"time": long(0, 10)}, OK),
        ({"time": long(0, 11)}, WRONG),
        ({"time": long(2**62 - 1, 9)}, OK),
        ({"time": long(2**62, 10)}, WRONG),
        ({"time": long(2**66, 10)}, WRONG),
        ({"time": b"\x80" * 100_000 + b"\0"}, WRONG),
        ({"offset": long(0, 2)}, OK),
        ({"offset": long(0, 3)}, OK),
        ({"offset": long(0, 5)}, OK),
        ({"offset": long(0, 6)}, WRONG),
        ({"offset": b"\x80" * 100_000 + b"\0"}, WRONG),
        ({"headers": long(1, 5) + long(1, 5) + b"h" + long(0, 5)}, OK),
        ({"headers": long(1, 6) + long(1, 5) + b"h" + long(0, 5)}, WRONG),
        ({"headers": long(1, 5) + long(1, 6) + b"h" + long(0, 5)}, WRONG),
        ({"headers": long(1, 5) + long(1, 5) + b"h" + long(0, 6)}, WRONG),
    ],
)
def test_varints_have_at_most_the_bytes_that_kafka_reads(codec: str, changes: dict[str, bytes], error: int) -> None:
    assert answer(batch(compress(codec, record(0, **changes)), 1, codec)) == error  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["time", "offset"])
def test_a_varint_without_an_end_is_not_read_to_its_end(part: str) -> None:
    reads = 0

    class Counted(bytes):
        def __getitem__(self, at: Any) -> Any:
            nonlocal reads
            reads += 1
            return super().__getitem__(at)

    data = batch(record(0, **{part: b"\x80" * 100_000 + b"\0"}), 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidBatch):
        check_records(Counted(data), 0, 1)
    assert reads < 30


@pytest.mark.parametrize("base", [2**63 - 1, -(2**63)])
def test_a_base_timestamp_with_which_times_have_over_64_bits_is_refused(base: int) -> None:
    data = bytearray(batch(record(0) + record(1, time=varint(2)), 2))
    struct.pack_into(">q", data, 27, base)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    assert answer(bytes(data)) == ErrorCode.INVALID_TIMESTAMP
