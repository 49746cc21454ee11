"""Records to bytes and back: golden bytes of semantics 5.2, round trips, and rejected bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.apis.wire import Message, array, field
from kafka_shim.persistence import records
from kafka_shim.persistence.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    RecordError,
    UnknownKey,
    UnknownValue,
    decode_key,
    decode_value,
    encode_key,
    encode_offset,
    encode_value,
)
from tests.persistence.strategies import names, offset_values, stored_pairs

OFFSET_KEY = OffsetCommitKey("grp", "foo", 0)
OFFSET = OffsetCommitValue(100, -1, "", 1700000000000)


@pytest.mark.parametrize(
    ("key", "golden"),
    [
        (OFFSET_KEY, "000100036772700003666f6f00000000"),
        (LegacyOffsetCommitKey("grp", "foo", 0), "000000036772700003666f6f00000000"),
        (GroupMetadataKey("grp"), "00020003677270"),
        (ConsumerGroupMetadataKey("grp"), "00030003677270"),
        (records.ConsumerGroupPartitionMetadataKey("grp"), "00040003677270"),
        (records.ConsumerGroupMemberMetadataKey("grp", "m"), "0005000367727000016d"),
        (records.ConsumerGroupTargetAssignmentMetadataKey("grp"), "00060003677270"),
        (records.ConsumerGroupTargetAssignmentMemberKey("grp", "m"), "0007000367727000016d"),
        (records.ConsumerGroupCurrentMemberAssignmentKey("grp", "m"), "0008000367727000016d"),
        (records.ConsumerGroupRegularExpressionKey("grp", "a.*"), "001000036772700003612e2a"),
    ],
)
def test_keys_have_the_golden_bytes(key: records.Key, golden: str) -> None:
    assert encode_key(key).hex() == golden
    assert decode_key(bytes.fromhex(golden)) == key


@pytest.mark.parametrize(
    ("version", "golden"),
    [
        (0, "000000000000000000640000 0000018bcfe56800"),
        (1, "000100000000000000640000 0000018bcfe56800 ffffffffffffffff"),
        (2, "000200000000000000640000 0000018bcfe56800"),
        (3, "00030000000000000064ffffffff00000000018bcfe56800"),
        (4, "00040000000000000064ffffffff01 0000018bcfe56800 00"),
    ],
)
def test_offsets_of_every_version_have_the_golden_bytes(version: int, golden: str) -> None:
    assert encode_offset(OFFSET, version) == bytes.fromhex(golden)
    assert decode_value(OFFSET_KEY, bytes.fromhex(golden)) == OFFSET


def test_an_offset_is_written_as_kafka_4_2_does() -> None:
    topic_id = bytes(range(16))
    assert encode_value(OFFSET_KEY, OFFSET) == encode_offset(OFFSET, 4)
    assert encode_value(OFFSET_KEY, OFFSET._replace(expire_timestamp=5)) == encode_offset(
        OFFSET._replace(expire_timestamp=5), 1
    )
    assert encode_value(OFFSET_KEY, OFFSET._replace(metadata="hé", topic_id=topic_id)) == bytes.fromhex(
        "00040000000000000064ffffffff0468c3a90000018bcfe56800010010" + topic_id.hex()
    )
    assert encode_value(LegacyOffsetCommitKey("grp", "foo", 0), OFFSET) == encode_offset(OFFSET, 0)


def test_group_values_have_the_golden_bytes() -> None:
    assert encode_value(ConsumerGroupMetadataKey("grp"), ConsumerGroupMetadataValue(1)).hex() == "00000000000100"
    assert (
        encode_value(ConsumerGroupMetadataKey("grp"), ConsumerGroupMetadataValue(1, 7)).hex()
        == "00000000000101" + "0008" + "0000000000000007"
    )
    empty = GroupMetadataValue("", 0, None, None, 1700000000000, [])
    assert (
        encode_value(GroupMetadataKey("grp"), empty).hex()
        == "0003" + "0000" + "00000000" + "ffff" + "ffff" + "0000018bcfe56800" + "00000000"
    )
    member = MemberMetadata("m", None, "c", "/h", 300000, 10000, b"\1", b"\2")
    stable = GroupMetadataValue("consumer", 1, "range", "m", 1700000000000, [member])
    assert encode_value(GroupMetadataKey("grp"), stable).hex() == (
        "0003" + "0008636f6e73756d6572" + "00000001" + "000572616e6765" + "00016d" + "0000018bcfe56800" + "00000001"
        "00016d" + "ffff" + "000163" + "00022f68" + "000493e0" + "00002710" + "0000000101" + "0000000102"
    )


def test_a_member_of_kafka_4_2_has_the_golden_bytes() -> None:
    key = records.ConsumerGroupMemberMetadataKey("g848", "m")
    golden = "000000000872646b61666b610b2f3132372e302e302e310108285e666f2e2a29000493e00001000100"
    value = records.ConsumerGroupMemberMetadataValue(
        None, None, "rdkafka", "/127.0.0.1", [], "(^fo.*)", 300000, None, None
    )
    assert encode_value(key, value).hex() == golden
    assert decode_value(key, bytes.fromhex(golden)) == value
    classic = records.ConsumerGroupMemberMetadataValue(
        None, None, "c", "/h", [], None, -1, None, records.ClassicMemberMetadata(45000, [])
    )
    assert (
        encode_value(key, classic).hex().endswith("ffffffff" + "00" + "01" + "00" + "07" + "01" + "0000afc8" + "0100")
    )
    assert decode_value(key, encode_value(key, classic)) == classic


def test_an_assignment_of_kafka_4_4_has_tags_that_4_2_skips() -> None:
    key = records.ConsumerGroupCurrentMemberAssignmentKey("g", "m")
    head, topic, end = "0000" + "00000003" + "00000002" + "00" + "02", "07" * 16 + "02" + "00000001", "01" + "00"
    value = records.ConsumerGroupCurrentMemberAssignmentValue(
        3, 2, 0, [records.AssignedTopicPartitions(bytes([7] * 16), [1])], []
    )
    assert encode_value(key, value).hex() == head + topic + "00" + end
    value.assigned_partitions[0].assignment_epochs = [2]
    golden = head + topic + "01" + "00" + "05" + "02" + "00000002" + end
    assert encode_value(key, value).hex() == golden
    assert decode_value(key, bytes.fromhex(golden)) == value
    of_target = records.ConsumerGroupTargetAssignmentMetadataKey("g")
    target = records.ConsumerGroupTargetAssignmentMetadataValue(3, 1_000)
    assert encode_value(of_target, target).hex() == "0000" + "00000003" + "01" + "00" + "08" + "00000000000003e8"
    target.assignment_timestamp = 0
    assert encode_value(of_target, target).hex() == "0000" + "00000003" + "00"


class TargetOfKafka(Message, versions="0", flexible="0+"):
    """The value of a target assignment with the fields of a Kafka release."""

    topic_partitions: list[records.TopicPartitions] = field(array(records.TopicPartitions))


def test_extensions_write_a_tag_that_kafka_skips() -> None:
    key = records.ConsumerGroupTargetAssignmentMemberKey("g", "m")
    partitions = [records.TopicPartitions(bytes(16), [1])]
    plain, more = (records.ConsumerGroupTargetAssignmentMemberValue(partitions, *tags) for tags in ((), (b"y",)))
    assert encode_value(key, plain)[2:] == TargetOfKafka(partitions).encode(0)
    assert decode_value(key, encode_value(key, more)) == more
    assert TargetOfKafka.decode(encode_value(key, more)[2:], 0) == TargetOfKafka(partitions)
    member = records.ConsumerGroupMemberMetadataValue(None, None, "c", "/h", ["t"], None, 1, None, None)
    member.extension = b"x"
    of_member = records.ConsumerGroupMemberMetadataKey("g", "m")
    assert decode_value(of_member, encode_value(of_member, member)) == member


@given(stored_pairs)
def test_round_trip(pair: tuple[records.Key, records.Value]) -> None:
    key, value = pair
    raw_key = encode_key(key)
    assert decode_key(raw_key) == key
    assert type(decode_key(raw_key)) is type(key)
    assert decode_value(key, encode_value(key, value)) == value


@given(offset_values, st.integers(0, 4))
def test_offset_round_trip_keeps_the_fields_of_its_version(value: OffsetCommitValue, version: int) -> None:
    value = value._replace(expire_timestamp=9)
    expected = value._replace(
        leader_epoch=value.leader_epoch if version >= 3 else -1,
        expire_timestamp=9 if version == 1 else -1,
        topic_id=value.topic_id if version == 4 else records.NO_TOPIC_ID,
    )
    assert decode_value(OFFSET_KEY, encode_offset(value, version)) == expected


@given(st.integers(0, 4))
def test_every_group_value_version_is_read(version: int) -> None:
    member = MemberMetadata("m", None, "c", "/h", -1, 10000, b"\1", b"\2")
    group = GroupMetadataValue("consumer", 1, "range", "m", -1, [member])
    raw = version.to_bytes(2, "big") + group.encode(version)
    assert decode_value(GroupMetadataKey("grp"), raw) == group


@given(names)
def test_keys_of_two_types_are_never_equal(name: str) -> None:
    keys = [
        GroupMetadataKey(name),
        ConsumerGroupMetadataKey(name),
        records.ConsumerGroupPartitionMetadataKey(name),
        records.ConsumerGroupTargetAssignmentMetadataKey(name),
        records.ConsumerGroupMemberMetadataKey(name, name),
        records.ConsumerGroupTargetAssignmentMemberKey(name, name),
        records.ConsumerGroupCurrentMemberAssignmentKey(name, name),
        records.ConsumerGroupRegularExpressionKey(name, name),
        records.StreamsGroupMetadataKey(name),
        records.StreamsGroupMemberMetadataKey(name, name),
        records.StreamsGroupTargetAssignmentMetadataKey(name),
        records.StreamsGroupTargetAssignmentMemberKey(name, name),
        records.StreamsGroupCurrentMemberAssignmentKey(name, name),
        records.StreamsGroupTopologyKey(name),
        records.ShareGroupMemberMetadataKey(name, name),
        records.ShareGroupMetadataKey(name),
        records.ShareGroupTargetAssignmentMetadataKey(name),
        records.ShareGroupTargetAssignmentMemberKey(name, name),
        records.ShareGroupCurrentMemberAssignmentKey(name, name),
        records.ShareGroupStatePartitionMetadataKey(name),
        OffsetCommitKey(name, name, 0),
        LegacyOffsetCommitKey(name, name, 0),
        records.PendingOffsetKey(name, name, 0, 0),
        records.TransactionKey(name),
        records.GroupOptionsKey(name),
        records.DocumentKey(name, name),
        records.ShareGroupStartsKey(name),
    ]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("record_type", [9, 18, 99])
def test_other_types_stay_as_they_came(record_type: int) -> None:
    raw = record_type.to_bytes(2, "big") + b"\0\3grp"
    key = decode_key(raw)
    assert key == UnknownKey(raw, record_type)
    assert encode_key(key) == raw
    value = decode_value(key, b"\0\0whatever")
    assert value == UnknownValue(b"\0\0whatever")
    assert encode_value(key, value) == b"\0\0whatever"


@given(stored_pairs, st.data())
def test_truncated_records_are_refused(pair: tuple[records.Key, records.Value], data: st.DataObject) -> None:
    key, value = pair
    raw_key, raw_value = encode_key(key), encode_value(key, value)
    with pytest.raises(RecordError):
        decode_key(raw_key[: data.draw(st.integers(0, len(raw_key) - 1)) if len(raw_key) > 2 else 0])
    with pytest.raises(RecordError):
        decode_value(key, raw_value[: data.draw(st.integers(0, len(raw_value) - 1))])


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_give_a_record_or_a_record_error(raw_key: bytes, raw_value: bytes) -> None:
    try:
        key = decode_key(raw_key)
        decode_value(key, raw_value)
    except RecordError:
        return
    assert encode_key(key) == raw_key


def test_a_version_from_the_future_is_refused() -> None:
    with pytest.raises(RecordError, match="version 5, not 0 to 4"):
        decode_value(OFFSET_KEY, b"\0\5" + bytes(30))
    with pytest.raises(RecordError, match="version 5, not 0 to 4"):
        decode_value(GroupMetadataKey("grp"), b"\0\5" + bytes(30))
