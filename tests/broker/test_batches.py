"""Batches as clients build them: accepted, stamped, read by other clients; and everything that is refused."""

import struct

import pytest
from crc32c import crc32c

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import InvalidBatch, parse_batch
from kafka_shim.persistence.batch import HEADER
from tests.broker.context import BUILDERS, CODECS, EPOCH_MS, batch, records_of

VALUES = [b"first", b"", b"x" * 1000]


def refused(data: bytes | None, *, max_bytes: int = 2**20, zstd_allowed: bool = True) -> ErrorCode:
    with pytest.raises(InvalidBatch) as caught:
        parse_batch(data, max_bytes=max_bytes, zstd_allowed=zstd_allowed)
    return caught.value.error


def changed(data: bytes, at: int, code: str, value: int, *, crc: bool = True) -> bytes:
    """`data` with a header field changed, and its CRC right again."""
    writable = bytearray(data)
    struct.pack_into(">" + code, writable, at, value)
    if crc:
        struct.pack_into(">I", writable, 17, crc32c(memoryview(writable)[21:]))
    return bytes(writable)


@pytest.mark.parametrize("client", BUILDERS)
@pytest.mark.parametrize("codec", CODECS)
class TestAsClientsSendThem:
    def test_header_is_read(self, client: str, codec: str) -> None:
        data = batch(*VALUES, client=client, codec=codec, producer=(7, 3, 11))
        parsed = parse_batch(data, max_bytes=len(data))
        assert (parsed.last_offset, parsed.record_count, parsed.compression) == (2, 3, CODECS[codec])
        assert (parsed.base_timestamp, parsed.max_timestamp) == (EPOCH_MS, EPOCH_MS + 2)
        assert (parsed.producer_id, parsed.producer_epoch, parsed.base_sequence, parsed.last_sequence) == (7, 3, 11, 13)

    def test_stamped_batch_reads_back_whole(self, client: str, codec: str) -> None:
        data = batch(*VALUES, client=client, codec=codec, headers=[("h", b"v")])
        stamped = parse_batch(data, max_bytes=len(data)).stamped(41, None, 0)
        found = records_of(stamped.data)
        assert [record.offset for record in found] == [41, 42, 43]
        assert [record.value for record in found] == VALUES
        assert [record.timestamp for record in found] == [EPOCH_MS, EPOCH_MS + 1, EPOCH_MS + 2]
        assert all(record.key == b"key" and list(record.headers) == [("h", b"v")] for record in found)

    def test_append_time_replaces_the_producers_times(self, client: str, codec: str) -> None:
        data = batch(*VALUES, client=client, codec=codec)
        stamped = parse_batch(data, max_bytes=len(data)).stamped(5, EPOCH_MS + 99, 0)
        found = records_of(stamped.data)
        assert {(record.timestamp, record.timestamp_type) for record in found} == {(EPOCH_MS + 99, 1)}
        assert stamped.max_timestamp == EPOCH_MS + 99


def test_stamping_fills_in_offset_and_leader_epoch_and_keeps_the_crc() -> None:
    data = batch(b"a")
    base_offset, _, epoch, magic, crc, *_ = HEADER.unpack_from(
        parse_batch(data, max_bytes=2**20).stamped(9, None, 0).data
    )
    assert (base_offset, epoch, magic) == (9, 0, 2)
    assert crc == HEADER.unpack_from(data)[4]


def test_sequence_wraps_to_zero() -> None:
    data = batch(b"a", b"b", b"c", producer=(1, 0, 2**31 - 2))
    assert parse_batch(data, max_bytes=2**20).last_sequence == 0


@pytest.mark.parametrize("torn", [b"x", bytes(16), batch(b"a")[:-1]])
def test_a_torn_second_batch_is_cut_off(torn: bytes) -> None:
    data = batch(b"a")
    assert parse_batch(data + torn, max_bytes=len(data)).data == data


def test_only_the_log_says_when_it_appended() -> None:
    data = changed(batch(b"a", b"b"), 21, "h", 0x08)
    found = records_of(parse_batch(data, max_bytes=2**20).stamped(0, None, 0).data)
    assert [(record.timestamp, record.timestamp_type) for record in found] == [(EPOCH_MS, 0), (EPOCH_MS + 1, 0)]


class TestRefused:
    DATA = batch(b"a", b"b")

    @pytest.mark.parametrize("data", [None, b"", b"x", DATA[:11], DATA[:60], DATA[:-1], DATA + DATA])
    def test_not_exactly_one_batch(self, data: bytes | None) -> None:
        assert refused(data) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("magic", [0, 1])
    def test_older_message_formats(self, magic: int) -> None:
        assert refused(changed(self.DATA, 16, "b", magic, crc=False)) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("magic", [3, -1])
    def test_message_formats_that_do_not_exist(self, magic: int) -> None:
        assert refused(changed(self.DATA, 16, "b", magic, crc=False)) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48])
    def test_a_length_less_than_the_header(self, length: int) -> None:
        assert refused(changed(self.DATA, 8, "i", length, crc=False)) == ErrorCode.CORRUPT_MESSAGE

    def test_wrong_crc(self) -> None:
        assert refused(self.DATA[:-1] + b"?") == ErrorCode.CORRUPT_MESSAGE

    def test_larger_than_allowed(self) -> None:
        assert refused(self.DATA, max_bytes=len(self.DATA) - 1) == ErrorCode.MESSAGE_TOO_LARGE

    def test_zstd_before_it_was_known(self) -> None:
        data = batch(b"a", codec="zstd", client="aiokafka")
        assert refused(data, zstd_allowed=False) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    def test_a_compression_that_does_not_exist(self) -> None:
        assert refused(changed(self.DATA, 21, "h", 5)) == ErrorCode.CORRUPT_MESSAGE

    @pytest.mark.parametrize(
        ("at", "code", "value"),
        [
            pytest.param(0, "q", 5, id="base offset"),
            pytest.param(21, "h", 0x20, id="control batch"),
            pytest.param(57, "i", 1, id="count below offsets"),
            pytest.param(57, "i", 3, id="count beyond offsets"),
            pytest.param(57, "i", 0, id="no records"),
            pytest.param(23, "i", -1, id="negative offset delta"),
            pytest.param(43, "q", 7, id="producer without sequence"),
        ],
    )
    def test_header_that_contradicts_itself(self, at: int, code: str, value: int) -> None:
        assert refused(changed(self.DATA, at, code, value)) == ErrorCode.INVALID_RECORD
