"""Cases about clients above their quota: the time in the answer, and the silence after it (KIP-219)."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.cases.quotas import FETCH, MUTATIONS, PRODUCE, REQUESTS, alter, entry, until_quotas
from kafka_shim.conformance.record_batch import record_batch
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.wire import Connection

throttle_case = partial(case, source="semantics 6.9", uses=("AlterClientQuotas", "DescribeClientQuotas"))

LEAST: Final = 1e-9
"""A percentage that each request exceeds."""
HEARTBEAT_VERSION: Final = 4
FETCH_VERSION: Final = 11
PRODUCE_VERSION: Final = 9


def limit(t: Trial, client: str, **quotas: float) -> None:
    """Give a client id these quotas."""
    t.is_timed = True
    alter(t, entry({"client-id": client}, **quotas))
    until_quotas(t, {frozenset({("client-id", client)}): {**quotas}}, client_id=client)


def first_throttled(t: Trial, send: Callable[[str], Any], **quotas: float) -> tuple[str, Any]:
    """Send one request for each of several new client ids with these quotas, until one is throttled; return both.

    A broker may apply a quota later than it describes it; 2.8.2 with ZooKeeper does.
    """
    tries: list[tuple[str, Any]] = []

    def throttle_time_ms() -> int:
        client = f"client-{t.group}-{len(tries)}"
        limit(t, client, **quotas)
        tries.append((client, send(client)))
        time_ms: int = tries[-1][1].throttle_time_ms
        return time_ms

    t.until(throttle_time_ms, lambda last: last > 0, "throttle_time_ms")
    return tries[-1]


def connect(t: Trial, client: str, request: Message) -> Connection:
    """Open a connection of a client id to the broker for a request."""
    api = type(request).__name__.removesuffix("Request")
    return t.connect_to(t.peer.routes.of(request, api, t.group), client_id=client)


def production(topic: str, size: int) -> ProduceRequest:
    batch = record_batch([b"x" * size], timestamp=int(time.time() * 1000))
    topics = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])]
    return ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics)


def seconds_of(wire: Connection, request: Message, version: int) -> tuple[Any, float]:
    """Send a request; return the answer and the seconds until it came."""
    began = time.monotonic()
    answer = wire.call(request, version)
    return answer, time.monotonic() - began


@throttle_case("throttle/request/1", "A client above its request percentage hears the time at once, then is not read")
def requests(t: Trial) -> None:
    beat = HeartbeatRequest(t.group, 1, "nobody")
    client = f"client-{t.group}"
    limit(t, client, **{REQUESTS: LEAST})
    slow = connect(t, client, beat)

    def is_throttled() -> tuple[int, float]:
        answer, seconds = seconds_of(slow, beat, HEARTBEAT_VERSION)
        return answer.throttle_time_ms, seconds

    # At most a window of a second, for any time of the thread.
    t.until(is_throttled, lambda last: last[0] == 1000, "the client was never throttled")
    throttle, seconds = is_throttled()
    t.equal(throttle, 1000, "throttle_time_ms")
    t.check(seconds > 0.8, f"the next request was answered after {seconds:.3f} s")
    another = connect(t, f"another-{t.group}", beat)
    answer, seconds = seconds_of(another, beat, HEARTBEAT_VERSION)
    t.equal(answer.throttle_time_ms, 0, "throttle_time_ms of another client")


@throttle_case("throttle/produce/1", "Produced bytes above the rate are kept, and the time follows from their number")
def producing(t: Trial) -> None:
    topic = t.new_topic(1)
    request = production(topic, 20_000)

    def produce(client: str) -> Any:
        return connect(t, client, request).call(request, PRODUCE_VERSION)

    client, answer = first_throttled(t, produce, **{PRODUCE: 1900})
    t.expect(answer.responses[0].partition_responses[0], error_code=0)
    # A first burst is divided by ten windows of a second. The header of the request counts, and its size does not.
    size = len(request.encode(PRODUCE_VERSION)) + 2 + 2 + 4 + 2 + len(client) + 1
    expected = (size / 10 - 1900) / 1900 * 10_000
    t.check(abs(answer.throttle_time_ms - expected) < 100, f"{answer.throttle_time_ms} ms are not {expected:.0f}")


@throttle_case("throttle/fetch/1", "A fetch above the rate brings nothing, and a later one its records")
def fetching(t: Trial) -> None:
    topic = t.new_topic(1)
    t.expect(t.call(production(topic, 20_000), PRODUCE_VERSION).responses[0].partition_responses[0], error_code=0)
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)])],
    )

    def fetch_as(client: str) -> Any:
        return connect(t, client, fetch).call(fetch, FETCH_VERSION)

    client, answer = first_throttled(t, fetch_as, **{FETCH: 1900})
    t.expect(answer, error_code=0, responses=[], session_id=0)
    t.check(400 < answer.throttle_time_ms < 1500, f"throttle_time_ms is {answer.throttle_time_ms}")
    limit(t, client, **{FETCH: 1_000_000})
    answer = fetch_as(client)
    t.equal(answer.throttle_time_ms, 0, "throttle_time_ms")
    t.check(len(answer.responses[0].partitions[0].records) > 20_000, "no records came")


@throttle_case(
    "throttle/mutation/1",
    "Changes of topics above the rate are 89 from version 6 on, and only throttled before",
    api="CreateTopics",
    versions=(2, 7),
)
def mutations(t: Trial) -> None:
    client = f"client-{t.group}"
    limit(t, client, **{MUTATIONS: 0.5})

    def create(name: str, partitions: int) -> tuple[int, int]:
        topic = CreatableTopic(f"{name}-{t.unique}", partitions, 1, [], [])
        request = CreateTopicsRequest([topic], 10_000, True)
        answer = connect(t, client, request).call(request, t.version)
        return answer.topics[0].error_code, answer.throttle_time_ms

    began = time.monotonic()
    # There are tokens for 5.5 partitions, and a request that only validates takes them too.
    t.equal(create("first", 4), (0, 0), "the first answer")
    code, throttle = create("second", 4)
    is_strict = t.version >= 6
    t.equal(code, 0, "the error of the second answer")
    t.check(throttle == 0 if is_strict else 4000 < throttle <= 5000, f"the second throttle is {throttle} ms")
    code, throttle = create("third", 4)
    t.equal(code, E.THROTTLING_QUOTA_EXCEEDED if is_strict else 0, "the error of the third answer")
    low, high = (4000, 5000) if is_strict else (12_000, 13_000)
    # The rate brings tokens while a busy target answers.
    low -= int(1000 * (time.monotonic() - began))
    t.check(low < throttle <= high, f"the third throttle is {throttle} ms")
