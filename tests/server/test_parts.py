"""Requests in parts: the same bytes as at once, others served in between, and an end to the length of an answer."""

from __future__ import annotations

import select
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_shim.apis.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafka_shim.apis.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_shim.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_shim.apis.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.profiles import is_served
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.types import Array, Blob, Nested
from kafka_shim.conformance.record_batch import record_batch
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.server import exchange
from kafka_shim.server.requests import REQUESTS
from tests.hostile.serving import request_bytes, serving
from tests.server.turns import Turns
from tests.server.wire import Wire, cluster, request

TOPICS = {f"x{number}": 1 + number % 3 for number in range(0, 60, 2)}
DIVIDED = [key for key, row in REQUESTS.items() if row.divided is not None and key != ApiKey.PRODUCE]


def long_request(key: ApiKey, version: int, size: int) -> Message:
    """Return a request with this number of elements in its first array: some exist, some do not, some stand twice."""
    made: Any = APIS[key].request()
    field = next(each for each in type(made).fields if isinstance(each.type, Array) and version in each.versions)
    assert isinstance(field.type, Array)
    names = [f"x{number % (size - 5)}" for number in range(size)]
    if isinstance(field.type.element, Nested):
        struct = field.type.element.struct
        name = next(each.name for each in struct.fields if isinstance(each.type, Blob) and version in each.versions)
        elements: list[Any] = []
        for text in names:
            element: Any = struct()
            setattr(element, name, text)
            elements.append(element)
        if key in (ApiKey.DESCRIBE_CONFIGS, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
            for element in elements:
                element.resource_type = 2
        setattr(made, field.name, elements)
    else:
        setattr(made, field.name, names)
    return made


def answer_to(data: bytes, *, divided: bool) -> bytes:
    made = cluster(topics=TOPICS)
    made.topics.cluster_id = "cluster"
    for number, topic in enumerate(made.topics.all()):
        made.topics._by_id.pop(topic.id, None)
        topic.id = number.to_bytes(16)
        made.topics._by_id[topic.id] = topic
    new_ids = count(1000)
    made.topics.new_id = lambda: next(new_ids).to_bytes(16)
    wire = Wire(made)
    endpoint = wire.session.node.table.find(data[4:])
    assert endpoint is not None
    if not divided:
        endpoint.divided = None
    wire.receive(data)
    assert not wire.is_closed
    return wire.sent


@pytest.mark.parametrize("key", DIVIDED, ids=lambda key: key.name)
def test_answer_in_parts_is_the_answer_at_once(key: ApiKey) -> None:
    versions = [each for each in APIS[key].request.versions if is_served(DEFAULT_RELEASE, key, each)]
    for version in versions:
        try:
            data = request(long_request(key, version, 60), version)
        except StopIteration:
            continue
        assert answer_to(data, divided=True) == answer_to(data, divided=False), version


def creations(*names: str, partitions: int = 1, validate_only: bool = False) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    topics[0].configs.append(CreatableTopicConfig("retention.ms", "1000"))
    return CreateTopicsRequest(topics, validate_only=validate_only)


NEW = [f"new-{number}" for number in range(60)]


@pytest.mark.parametrize("version", [2, 7])
@pytest.mark.parametrize(
    "creation",
    [
        creations(*NEW),
        creations(*NEW, validate_only=True),
        creations(*NEW, *NEW[:20], "x0", "", "a.b", "a_b"),
        creations(*NEW, partitions=167),
    ],
    ids=["new", "validated", "twice and refused", "too many partitions"],
)
def test_topics_created_in_parts_are_those_at_once(version: int, creation: CreateTopicsRequest) -> None:
    data = request(creation, version)
    assert answer_to(data, divided=True) == answer_to(data, divided=False)


def additions(size: int) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic("x0", [0])]
    return AddPartitionsToTxnRequest(
        [AddPartitionsToTxnTransaction(f"id-{n}", 1, 0, False, topics) for n in range(size)]
    )


def growths(*counts: int, validate_only: bool = False) -> CreatePartitionsRequest:
    """A request for this number of partitions of each of the first topics."""
    topics = [CreatePartitionsTopic(name, count, None) for name, count in zip(TOPICS, counts, strict=False)]
    return CreatePartitionsRequest(topics, validate_only=validate_only)


@pytest.mark.parametrize("validate_only", [True, False])
@pytest.mark.parametrize(
    "counts",
    [(5,) * 20, (9000, 2, 900, *(5,) * 17), (9000, 2, 2000, *(100,) * 17)],
    ids=["few", "just all", "too many"],
)
def test_partitions_added_in_parts_are_those_at_once(counts: tuple[int, ...], validate_only: bool) -> None:
    data = request(growths(*counts, validate_only=validate_only), 3)
    assert answer_to(data, divided=True) == answer_to(data, divided=False)


def settings(kind: int, count: int) -> IncrementalAlterConfigsRequest:
    """A request for a value of so many topics (2) or groups (32)."""
    name, value = {2: ("retention.ms", "1000"), 32: ("consumer.session.timeout.ms", "50000")}[kind]
    return IncrementalAlterConfigsRequest(
        [AlterConfigsResource(kind, f"x{number}", [AlterableConfig(name, 0, value)]) for number in range(count)]
    )


CHANGES = [
    (creations(*NEW), 7),
    (additions(60), 5),
    (growths(*(5,) * 20), 3),
    (DeleteTopicsRequest([DeleteTopicState(name) for name in TOPICS]), 6),
    (settings(32, 60), 1),
    (settings(2, 60), 1),
]


@pytest.mark.parametrize(("message", "version"), CHANGES)
def test_changes_are_made_part_by_part(message: Message, version: int) -> None:
    wire = Wire(cluster(topics=TOPICS))
    Turns(wire)
    wire.receive(request(message, version))
    # The answer comes when it is the turn of its last part.
    assert not wire.sent


@pytest.mark.parametrize("version", [1, 9, 13])
def test_all_topics_in_parts_are_those_at_once(version: int) -> None:
    made: Any = APIS[ApiKey.METADATA].request()
    made.topics = None
    data = request(made, version)
    assert answer_to(data, divided=True) == answer_to(data, divided=False)


@pytest.mark.parametrize("limit", [0, 1, 15, 16, 17, 33, 59, 60, 61, 2000])
@pytest.mark.parametrize(
    "cursor", [None, ("x0", 0), ("x26", 1), ("x26", 9), ("x27", 0), ("x55", 0), ("y", 0), ("x0", -1)]
)
def test_page_of_topics_in_parts_is_the_page_at_once(limit: int, cursor: tuple[str, int] | None) -> None:
    made = DescribeTopicPartitionsRequest(
        [TopicRequest(f"x{number % 56}") for number in range(60)], limit, None if cursor is None else Cursor(*cursor)
    )
    data = request(made, 0)
    assert answer_to(data, divided=True) == answer_to(data, divided=False)


@pytest.mark.parametrize("version", [1, 5, 9])
def test_searches_for_timestamps_are_answered_one_by_one_as_at_once(version: int) -> None:
    made = cluster(topics={"t": 40, "u": 30, "empty": 20})
    wire = Wire(made)
    for name, size in (("t", 40), ("u", 25)):
        data = [PartitionProduceData(index, record_batch([b"v"], 1_700_000_000_000 + index)) for index in range(size)]
        wire.receive(request(ProduceRequest(acks=1, topic_data=[TopicProduceData(name, partition_data=data)]), 9))
        wire.answers()

    def asked(*partitions: int, timestamp: int = 1_700_000_000_003) -> list[ListOffsetsPartition]:
        return [ListOffsetsPartition(index, timestamp=timestamp) for index in partitions]

    topics = [
        ListOffsetsTopic("t", [*asked(*range(39)), *asked(39, timestamp=-1), *asked(50, 3)]),
        ListOffsetsTopic("none", asked(*range(20))),
        ListOffsetsTopic("u", [*asked(*range(27)), *asked(27, 28, timestamp=-2), *asked(29, timestamp=-3)]),
        ListOffsetsTopic("empty", asked(*range(20))),
        ListOffsetsTopic("empty"),
        ListOffsetsTopic("u", asked(5, 6)),
    ]
    data = request(ListOffsetsRequest(-1, topics=topics), version)
    endpoint = wire.session.node.table.find(data[4:])
    assert endpoint is not None
    answers: list[list[tuple[Any, ...]]] = []
    rules = []
    rule = endpoint.rule
    endpoint.rule = lambda part, call: (rules.append(part), rule(part, call))[1]
    for divided in (endpoint.divided, None):
        endpoint.divided = divided
        wire.receive(data)
        found = wire.answer(ListOffsetsResponse, version)[1].topics
        if divided is not None:
            assert sorted(topic.name for topic in found) == ["empty", "none", "t", "u"]
        answers.append(
            sorted(
                (topic.name, each.partition_index, each.error_code, each.timestamp, each.offset)
                for topic in found
                for each in topic.partitions
            )
        )
    assert answers[0] == answers[1]
    assert len(answers[0]) == 113
    # All partitions without a search, then each search by itself.
    assert [sum(len(topic.partitions) for topic in part.topics) for part in rules[:-1]] == [53, *[1] * 61]


@pytest.mark.parametrize(("codecs", "parts"), [(["gzip", "none", "gzip"], 3), (["none", "gzip", "none"], 1)])
def test_few_batches_are_read_one_by_one_if_some_are_compressed(codecs: list[str], parts: int) -> None:
    """A batch of 600 bytes may unpack to 16 MiB."""
    wire = Wire(cluster(topics={"t": 3}))
    record = Record(0, 1_700_000_000_000, None, b"value")
    data = [PartitionProduceData(index, write_batch([record], codec=each)) for index, each in enumerate(codecs)]
    topics = [TopicProduceData("t", partition_data=data)]
    assert len(wire.calls(request(ProduceRequest(acks=1, topic_data=topics), 9))) == parts
    (topic,) = wire.answer(ProduceResponse, 9)[1].responses
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [(index, 0) for index in range(3)]


@pytest.mark.parametrize("version", [3, 9])
def test_topic_is_there_once_in_the_answer_to_a_divided_produce(version: int) -> None:
    """Sarama keeps the last of several answers for a topic."""
    wire = Wire(cluster(topics={"t": 40, "u": 1}))
    data = [PartitionProduceData(index, record_batch([b"v"], 1_700_000_000_000)) for index in range(40)]
    topics = [TopicProduceData("t", partition_data=data), TopicProduceData("u", partition_data=data[:1])]
    wire.receive(request(ProduceRequest(acks=1, topic_data=topics), version))
    responses = wire.answer(ProduceResponse, version)[1].responses
    assert [topic.name for topic in responses] == ["t", "u"]
    assert [each.index for each in responses[0].partition_responses] == list(range(40))
    assert {each.error_code for topic in responses for each in topic.partition_responses} == {0}


def test_request_with_few_searches_is_not_divided() -> None:
    made = cluster(topics={"t": 40})
    wire = Wire(made)
    data = [PartitionProduceData(index, record_batch([b"v"], 1_700_000_000_000)) for index in range(40)]
    wire.receive(request(ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=data)]), 9))
    wire.answers()
    for timestamps in ([-1] * 40, [-2] * 40, [5] * 16 + [-1] * 24):
        asked = [ListOffsetsPartition(index, timestamp=each) for index, each in enumerate(timestamps)]
        wire.receive(request(ListOffsetsRequest(-1, topics=[ListOffsetsTopic("t", asked)]), 9))
        (topic,) = wire.answer(ListOffsetsResponse, 9)[1].topics
        assert len(topic.partitions) == 40


@pytest.mark.parametrize("acks", [0, 1])
def test_batches_of_a_long_request_are_appended_one_by_one(acks: int) -> None:
    made = cluster(topics={"t": 40, "u": 1})
    wire = Wire(made)
    data = record_batch([b"v"], 1_700_000_000_000)
    topics = [("t", 40), ("u", 1), ("missing", 1)]
    produce = ProduceRequest(
        acks=acks,
        topic_data=[
            TopicProduceData(name, partition_data=[PartitionProduceData(index, data) for index in range(count)])
            for name, count in topics
        ],
    )
    wire.receive(request(produce, 9))
    wire.receive(request(HeartbeatRequest("g", 1, "m"), 3, 2))
    assert [each.log.end_offset for topic in made.topics.all() for each in topic.partitions] == [1] * 41
    answers = wire.sent
    if acks:
        size = 4 + int.from_bytes(answers[:4])
        whole = APIS[ApiKey.PRODUCE].response.decode(answers[9:size], 9)
        codes = [
            (topic.name, each.index, each.error_code) for topic in whole.responses for each in topic.partition_responses
        ]
        assert codes == [("t", index, 0) for index in range(40)] + [("u", 0, 0), ("missing", 0, 3)]
        answers = answers[size:]
    assert answers[4:8] == (2).to_bytes(4)


def describe(size: int) -> DescribeConfigsRequest:
    """Any name of a group has an answer of 3 KB."""
    return DescribeConfigsRequest([DescribeConfigsResource(32, f"g{n}", None) for n in range(size)], True, True)


def test_others_are_served_between_the_parts(tmp_path: Path) -> None:
    with serving(tmp_path, "--topic", "t:1") as server, server.connect() as peer, server.connect() as bystander:
        peer.sock.sendall(frame(request_bytes(describe(1000), 4)))
        answers = 0
        while not select.select([peer.sock], [], [], 0)[0]:
            assert bystander.ask(HeartbeatRequest("g", 1, "m"), 3).error_code == 25
            answers += 1
        assert answers > 20
        answer = peer.read_frame()
        assert answer is not None
        whole = APIS[ApiKey.DESCRIBE_CONFIGS].response.decode(answer[5:], 4)
        assert len(whole.results) == 1000


@pytest.mark.parametrize("divided", [True, False])
def test_answer_beyond_the_bound_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, divided: bool
) -> None:
    monkeypatch.setattr(exchange, "MAX_ANSWER_BYTES", 100_000)
    wire = Wire(cluster(topics={"t": 1}))
    endpoint = wire.session.node.table.find(request(describe(1), 4)[4:])
    assert endpoint is not None
    if not divided:
        endpoint.divided = None
    wire.receive(request(describe(1000), 4))
    assert wire.is_closed
    assert not wire.sent
    assert "the answer to DescribeConfigs, version 4, is longer than 100000 bytes" in caplog.text


def test_metadata_of_all_topics_for_many_connections_takes_turns_with_others(tmp_path: Path) -> None:
    """It is the request that every client sends first; sixty of them stopped all others for half a minute."""
    question = request_bytes(MetadataRequest(topics=None), 9)
    with serving(tmp_path) as server, server.connect() as bystander:
        for first in range(0, 2000, 500):
            creation = creations(*(f"topic-{number}" for number in range(first, first + 500)))
            created: Any = bystander.ask(creation, 7)
            assert {topic.error_code for topic in created.topics} == {0}
        peers = [server.connect() for _ in range(60)]
        for peer in peers:
            peer.sock.sendall(frame(question) * 3)
        answers = 0
        waiting = {peer.sock: peer for peer in peers}
        read = dict.fromkeys(waiting, 0)
        while waiting:
            assert bystander.ask(HeartbeatRequest("g", 1, "m"), 3).error_code == 25
            answers += 1
            for sock in select.select(list(waiting), [], [], 0)[0]:
                assert waiting[sock].read_frame() is not None
                read[sock] += 1
                if read[sock] == 3:
                    del waiting[sock]
                    sock.close()
        assert answers > 60


def test_connection_that_ends_amid_the_parts_ends_its_exchange() -> None:
    wire = Wire(cluster(topics={"t": 1}))
    waiting = Turns(wire)
    wire.receive(request(describe(10), 4))
    exchange = waiting._exchanges[0]
    assert exchange.go_on(100.0)
    wire.close()
    assert not exchange.go_on(100.0)
    assert not wire.sent
