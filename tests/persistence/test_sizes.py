"""The size of records in a broker's log is that of the batch that contains them."""

import pytest

from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.persistence.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from kafka_shim.persistence.sizes import batch_size

GROUP = (GroupMetadataKey("group"), GroupMetadataValue("consumer", 1, "range", "leader", 1_700_000_000_000, []))


def offset(partition, metadata):
    return OffsetCommitKey("group", "topic", partition), OffsetCommitValue(7, -1, metadata, 1_700_000_000_000)


@pytest.mark.parametrize(
    "records",
    [
        [GROUP],
        [(GROUP[0], None)],
        [offset(0, ""), offset(1, "m" * 20), offset(2, "m" * 50), offset(3, "m" * 60), offset(4, "m" * 64)],
        [offset(partition, "m" * partition) for partition in range(300)],
        [offset(0, "m" * 8_100), offset(1, "m" * 8_200), offset(2, "m" * 32_000)],
    ],
)
def test_batch_size_equals_the_encoded_batch(records):
    written = [
        Record(number, 1000, encode_key(key), None if value is None else encode_value(key, value))
        for number, (key, value) in enumerate(records)
    ]
    assert batch_size(records) == len(write_batch(written))
