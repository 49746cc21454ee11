"""Requests with few elements and heavy answers: their parts have fewer elements, and the answer is that at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kafka_shim.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.describe_producers import DescribeProducersRequest, TopicRequest
from kafka_shim.apis.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, RequestGroup, RequestTopic
from kafka_shim.apis.describe_transactions import DescribeTransactionsRequest
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from kafka_shim.apis.list_transactions import ListTransactionsRequest
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.share_group_describe import ShareGroupDescribeRequest
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker import produce
from kafka_shim.conformance.record_batch import record_batch
from kafka_shim.groups.outbox import Outbox
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.persistence.records import TransactionKey
from kafka_shim.server import division, handlers, listings, topic_parts
from tests.server.turns import Turns
from tests.server.wire import Wire, cluster, request

PARTITIONS = 6


def served() -> Wire:
    """A client of a server with offsets, groups, a transaction and producers in a topic of a few partitions."""
    wire = Wire(cluster(topics={"t": PARTITIONS, "u": 1}))
    offsets = [OffsetCommitRequestPartition(index, 5, committed_metadata="") for index in range(PARTITIONS)]
    commit = OffsetCommitRequest("g", -1, "", topics=[OffsetCommitRequestTopic("t", partitions=offsets)])
    wire.receive(request(commit, 8))
    wire.receive(request(ConsumerGroupHeartbeatRequest("c", "m", 0, None, None, 60_000, ["t"], topic_partitions=[]), 1))
    wire.receive(request(ShareGroupHeartbeatRequest("s", "m", 0, subscribed_topic_names=[*"tuvwx"]), 1))
    wire.answers()
    for name in ("other", "last", "id"):
        wire.receive(request(InitProducerIdRequest(name, 60_000), 4))
        producer = wire.answer(InitProducerIdResponse, 4)[1]
    of_topic = [AddPartitionsToTxnTopic("t", list(range(PARTITIONS)))]
    added = AddPartitionsToTxnTransaction("id", producer.producer_id, producer.producer_epoch, False, of_topic)
    wire.receive(request(AddPartitionsToTxnRequest([added]), 5))
    for number in range(PARTITIONS):
        batch = record_batch([b"v"], 1_700_000_000_000, (1000 + number, 0, 0))
        wire.receive(
            request(
                ProduceRequest(None, 1, 1000, [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]),
                9,
            )
        )
    wire.answers()
    return wire


def offsets_of(*groups: tuple[str, int]) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(name, None, epoch, None) for name, epoch in groups])


def partitions_of(*topics: str) -> OffsetFetchRequestGroup:
    asked = [OffsetFetchRequestTopics(name, partition_indexes=list(range(PARTITIONS))) for name in topics]
    return OffsetFetchRequestGroup("g", None, -1, asked)


REQUESTS: list[tuple[Message, int, int]] = [
    (offsets_of(("g", -1), ("none", -1), ("g", 1), ("g", 2)), 9, 3),
    (offsets_of(("g", -1), ("none", -1), ("g", -1), ("g", -1)), 9, 2),
    (OffsetFetchRequest(groups=[partitions_of("t"), partitions_of("t", "u")]), 9, 2),
    (
        MetadataRequest(
            [MetadataRequestTopic(name=name) for name in ("u", "none", "t", "u", "missing")],
            allow_auto_topic_creation=False,
        ),
        9,
        2,
    ),
    (MetadataRequest(None), 9, 2),
    (ListGroupsRequest(), 5, 2),
    (ListGroupsRequest(["empty", "STABLE"], ["Consumer", "share"]), 5, 2),
    (ConsumerGroupDescribeRequest(["c", "none", "g"]), 1, 2),
    (ShareGroupDescribeRequest(["s", "none"]), 1, 2),
    (DescribeGroupsRequest(["c", "g"]), 5, 2),
    (DescribeShareGroupOffsetsRequest([RequestGroup("s", None), RequestGroup("none", None)]), 0, 2),
    (
        DescribeShareGroupOffsetsRequest(
            [RequestGroup("s", [RequestTopic("t", list(range(6)))]), RequestGroup("none", None)]
        ),
        0,
        2,
    ),
    (DescribeProducersRequest([TopicRequest("t", [0]), TopicRequest("u", [0])]), 0, 2),
    (DescribeTransactionsRequest(["id", "none"]), 0, 2),
    (ListTransactionsRequest(["Ongoing", "None"]), 1, 2),
]


def answer(message: Message, version: int, wire: Wire) -> tuple[int, bytes]:
    """The number of parts of a request, and its answer."""
    parts = wire.calls(request(message, version))
    sent, wire.sent = wire.sent, b""
    return len(parts), sent


@pytest.mark.parametrize(("message", "version", "parts"), REQUESTS, ids=lambda each: type(each).__name__)
def test_few_elements_with_heavy_answers_are_divided(
    message: Message, version: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = served()
    count, at_once = answer(message, version, wire)
    assert count == 1, "light answers are made at once"
    monkeypatch.setattr(division, "HEAVY", PARTITIONS - 1)
    monkeypatch.setattr(listings, "LISTED", 2)
    assert answer(message, version, wire) == (parts, at_once)


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in ("new", "newer", "newest")]), 4),
        (MetadataRequest([MetadataRequestTopic(name=name) for name in ("new", "newer", "newest")]), 1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_each_new_topic_is_a_part_beside_many_groups(
    message: Message, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, at_once = answer(message, version, served())
    assert count == 1
    monkeypatch.setattr(topic_parts, "MANY_GROUPS", 3)
    assert answer(message, version, served()) == (3, at_once)


def test_a_group_that_goes_while_others_are_listed_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = served()
    monkeypatch.setattr(listings, "LISTED", 1)
    turns, groups = Turns(wire), wire.cluster.nodes[1].groups
    *first, last = groups.group_ids()
    wire.receive(request(ListGroupsRequest(), 5))
    assert wire.sent == b""
    del groups.groups[last]
    turns.all()
    listed = wire.answer(ListGroupsResponse, 5)[1]
    assert listed.error_code == 0
    assert [group.group_id for group in listed.groups] == first


def test_a_load_while_groups_are_listed_is_the_error_of_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = served()
    monkeypatch.setattr(listings, "LISTED", 1)
    turns, groups = Turns(wire), wire.cluster.nodes[1].groups
    wire.receive(request(ListGroupsRequest(), 5))
    groups._loading.add(7)
    turns.all()
    assert wire.answer(ListGroupsResponse, 5)[1].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_part_with_too_long_an_answer_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wire = served()
    monkeypatch.setattr(division, "HEAVY", PARTITIONS - 1)
    monkeypatch.setattr(handlers, "_MANY_PARTITIONS", 1)
    monkeypatch.setattr(handlers, "MAX_ANSWER_BYTES", -1)
    wire.receive(request(offsets_of(("g", -1), ("g", 1)), 9))
    assert wire.is_closed
    assert not wire.sent
    assert "the answer to OffsetFetch, version 9, is longer than" in caplog.text


def test_one_call_weighs_all_elements_of_a_light_request() -> None:
    calls: list[list[str]] = []

    def weight(call: object, elements: Sequence[str]) -> int:
        calls.append(list(elements))
        return division.HEAVY

    divided = division.by("groups", "groups", weight=weight)
    assert divided.parts(DescribeGroupsRequest([*"abcdefgh"]), None) is None
    assert calls == [[*"abcdefgh"]]


PRODUCED = 40


class Producer:
    """A producer with an open transaction, at a broker with a topic of many partitions."""

    def __init__(self) -> None:
        self.cluster = cluster(topics={"t": PRODUCED, "u": 1})
        self.wire = Wire(self.cluster)
        self.wire.receive(request(InitProducerIdRequest("id", 60_000), 4))
        given = self.wire.answer(InitProducerIdResponse, 4)[1]
        self.id = (given.producer_id, given.producer_epoch)

    def request(self, name: str = "id", acks: int = -1, version: int = 12) -> bytes:
        """A Produce with a transactional batch for each partition of a topic, and for one that is missing."""
        batch = write_batch(
            [Record(0, 1_700_000_000_000, None, b"value")],
            producer_id=self.id[0], producer_epoch=self.id[1], base_sequence=0, transactional=True,
        )  # fmt: skip
        topics = [
            TopicProduceData(topic, partition_data=[PartitionProduceData(index, batch) for index in range(count)])
            for topic, count in (("t", PRODUCED), ("u", 1), ("missing", 1))
        ]
        return request(ProduceRequest(name, acks, 1000, topics), version)

    def errors(self, version: int = 12) -> list[int]:
        """The errors in the answer, partition by partition of each topic."""
        responses = self.wire.answer(ProduceResponse, version)[1].responses
        assert [topic.name for topic in responses] == ["t", "u", "missing"]
        assert [each.index for each in responses[0].partition_responses] == list(range(PRODUCED))
        return [each.error_code for topic in responses for each in topic.partition_responses]

    def ends(self) -> list[int]:
        return [each.log.end_offset for topic in self.cluster.topics.all() for each in topic.partitions]


def batches_of(part: ProduceRequest) -> int:
    return sum(len(topic.partition_data) for topic in part.topic_data)


@pytest.mark.parametrize("acks", [-1, 0])
def test_batches_of_a_transaction_are_read_one_by_one_and_their_partitions_added_at_once(
    monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    producer = Producer()
    records: list[tuple[Any, Any]] = []
    write = Outbox.write

    def noted(outbox: Outbox, shard: Any, key: Any, value: Any) -> None:
        records.append((key, value))
        write(outbox, shard, key, value)

    monkeypatch.setattr(Outbox, "write", noted)
    parts = producer.wire.calls(producer.request(acks=acks))
    assert [batches_of(part) for part in parts] == [PRODUCED + 2, *[1] * (PRODUCED + 2)]
    ((key, value),) = records
    assert key == TransactionKey("id")
    assert [(each.topic, each.partition_ids) for each in value.transaction_partitions] == [
        ("t", list(range(PRODUCED))),
        ("u", [0]),
    ]
    assert producer.ends() == [1] * (PRODUCED + 1)
    if acks:
        assert producer.errors() == [0] * (PRODUCED + 1) + [3]
    else:
        assert not producer.wire.sent


def test_partitions_are_added_in_few_records_however_many_batches_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_parts, "HEAVY", PRODUCED // 2)
    producer = Producer()
    sizes = [batches_of(part) for part in producer.wire.calls(producer.request())]
    assert sizes == [PRODUCED // 2, PRODUCED // 2, 2, *[1] * (PRODUCED + 2)]
    assert producer.errors() == [0] * (PRODUCED + 1) + [3]


@pytest.mark.parametrize(("name", "version", "error"), [("other", 12, 49), ("other", 11, 49), ("id", 11, 120)])
def test_batches_outside_a_transaction_are_refused_before_their_records_are_read(
    monkeypatch: pytest.MonkeyPatch, name: str, version: int, error: int
) -> None:
    producer = Producer()
    read: list[bytes] = []
    monkeypatch.setattr(produce, "check_records", lambda data, *others: read.append(data))
    parts = producer.wire.calls(producer.request(name, version=version))
    assert [batches_of(part) for part in parts][-PRODUCED:] == [1] * PRODUCED
    assert producer.errors(version) == [error] * (PRODUCED + 1) + [3]
    assert producer.ends() == [0] * (PRODUCED + 1)
    assert not read
