"""A request stays as it was received: handlers make views of the part that exists."""

from typing import Any

import pytest

from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_shim.apis.wire import Message
from kafka_shim.groups.interface import Client
from kafka_shim.lab.failing_store import BreakableStore
from kafka_shim.lab.faults import Faults, Plan
from kafka_shim.lab.interception import Interception, Match
from kafka_shim.server.requests import REQUESTS
from tests.handling import Call, handle
from tests.server.wire import Wire, cluster, request

NOW = 100.0


def committing(*partitions: tuple[str, int]) -> OffsetCommitRequest:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for name, index in partitions:
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name))
        topic.partitions.append(OffsetCommitRequestPartition(index, 5))
    return OffsetCommitRequest("g", topics=list(topics.values()))


MIXED = committing(("orders", 0), ("orders", 7), ("nowhere", 0))


def errors(answer: OffsetCommitResponse) -> dict[tuple[str, int], int]:
    return {(topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions}


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (MIXED, 7),
        (
            TxnOffsetCommitRequest(
                "t",
                "g",
                topics=[
                    TxnOffsetCommitRequestTopic(
                        "orders", partitions=[TxnOffsetCommitRequestPartition(n, 5) for n in (0, 7)]
                    ),
                    TxnOffsetCommitRequestTopic("nowhere", partitions=[TxnOffsetCommitRequestPartition(0, 5)]),
                ],
            ),
            5,
        ),
        (
            OffsetDeleteRequest(
                "g",
                [
                    OffsetDeleteRequestTopic("orders", [OffsetDeleteRequestPartition(n) for n in (0, 7)]),
                    OffsetDeleteRequestTopic("nowhere", [OffsetDeleteRequestPartition(0)]),
                ],
            ),
            0,
        ),
        (
            OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("", b"x" * 16, [0])])]
            ),
            10,
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_a_rule_called_twice_answers_the_same(request_: Any, version: int) -> None:
    to = cluster(topics={"orders": 2})
    node = next(iter(to.nodes.values()))
    before = repr(request_)

    def ask() -> str:
        call = Call(version, Client("c", "/127.0.0.1"), NOW, node.groups, node.broker)
        answer = repr(REQUESTS[request_.api_key].rule(request_, call))
        to.settle(NOW)
        return answer

    assert ask() == ask()
    assert repr(request_) == before


def test_decoding_gives_topics_their_names_once() -> None:
    to = cluster(topics={"orders": 2})
    node = next(iter(to.nodes.values()))
    topic_id = node.broker.topics.topic_id("orders")
    assert topic_id is not None
    commit = OffsetCommitRequest(
        "g",
        topics=[
            OffsetCommitRequestTopic("", topic_id, [OffsetCommitRequestPartition(0, 5)]),
            OffsetCommitRequestTopic("", b"x" * 16, [OffsetCommitRequestPartition(0, 5)]),
        ],
    )
    answer = handle(commit, Call(10, Client("c", "/127.0.0.1"), NOW, node.groups, node.broker))
    assert [topic.name for topic in commit.topics] == ["orders", ""]
    assert {topic.topic_id: topic.partitions[0].error_code for topic in answer.topics} == {topic_id: 0, b"x" * 16: 100}


async def test_an_error_answers_unknown_partitions_too() -> None:
    store = BreakableStore()
    wire = Wire(cluster(store, topics={"orders": 2}))
    store.fail()
    wire.receive(request(MIXED, 7))
    _, answer = wire.answer(OffsetCommitResponse, 7)
    assert errors(answer) == {("orders", 0): 15, ("orders", 7): 15, ("nowhere", 0): 15}


async def test_a_duplicated_request_is_answered_as_if_it_had_come_once() -> None:
    wire = Wire(cluster(topics={"orders": 2}))
    faults = Faults(Interception(wire.cluster, lambda seconds, do: None))
    faults.add(Match(api="OffsetCommit"), Plan(action="duplicate"))
    wire.receive(request(MIXED, 7))
    _, answer = wire.answer(OffsetCommitResponse, 7)
    assert errors(answer) == {("orders", 0): 0, ("orders", 7): 3, ("nowhere", 0): 3}


async def test_the_trace_shows_the_request_as_it_was_received() -> None:
    wire = Wire(cluster(topics={"orders": 2}))
    events: list[dict[str, Any]] = []
    wire.cluster.events.listen(lambda told, now: events.extend(told))
    wire.receive(request(MIXED, 7))
    (exchange,) = [each for each in events if each["event"] == "exchange"]
    partitions = {topic["name"]: topic["partitions"]["partition_index"] for topic in exchange["request"]["topics"]}
    assert partitions == {"orders": [0, 7], "nowhere": [0]}
