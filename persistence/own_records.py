"""Values of our own records, of types below zero; the keys are in `keys.py`, and `records.py` encodes and decodes them.

No broker writes them, and no export has them. The type -1, a pending offset, is in `records.py`; -4 belongs to an
experiment.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.wire import Message, Struct, array, boolean, bytes_, field, int8, int16, int32, int64, string, uuid

DOCUMENTS: Final = -1
"""Number of the store's partition for documents, beside those of `__consumer_offsets`."""


class TransactionPartitions(Struct):
    topic: str = field(string)
    partition_ids: list[int] = field(array(int32))


class TransactionValue(Message, key=-2, versions="0-1", flexible="1+"):
    """A transactional id: the fields and numbers are those of Kafka's `__transaction_state`.

    `transaction_status`: 0 Empty, 1 Ongoing, 4 CompleteCommit, 5 CompleteAbort. Timestamps are milliseconds of Unix
    time.
    """

    producer_id: int = field(int64)
    previous_producer_id: int = field(int64, versions="1+", tag=0, tagged="1+", default=-1)
    next_producer_id: int = field(int64, versions="1+", tag=1, tagged="1+", default=-1)
    producer_epoch: int = field(int16)
    transaction_timeout_ms: int = field(int32)
    transaction_status: int = field(int8)
    transaction_partitions: list[TransactionPartitions] = field(array(TransactionPartitions))
    transaction_last_update_timestamp_ms: int = field(int64)
    transaction_start_timestamp_ms: int = field(int64, default=-1)


class GroupOptionsValue(Message, key=-3, versions="0"):
    """Options of a group that was created before its first member: `heartbeat_bound_ms` -1 for none."""

    ephemeral: bool = field(boolean)
    heartbeat_bound_ms: int = field(int32)


class DocumentValue(Message, key=-5, versions="0"):
    """A document describes a topic, or a setting. `text` is JSON in UTF-8; `shim/broker/documents.py` defines its
    content."""

    text: bytes = field(bytes_)


class ShareStart(Struct):
    """The start in one partition, and the epoch of the group when it was set."""

    topic_id: bytes = field(uuid)
    partition: int = field(int32)
    epoch: int = field(int32)
    start_offset: int = field(int64)


class ShareGroupStartsValue(Message, key=-6, versions="0"):
    """The starts of a share group that requests have set."""

    starts: list[ShareStart] = field(array(ShareStart))
