"""Cases about topic ids in the records of `__consumer_offsets`, as a consumer of that topic reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.offsets import commit
from kafka_shim.conformance.producer import Producer, find
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level, Skipped

id_case = partial(
    case, source="semantics 4.10", uses=("Fetch", "Metadata", "FindCoordinator"), level=Level.MAY, since="4.0"
)
OFFSETS: Final = "__consumer_offsets"
BY_NAME: Final = 12
"""The last version of Fetch that names topics."""


def partition_of(t: Trial) -> int:
    """Return the partition of `__consumer_offsets` with the records of the group. Raises Skipped without the topic."""
    find(t, t.group, 0)
    entry = MetadataRequestTopic(name=OFFSETS)
    (topic,) = t.call(MetadataRequest([entry], allow_auto_topic_creation=False)).topics
    if not topic.partitions:
        raise Skipped(f"the target has no topic {OFFSETS}")
    hashed = 0
    for unit in t.group.encode():
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return abs(signed) % len(topic.partitions)


def written(t: Trial, act: Callable[[], object], has: Callable[[bytes], bool] | None = None) -> bytes:
    """Return the records of the group's partition since `act` began, once one names the group, or `has` is true."""
    place = partition_of(t)

    def fetch(offset: int) -> tuple[int, bytes]:
        topics = [
            FetchTopic(OFFSETS, partitions=[FetchPartition(place, fetch_offset=offset, partition_max_bytes=1 << 20)])
        ]
        request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=topics)
        wire = t.connect_to(t.peer.routes.leader(OFFSETS, place), "records")

        def ask() -> PartitionData:
            data: PartitionData = t.expect(wire.call(request, BY_NAME), error_code=0).responses[0].partitions[0]
            return data

        # A broker may read the records from a file first, and has its clients try again.
        data = t.until(ask, lambda data: data.error_code != E.NOT_LEADER_OR_FOLLOWER, "the partition has no leader")
        t.expect(data, error_code=0)
        return data.high_watermark, data.records or b""

    end, _ = fetch(0)
    act()
    name = t.group.encode()
    return t.until(lambda: fetch(end)[1], has or (lambda records: name in records), "its record never came")


@id_case(
    "commit/id/1",
    "The record of a commit has the id of its topic: of version 10 alone before 4.3, since then of each version",
    api="OffsetCommit",
)
def id_of_commit(t: Trial) -> None:
    topic = t.new_topic(1)
    records = written(t, lambda: t.equal(commit(t, topic, {0: 4}), {0: 0}, "errors"))
    t.check(topic.encode() in records, "the record does not name the topic")
    expected = t.version >= 10 or t.rules.ids_in_commits
    t.equal(t.topic_id(topic) in records, expected, "whether the record has the id")


@id_case(
    "txn-commit/id/1",
    "The record of a transaction's offset has the id of its topic from 4.4 on, in each version",
    api="TxnOffsetCommit",
    uses=("Fetch", "Metadata", "FindCoordinator", "InitProducerId", "AddOffsetsToTxn", "EndTxn"),
)
def id_of_transaction(t: Trial) -> None:
    topic = t.new_topic(1)
    producer = Producer(t)

    def transact() -> None:
        t.equal(producer.commit(topic, {0: 4}), {0: 0}, "errors")
        t.expect(producer.end(committed=True), error_code=0)

    records = written(t, transact)
    t.check(topic.encode() in records, "the record does not name the topic")
    t.equal(t.topic_id(topic) in records, t.rules.ids_in_transactions, "whether the record has the id")
