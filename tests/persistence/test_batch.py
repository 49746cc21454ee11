"""Record batches: round trips, and both directions with the record builders of kafka-python and aiokafka."""

import tracemalloc
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from kafka_shim.persistence import batch
from kafka_shim.persistence.batch import (
    ABORT,
    CODECS,
    COMMIT,
    HEADER_SIZE,
    Batch,
    CorruptBatch,
    Record,
    batch_size,
    end_marker,
    end_of_transaction,
    read_batch,
    write_batch,
    write_batches,
)

blobs = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), blobs), max_size=2).map(
    tuple
)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    """Draw records with increasing offsets and gaps, as after compaction."""
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 6))):
        timestamp = draw(st.integers(0, 2**42))
        records.append(Record(offset, timestamp, draw(blobs), draw(blobs), draw(headers)))
        offset += draw(st.integers(1, 1000))
    return records


def read(data: bytes, position: int = 0) -> Batch:
    result = read_batch(data, position)
    assert result is not None
    assert result[1] == len(data)
    return result[0]


@given(record_lists(), st.integers(HEADER_SIZE, 600))
def test_records_fill_batches_up_to_their_limit(records: list[Record], max_bytes: int) -> None:
    rest = records
    for data in write_batches(iter(records), max_bytes):
        count = read(data).record_count
        numbered = [each._replace(offset=number) for number, each in enumerate(rest)]
        assert data == write_batch(numbered[:count])
        assert len(data) <= max_bytes or count == 1
        assert count == len(rest) or len(write_batch(numbered[: count + 1])) > max_bytes
        rest = rest[count:]
    assert rest == []


@given(record_lists(), st.sampled_from(CODECS))
def test_round_trip(records: list[Record], codec: str) -> None:
    batch = read(write_batch(records, codec=codec, leader_epoch=3))
    assert batch.records() == records
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch) == (records[0].offset, records[-1].offset, 3)
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert (batch.codec, batch.transactional, batch.control, batch.producer_id) == (codec, False, False, -1)


def plain(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, tuple(record.headers)


@pytest.mark.parametrize("reader", [KafkaPythonBatch, AiokafkaBatch])
@given(records=record_lists(), codec=st.sampled_from(CODECS))
def test_other_codecs_read_our_bytes(reader: Any, records: list[Record], codec: str) -> None:
    theirs = reader(bytearray(write_batch(records, codec=codec)))
    assert theirs.validate_crc()
    assert [plain(record) for record in theirs] == [plain(record) for record in records]


@pytest.mark.parametrize("builder", [KafkaPythonBuilder, AiokafkaBuilder])
@given(records=record_lists(), codec=st.integers(0, 4), transactional=st.booleans())
def test_we_read_bytes_of_other_codecs(builder: Any, records: list[Record], codec: int, transactional: bool) -> None:
    batch_builder = builder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=77,
        producer_epoch=5,
        base_sequence=9,
        batch_size=1_000_000,
    )
    for index, record in enumerate(records):
        # Producers count from 0 and leave the base offset to the broker.
        batch_builder.append(
            index, timestamp=record.timestamp, key=record.key, value=record.value, headers=list(record.headers)
        )
    batch = read(bytes(batch_builder.build()))
    assert batch.records() == [record._replace(offset=index) for index, record in enumerate(records)]
    assert (batch.transactional, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (
        transactional,
        77,
        5,
        9,
    )
    assert batch.codec in ("none", CODECS[codec])


def test_a_batch_has_the_specified_bytes() -> None:
    # Base offset 5, one record with key "k" and a null value at time 1000; the fields are in the order of the format
    # page.
    data = write_batch([Record(5, 1000, b"k", None)])
    assert data[:17].hex() == "0000000000000005" + "00000039" + "00000000" + "02"
    assert data[21:].hex() == (
        "0000" + "00000000" + "00000000000003e8" * 2 + "ffffffffffffffff" + "ffff" + "ffffffff" + "00000001"
        "0e" + "00" + "00" + "00" + "026b" + "01" + "00"
    )
    assert len(data) == HEADER_SIZE + 8


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_an_end_marker_round_trips(kind: int) -> None:
    data = write_batch([end_marker(3, 9, kind)], producer_id=7, producer_epoch=1, transactional=True, control=True)
    batch = read(data)
    assert (batch.control, batch.transactional, batch.producer_id) == (True, True, 7)
    assert [end_of_transaction(record) for record in batch.records()] == [kind]
    assert AiokafkaBatch(bytearray(data)).is_control_batch
    assert end_of_transaction(Record(0, 0, b"\0\0\0\2", b"")) is None


@given(record_lists(), st.sampled_from(CODECS), st.data())
def test_checksum_detects_damage(records: list[Record], codec: str, data: st.DataObject) -> None:
    sound = write_batch(records, codec=codec)
    at = data.draw(st.integers(17, len(sound) - 1))
    damaged = bytearray(sound)
    damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptBatch, match="the checksum is wrong") as raised:
        read_batch(bytes(damaged))
    assert raised.value.offset == records[0].offset
    assert read_batch(sound[: data.draw(st.integers(0, len(sound) - 1))]) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((16, 1), "message format 1, of brokers before Kafka 0.11"),
        ((16, 7), "message format 7 does not exist"),
        ((8, 0xFF), "a batch of length"),
        ((11, 3), "a batch of length 3"),
    ],
)
def test_malformed_header_is_refused(change: tuple[int, int], reason: str) -> None:
    data = bytearray(write_batch([Record(0, 0, b"k", b"v")]))
    data[change[0]] = change[1]
    with pytest.raises(CorruptBatch, match=reason):
        read_batch(bytes(data))


@given(st.binary(max_size=200), st.integers(0, 6), st.integers(-1, 3))
def test_nonsense_under_a_good_checksum_is_read_or_rejected(payload: bytes, codec: int, count: int) -> None:
    batch = Batch(bytes(HEADER_SIZE) + payload, 0, 0, codec, 0, 0, 0, -1, -1, -1, count)
    try:
        size = len(batch.records())
    except CorruptBatch:
        return
    assert size == max(count, 0)


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = read(write_batch([Record(0, 5, b"a", b""), Record(1, 9, b"b", b"")]))
    stamped = batch._replace(attributes=batch.attributes | 0x08)
    assert [record.timestamp for record in stamped.records()] == [9, 9]


def test_lz4_blocks_are_independent_as_kafka_wants_them() -> None:
    records = [Record(n, 0, b"k" * 100, bytes([n % 7]) * 900) for n in range(200)]
    batch = read(write_batch(records, codec="lz4"))
    flags = batch.payload[4]
    assert batch.payload[:4] == bytes.fromhex("04224d18")
    assert flags & 0b0010_0000
    assert batch.records() == records
    assert len(batch.payload) < 20_000


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_beyond_the_limit_are_corrupt_and_take_no_memory(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 2**20
    monkeypatch.setattr(batch, "MAX_DECOMPRESSED", limit)
    read = read_batch(write_batch([Record(0, 0, None, bytes(8 * limit))], codec=codec))
    assert read is not None
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch, match=str(limit)):
            read[0].records()
        assert tracemalloc.get_traced_memory()[1] < 3 * limit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("sizes", [[0], [20, 50, 60, 64], range(300), [8_100, 8_200, 32_000]], ids=len)
@pytest.mark.parametrize("value", [b"v" * 40, None])
def test_size_of_a_batch_is_that_of_the_encoded_one(sizes: list[int], value: bytes | None) -> None:
    records = [(b"k" * size, value) for size in sizes]
    written = [Record(number, 1000, key, value) for number, (key, value) in enumerate(records)]
    assert batch_size(records) == len(write_batch(written))
