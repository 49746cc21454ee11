"""Records over HTTP: produce some to a topic, and read those of a topic, without a client.

Keys and values are text in UTF-8, or base64 where a record has other bytes.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.operation import Answer, Body, Offset, Operation, PartitionNumber, Text
from kafka_shim.control.problems import Problem
from kafka_shim.control.workbench import Workbench
from kafka_shim.persistence.batch import CorruptBatch
from kafka_shim.server.refusals import Refused

if TYPE_CHECKING:
    from kafka_shim.lab.topic_data import StoredRecord, TopicData

MOST: Final = 1000
"""Records of a request or of an answer."""
ANSWER_BYTES: Final = 2**20
"""Bytes of records in an answer, which has one record at least. A record of more bytes is in base64, since JSON can
take six for each byte of a text."""
REPEATED: Final = 2**22
"""Characters of the keys and headers of produced records together."""
_PART_BYTES: Final = 16
"""Bytes of a record or of a header beside its texts."""


class Place(Answer, kw_only=True):
    """The place of a record."""

    partition: int
    offset: int


class ProduceRecords(Body, kw_only=True):
    """Records to produce: one for each value, all with this key and these headers."""

    values: Annotated[
        list[str | None], Meta(min_length=1, max_length=MOST, description="A value may be null, a tombstone.")
    ]
    key: Annotated[str | None, Meta(description="It chooses the partition, as in Kafka's producer.")] = None
    partition: PartitionNumber | None = None
    headers: dict[Text, str | None] = msgspec.field(default_factory=dict)


class Produced(Answer, kw_only=True):
    """The places of the new records, in the order of the values."""

    records: list[Place]


class RecordsQuery(Body, kw_only=True):
    """The records to read."""

    partition: PartitionNumber | UnsetType = UNSET
    start: Annotated[Offset, Meta(description="The first offset of each partition.")] = 0
    most: Annotated[int, Meta(ge=1, le=MOST, description="How many records at most.")] = 100


class RecordRead(Answer, kw_only=True):
    """A record as a consumer reads it."""

    partition: int
    offset: int
    timestamp: Annotated[int, Meta(description="Milliseconds of Unix time.")]
    key: str | None
    value: str | None
    headers: list[tuple[str, str | None]]
    base64: Annotated[
        bool,
        Meta(description="True if key, value and headers are base64: one of them is not UTF-8, or all exceed 1 MiB."),
    ]


class RecordsRead(Answer, kw_only=True):
    """Committed records, partition by partition."""

    records: list[RecordRead]
    more: Annotated[bool, Meta(description="True if the answer has not all of them.")]


def _produce(workbench: Workbench, topic: str, body: ProduceRecords) -> Produced:
    if workbench.cluster.config.journal is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, "A server that writes a journal takes records from clients alone.")
    data = _data(workbench, topic, body.partition)
    # Each record has the key and the headers.
    repeated = len(body.key or "") + sum(len(name) + len(value or "") for name, value in body.headers.items())
    if len(body.values) * repeated > REPEATED:
        raise Refused(ErrorCode.INVALID_RECORD, f"Keys and headers have {REPEATED} characters together at most.")
    try:
        places = data.produce(topic, *body.values, key=body.key, partition=body.partition, headers=body.headers)
    except ValueError as error:
        raise Refused(ErrorCode.INVALID_RECORD, str(error)) from None
    workbench.settle()
    return Produced(records=[Place(partition=partition, offset=offset) for partition, offset in places])


async def _read(workbench: Workbench, topic: str, query: RecordsQuery) -> RecordsRead:
    partition = None if query.partition is UNSET else query.partition
    data = _data(workbench, topic, partition)
    records: list[RecordRead] = []
    size = 0
    for each in data.slices(topic, partition, start=query.start):
        batches = each.records()
        try:
            # Compressed records can be a thousand times as large as their batch, so only one is unpacked at a time.
            while (decoded := await workbench.elsewhere(next, batches, None)) is not None:
                for record in decoded:
                    size += _size(record)
                    if len(records) == query.most or (records and size > ANSWER_BYTES):
                        return RecordsRead(records=records, more=True)
                    records.append(_record(record))
        except CorruptBatch as error:
            raise Refused(ErrorCode.CORRUPT_MESSAGE, f"Partition {each.partition} cannot be read: {error}.") from None
    return RecordsRead(records=records, more=False)


def _size(record: StoredRecord) -> int:
    """Return the bytes that a record takes, without the escapes of JSON."""
    size = _PART_BYTES + len(record.key or b"") + len(record.value or b"")
    return size + sum(_PART_BYTES + len(name) + len(value or b"") for name, value in record.headers)


def _data(workbench: Workbench, topic: str, partition: int | None) -> TopicData:
    """Return the topics of this process. Raises Problem without such a topic or partition here."""
    # Imported here because few servers without a laboratory use it.
    from kafka_shim.control.lab_workbench import lab_workbench_of

    existing = workbench.cluster.topics.named(topic)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
    if existing is None or existing.is_internal:
        raise Problem(404, unknown, "There is no such topic.")
    if partition is not None and existing.partition(partition) is None:
        raise Problem(404, unknown, f"There is no partition {partition}; the topic has {len(existing.partitions)}.")
    if any(each.leader not in workbench.cluster.nodes for each in existing.partitions):
        raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "Other processes lead partitions of the topic: use a client.")
    return lab_workbench_of(workbench)


def _record(record: StoredRecord) -> RecordRead:
    parts = [record.key, record.value, *(value for _, value in record.headers)]
    try:
        in_base64 = _size(record) > ANSWER_BYTES
        key, value, *headers = [None if part is None or in_base64 else part.decode() for part in parts]
    except UnicodeDecodeError:
        in_base64 = True
    if in_base64:
        key, value, *headers = [None if part is None else base64.b64encode(part).decode() for part in parts]
    return RecordRead(
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        key=key,
        value=value,
        headers=[(name, header) for (name, _), header in zip(record.headers, headers, strict=True)],
        base64=in_base64,
    )


_PATH: Final = "/v1/topics/{topic}/records"

OPERATIONS: Final = (
    Operation(
        method="GET",
        path=_PATH,
        summary="Records of a topic, or of one partition, as a consumer reads them.",
        do=_read,
        query=RecordsQuery,
        answers=(RecordsRead,),
        problems=(404, 409),
        tag="topics",
    ),
    Operation(
        method="POST",
        path=_PATH,
        summary="Produce records to a topic.",
        do=_produce,
        body=ProduceRecords,
        answers=(Produced,),
        problems=(404, 409),
        example={"values": ["one", "two"], "key": "customer-7"},
        tag="topics",
    ),
)
