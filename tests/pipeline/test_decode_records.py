"""Segments decoded many records at a time, compared with `persistence`, which decodes one at a time."""

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="PyArrow is not installed (requirements/spark.txt)")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.persistence.batch import ABORT, CODECS, COMMIT, Record, end_marker, write_batch
from kafka_shim.persistence.records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    ShareTopic,
    ShareTopicPartitions,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    TopicPartitions,
    encode_key,
    encode_offset,
    encode_value,
)
from kafka_shim.persistence.segments import read_segment
from kafka_shim.pipeline.decode import records
from kafka_shim.pipeline.decode.batches import Batches, Damage, walk
from kafka_shim.pipeline.sources.offsets_log import Part, parts, read_part
from kafka_shim.pipeline.sources.places import Place

SOURCE = records.Source("f", 3, "__consumer_offsets-3")
NOW = 1_760_000_000_000
TOPIC_ID = bytes(range(16))


def commit(
    offset: int, group: str = "g", topic: str = "t", partition: int = 0, version: int = 4, **value: Any
) -> Record:
    key = encode_key(OffsetCommitKey(group, topic, partition))
    return Record(
        offset, NOW + offset, key, encode_offset(OffsetCommitValue(offset * 10, commit_timestamp=NOW, **value), version)
    )


def rows(data: bytes) -> list[dict[str, Any]]:
    """Return all rows, including damage, in the order of the log."""
    result: list[dict[str, Any]] = []
    for each in walk(data, 0, len(data)):
        if isinstance(each, Damage):
            result += records.damage(SOURCE, *each).to_pylist()
        else:
            assert isinstance(each, Batches)
            for batch in records.decode(each, SOURCE):
                batch.validate(full=True)
                result += batch.to_pylist()
    return sorted(result, key=lambda row: row["record_offset"])


def expected(record: Record) -> dict[str, Any]:
    assert record.key is not None
    return records.readable(record.key, record.value)


def assert_decoded(decoded: list[dict[str, Any]], records: list[Record]) -> None:
    assert [row["record_offset"] for row in decoded] == [record.offset for record in records]
    for row, record in zip(decoded, records, strict=True):
        assert row["reason"] is None
        assert row["timestamp"] == record.timestamp
        assert {name: row[name] for name in expected(record)} == expected(record)


VALUES = [
    (LegacyOffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "m", NOW)),
    (OffsetCommitKey("größe", "tøpic", 7), OffsetCommitValue(5, 3, "ümlaut", NOW, -1, TOPIC_ID)),
    (OffsetCommitKey("g", "t", 2**31 - 1), OffsetCommitValue(2**62, -1, "x" * 300, NOW)),
    (OffsetCommitKey("g", "t", 1), OffsetCommitValue(5, -1, "", NOW, NOW + 5)),
    (
        GroupMetadataKey("g"),
        GroupMetadataValue(
            "consumer", 3, "range", "m", NOW, [MemberMetadata("m", "i", "c", "/h", 300_000, 45_000, b"\0\1", b"\1")]
        ),
    ),
    (ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(7, 99)),
    (
        ConsumerGroupMemberMetadataKey("g", "m"),
        ConsumerGroupMemberMetadataValue(
            None, "rack", "c", "/h", ["a", "b"], None, 5, None, ClassicMemberMetadata(10, [])
        ),
    ),
    (ConsumerGroupTargetAssignmentMetadataKey("g"), ConsumerGroupTargetAssignmentMetadataValue(4)),
    (
        ConsumerGroupTargetAssignmentMemberKey("g", "m"),
        ConsumerGroupTargetAssignmentMemberValue([TopicPartitions(TOPIC_ID, [1, 2])]),
    ),
    (ConsumerGroupCurrentMemberAssignmentKey("g", "m"), ConsumerGroupCurrentMemberAssignmentValue(3, 2, 1, [], [])),
    (ConsumerGroupRegularExpressionKey("g", "a.*"), ConsumerGroupRegularExpressionValue(["a"], 3, NOW)),
    (ConsumerGroupPartitionMetadataKey("g"), None),
    (ShareGroupMemberMetadataKey("g", "m"), ShareGroupMemberMetadataValue(None, "c", "/h", ["a", "b"])),
    (ShareGroupMetadataKey("g"), ShareGroupMetadataValue(7, -99)),
    (ShareGroupTargetAssignmentMetadataKey("g"), ShareGroupTargetAssignmentMetadataValue(4)),
    (
        ShareGroupTargetAssignmentMemberKey("g", "m"),
        ShareGroupTargetAssignmentMemberValue([TopicPartitions(TOPIC_ID, [1, 2])]),
    ),
    (ShareGroupCurrentMemberAssignmentKey("g", "m"), ShareGroupCurrentMemberAssignmentValue(3, 2, 0, [])),
    (
        ShareGroupStatePartitionMetadataKey("g"),
        ShareGroupStatePartitionMetadataValue(
            [], [ShareTopicPartitions(TOPIC_ID, "t", [0])], [ShareTopic(TOPIC_ID, "u")]
        ),
    ),
    (StreamsGroupMetadataKey("g"), None),
    (StreamsGroupMemberMetadataKey("g", "m"), None),
    (StreamsGroupTargetAssignmentMetadataKey("g"), None),
    (StreamsGroupTargetAssignmentMemberKey("g", "m"), None),
    (StreamsGroupCurrentMemberAssignmentKey("g", "m"), None),
    (StreamsGroupTopologyKey("g"), None),
    (OffsetCommitKey("g", "t", 3), None),
]


@pytest.mark.parametrize("codec", CODECS)
def test_every_record_type_and_codec_is_decoded(codec: str) -> None:
    written = [
        Record(100 + index * 3, NOW + index, encode_key(key), None if value is None else encode_value(key, value))
        for index, (key, value) in enumerate(VALUES)
    ]
    # Types that Kafka no longer writes: their records are identified but not decoded.
    written += [Record(1000 + kind, NOW, bytes([0, kind]) + b"\0\1g", b"\0\0abc") for kind in (9, 18)]
    result = rows(write_batch(written, codec=codec))
    assert_decoded(result, written)
    assert {row["codec"] for row in result} == {codec}
    assert {row["record_type"] for row in result} == set(range(24))
    assert not any(row["kind"].startswith("type") for row in result)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_committed_offset_is_decoded(version: int) -> None:
    written = [
        commit(1, version=version),
        commit(2, version=version, metadata="some of it"),
        commit(3, version=version, leader_epoch=4, expire_timestamp=NOW + 9, topic_id=TOPIC_ID),
    ]
    result = rows(write_batch(written))
    assert_decoded(result, written)
    assert [row["value_version"] for row in result] == [version] * 3
    assert result[2]["leader_epoch"] == (4 if version >= 3 else -1)
    assert result[2]["expire_timestamp"] == (NOW + 9 if version == 1 else -1)


names = st.text(st.characters(codec="utf-8"), max_size=20)
offsets = st.tuples(
    names, names, st.integers(-(2**31), 2**31 - 1), st.integers(0, 4), names, st.integers(-1, 2**63 - 1), st.booleans()
)


@given(st.lists(st.lists(offsets, min_size=1, max_size=12), min_size=1, max_size=12), st.sampled_from(CODECS))
def test_random_committed_offsets_are_decoded(batches: list[list[Any]], codec: str) -> None:
    data = b""
    written: list[Record] = []
    for batch in batches:
        inside = []
        for group, topic, partition, version, metadata, offset, is_tombstone in batch:
            value = None if is_tombstone else encode_offset(OffsetCommitValue(offset, 1, metadata, NOW), version)
            key = encode_key(OffsetCommitKey(group, topic, partition))
            inside.append(Record(len(written) + len(inside), NOW, key, value))
        data += write_batch(inside, codec=codec)
        written += inside
    assert_decoded(rows(data), written)


def test_many_records_in_few_batches_are_decoded() -> None:
    written = [commit(offset, partition=offset) for offset in range(5_000)]
    assert_decoded(rows(write_batch(written)), written)


def test_transactions_and_their_ends_are_decoded() -> None:
    data = write_batch([commit(0)], producer_id=9, producer_epoch=2, transactional=True)
    data += write_batch([end_marker(1, NOW, COMMIT)], producer_id=9, transactional=True, control=True)
    data += write_batch([end_marker(2, NOW, ABORT)], producer_id=9, transactional=True, control=True)
    first, committed, aborted = rows(data)
    assert (first["transactional"], first["producer_id"], first["producer_epoch"], first["kind"]) == (
        True,
        9,
        2,
        "OffsetCommit",
    )
    assert (committed["kind"], committed["control"]) == ("control", "COMMIT")
    assert (aborted["kind"], aborted["control"]) == ("control", "ABORT")


def three_batches() -> tuple[bytes, bytes, bytes]:
    return tuple(write_batch([commit(base), commit(base + 1)]) for base in (10, 20, 30))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda data: data[:70] + bytes([data[70] ^ 1]) + data[71:], "the checksum is wrong"),
        (lambda data: data[:16] + b"\1" + data[17:], "message format 1, of brokers before Kafka 0.11, is not read"),
        (lambda data: data[:16] + b"\7" + data[17:], "message format 7 does not exist"),
        (lambda data: data[:8] + b"\x7f" + data[9:], "the file ends within a batch"),
        (lambda data: data[:8] + bytes(4) + data[12:], "a batch of length 0 at offset 20 does not exist"),
        (lambda data: bytes(len(data)), "only zeroes from here on"),
    ],
)
def test_a_damaged_batch_is_reported_and_reading_goes_on(spoil: Any, reason: str) -> None:
    first, second, third = three_batches()
    result = rows(first + spoil(second) + third)
    damage = next(row for row in result if row["reason"] is not None)
    assert (damage["reason"], damage["position"], damage["damaged_bytes"]) == (reason, len(first), len(second))
    assert {row["record_offset"] for row in result if row["reason"] is None} == {10, 11, 30, 31}


def test_a_truncated_batch_is_reported() -> None:
    first, second, _ = three_batches()
    for cut in (1, 30, len(second) - 8):
        result = rows(first + second[:-cut])
        assert [row["reason"] for row in result if row["reason"]] == ["the file ends within a batch"]
        assert len(result) == 3


def test_a_malformed_record_is_damage_and_its_neighbours_are_read() -> None:
    strange = [
        commit(0),
        Record(1, NOW, b"\0\1\0\5gr", b"\0\4"),
        Record(2, NOW, encode_key(OffsetCommitKey("g", "t", 0)), b"\0\x09"),
        Record(3, NOW, encode_key(OffsetCommitKey("g", "t", 0)), b"\0\3\0"),
        Record(4, NOW, b"\0\1\0\1\xff\0\1t\0\0\0\0", None),
        Record(5, NOW, None, b"value"),
        commit(6),
    ]
    result = rows(write_batch(strange))
    assert [row["record_offset"] for row in result if row["reason"] is None] == [0, 6]
    assert len(result) == len(strange)


def test_records_from_a_consumer_decode_like_those_of_a_log() -> None:
    whole = [
        Record(n, NOW + n, encode_key(key), value and encode_value(key, value)) for n, (key, value) in enumerate(VALUES)
    ]
    whole += [Record(100, NOW, whole[0].key, None), *(commit(101 + version, version=version) for version in range(5))]
    broken = [
        Record(200, NOW, None, b"anything"),
        Record(201, NOW, b"\0", None),
        Record(202, NOW, whole[1].key, b"\0\4cut"),
        Record(203, NOW, encode_key(OffsetCommitKey("g", "T", 0)).replace(b"T", b"\xff"), whole[1].value),
    ]
    columns = list(
        zip(*((each.key, each.value, 3, each.offset, each.timestamp) for each in whole + broken), strict=True)
    )
    types = {"key": pa.binary(), "value": pa.large_binary(), "partition": pa.int32(), "offset": pa.int64()}
    types["timestamp"] = pa.int64()
    arrays = [pa.array(column, type) for column, type in zip(columns, types.values(), strict=True)]
    # Columns that do not begin at the start of their buffer.
    messages = pa.RecordBatch.from_arrays(
        [pa.concat_arrays([each[:1], each])[1:] for each in arrays], names=list(types)
    )
    result = []
    for batch in records.from_messages(messages, "kafka://b", "__consumer_offsets"):
        batch.validate(full=True)
        result += batch.to_pylist()
    result.sort(key=lambda row: row["record_offset"])
    assert_decoded(result[: len(whole)], whole)
    assert {(row["log"], row["file"], row["offsets_partition"]) for row in result} == {(SOURCE.log, "kafka://b", 3)}
    reasons = [row["reason"] for row in result[len(whole) :]]
    assert len(reasons) == len(broken)
    assert reasons[0] == "a record has no key"
    assert None not in reasons
    assert [row["damaged_bytes"] for row in result[len(whole) :]] == [
        len(each.key or b"") + len(each.value or b"") for each in broken
    ]
    assert not list(records.from_messages(messages[:0], "kafka://b", "__consumer_offsets"))


def test_random_damage_hides_no_readable_record(tmp_path: Path) -> None:
    rng = random.Random(5)
    whole = [
        write_batch([commit(base + i, partition=i) for i in range(3)], codec=rng.choice(CODECS))
        for base in range(0, 300, 3)
    ]
    data = bytearray(b"".join(whole))
    for _ in range(12):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data)
    problems: list[Any] = []
    readable = {record.offset for _, inside in read_segment(path, problems.append) for record in inside}
    result = rows(bytes(data))
    assert {row["record_offset"] for row in result if row["reason"] is None} >= readable
    assert len([row for row in result if row["reason"]]) >= len(problems)
    assert len(problems) > 3


@pytest.mark.second_stage("its time")
def test_parts_begin_at_batches_with_and_without_an_index(data: Path) -> None:
    path = max(data.glob("segments/*/*.log"), key=lambda each: each.stat().st_size)
    whole = [row for batch in read_part(Part(str(path), 0, path.stat().st_size)) for row in batch.to_pylist()]
    bare = path.parent.parent / "bare" / path.parent.name / path.name
    bare.parent.mkdir(parents=True, exist_ok=True)
    bare.write_bytes(path.read_bytes())
    for place in (path, bare):
        cut = parts(Place(str(place)), 20_000)
        assert len(cut) > 3
        assert [part.start for part in cut[1:]] == [part.end for part in cut[:-1]]
        in_parts = [row for part in cut for batch in read_part(part) for row in batch.to_pylist()]
        key = ("record_offset", "group_id", "topic", "partition", "committed_offset", "reason")
        assert sorted(str([row[name] for name in key]) for row in in_parts) == sorted(
            str([row[name] for name in key]) for row in whole
        )
