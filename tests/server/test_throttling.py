"""Clients above their quota are throttled: the answer comes at once, and then nothing is read (KIP-219)."""

from collections import OrderedDict
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest

from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kafka_shim.apis.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.wire import Message
from kafka_shim.conformance.record_batch import record_batch
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.throttling import MAX_SENSORS, MAX_THROTTLE_MS, Mutations, Rate, TokenBucket
from tests.server.wire import Wire, cluster, request

WINDOW = 11, 1.0


class TestRate:
    def test_a_first_burst_waits_as_if_ten_windows_were_full(self) -> None:
        rate = Rate(100.0)
        rate.record(20_000, 100.0, *WINDOW)
        assert rate.throttle(1000, 100.0, *WINDOW) == 10.0
        assert rate.throttle(2000, 100.0, *WINDOW) == 0.0

    def test_a_window_is_forgotten_after_all_of_them(self) -> None:
        rate = Rate(100.0)
        rate.record(20_000, 100.0, *WINDOW)
        rate.record(0, 110.9, *WINDOW)
        assert rate.throttle(1000, 110.9, *WINDOW) == pytest.approx(9.1)
        rate.record(0, 111.0, *WINDOW)
        assert rate.throttle(1000, 111.0, *WINDOW) == 0.0

    def test_the_only_window_lasts_a_millisecond_when_it_begins(self) -> None:
        rate = Rate(100.0)
        for begin in (100.0, 101.0):
            rate.record(3, begin, 1, 1.0)
            assert rate.throttle(1, begin, 1, 1.0) == pytest.approx(2.999)


class TestMutations:
    def test_the_first_change_may_take_more_than_there_is(self) -> None:
        # The numbers of a running Kafka 4.4.0, which adds the milliseconds since.
        bucket = TokenBucket(0.0)
        strict = Mutations(bucket, 0.5, 0.0, WINDOW, is_strict=True)
        assert [strict.take(4), strict.take(4), strict.take(4)] == [True, True, False]
        assert strict.throttle == 5.0
        again = Mutations(bucket, 0.5, 5.0, WINDOW, is_strict=True)
        assert again.take(4)
        assert again.throttle == 0.0
        older = Mutations(bucket, 0.5, 13.0, WINDOW, is_strict=False)
        assert older.take(3)
        assert older.throttle == 6.0


SLOW = {"request_percentage": 1e-9}
"""A quota that is exceeded by each request: its client waits for a second."""
HEARTBEAT = HeartbeatRequest("group", 1, "member")


class Talk:
    """The conversation of a client id with the broker, at times that the test chooses."""

    def __init__(self, to: Cluster, client_id: str) -> None:
        self.wire = Wire(to)
        self._client_id = client_id

    def send(self, message: Message, version: int, now: float) -> None:
        self.wire.receive(request(message, version, client_id=self._client_id), now)

    def ask(self, message: Message, version: int, kind: type[Any], now: float = 100.0) -> Any:
        self.send(message, version, now)
        return self.wire.answer(kind, version)[1]

    def throttle(self, now: float = 100.0) -> int:
        """Return the time in the answer to a heartbeat."""
        return int(self.ask(HEARTBEAT, 4, HeartbeatResponse, now).throttle_time_ms)


@pytest.fixture
def broker() -> Cluster:
    return cluster(topics={"orders": 1})


def limit(broker: Cluster, quotas: dict[str, float], **names: str | None) -> None:
    """Set the quotas of an entity; `_` stands for `-` in a type."""
    entity = tuple(sorted((kind.replace("_", "-"), name) for kind, name in names.items()))
    settings = broker.topics.settings
    settings.set_quotas({**settings.quotas, entity: quotas})


def produce(writer: Talk, size: int) -> ProduceResponse:
    partition = PartitionProduceData(0, record_batch([b"x" * size], timestamp=0))
    asked = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData("orders", partition_data=[partition])])
    answer: ProduceResponse = writer.ask(asked, 9, ProduceResponse)
    return answer


def test_a_throttled_connection_is_not_read_until_its_time_is_over(broker: Cluster) -> None:
    limit(broker, SLOW, client_id="slow")
    slow, other = Talk(broker, "slow"), Talk(broker, "other")
    assert slow.throttle() == 1000
    assert slow.wire.is_paused
    slow.send(HEARTBEAT, 4, 100.1)
    slow.send(HEARTBEAT, 4, 100.2)
    assert [other.throttle(100.5) for _ in range(3)] == [0, 0, 0]
    assert broker.ticks.next_deadline() == 101.0
    broker.ticks.fire(100.9)
    assert slow.wire.answers() == []
    broker.ticks.fire(101.0)
    assert slow.wire.answer(HeartbeatResponse, 4)[1].throttle_time_ms == 1000
    broker.ticks.fire(102.0)
    assert slow.wire.answer(HeartbeatResponse, 4)[1].throttle_time_ms == 1000
    broker.ticks.fire(103.0)
    assert not slow.wire.is_paused
    assert slow.throttle(103.1) == 1000


def test_a_client_that_reads_slowly_is_muted_too(broker: Cluster) -> None:
    limit(broker, SLOW, client_id="slow")
    slow = Talk(broker, "slow")
    slow.wire.takes_all = False
    assert slow.throttle() == 1000
    slow.wire.drained(100.5)
    slow.send(HEARTBEAT, 4, 100.6)
    assert slow.wire.answers() == []
    broker.ticks.fire(101.0)
    assert len(slow.wire.answers()) == 1


def test_a_remembered_heartbeat_meets_a_new_quota(broker: Cluster) -> None:
    slow = Talk(broker, "slow")
    assert [slow.throttle() for _ in range(3)] == [0, 0, 0]
    assert slow.wire.session.remembered
    limit(broker, SLOW, client_id="slow")
    assert slow.throttle() == 1000
    assert not slow.wire.session.remembered
    broker.topics.settings.set_quotas({})
    broker.ticks.fire(101.0)
    assert [slow.throttle(101.0) for _ in range(2)] == [0, 0]
    assert slow.wire.session.remembered


def test_the_nearest_quota_counts_and_a_default_is_of_each_client(broker: Cluster) -> None:
    high = {"request_percentage": 1e9}
    limit(broker, SLOW, client_id=None)
    limit(broker, high, client_id="free")
    assert [Talk(broker, name).throttle() for name in ("free", "any")] == [0, 1000]
    limit(broker, SLOW, user="ANONYMOUS")
    assert Talk(broker, "free").throttle() == 1000
    limit(broker, high, user="ANONYMOUS", client_id="free")
    assert Talk(broker, "free").throttle() == 0
    limit(broker, {"producer_byte_rate": 1}, user="ANONYMOUS", client_id="free")
    assert Talk(broker, "free").throttle() == 1000


def test_produced_bytes_count_by_the_size_of_the_request(broker: Cluster) -> None:
    limit(broker, {"producer_byte_rate": 1000}, client_id="writer")
    writer = Talk(broker, "writer")
    answer = produce(writer, 20_000)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert 10_000 < answer.throttle_time_ms < 10_200
    assert Talk(broker, "writer").throttle() == 0
    broker.ticks.fire(100 + answer.throttle_time_ms / 1000)
    assert not writer.wire.is_paused


def test_a_producer_without_acks_is_muted_without_an_answer(broker: Cluster) -> None:
    limit(broker, {"producer_byte_rate": 1000}, client_id="writer")
    writer = Talk(broker, "writer")
    partition = PartitionProduceData(0, record_batch([b"x" * 20_000], timestamp=0))
    topics = [TopicProduceData("orders", partition_data=[partition])]
    writer.send(ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics), 9, 100.0)
    assert writer.wire.answers() == []
    assert writer.wire.is_paused


def test_a_throttled_fetch_brings_no_records_and_a_later_one_all(broker: Cluster) -> None:
    produce(Talk(broker, "writer"), 12_000)
    limit(broker, {"consumer_byte_rate": 1000}, client_id="reader")
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic("orders", partitions=[FetchPartition(0, fetch_offset=0)])]
    )
    reader = Talk(broker, "reader")
    throttled = reader.ask(fetch, 11, FetchResponse)
    assert (throttled.responses, throttled.session_id, throttled.error_code) == ([], 0, 0)
    assert 2000 < throttled.throttle_time_ms < 2300
    limit(broker, {"consumer_byte_rate": 100_000}, client_id="reader")
    answer = Talk(broker, "reader").ask(fetch, 11, FetchResponse)
    assert answer.throttle_time_ms == 0
    assert len(answer.responses[0].partitions[0].records) > 12_000


@pytest.mark.parametrize(("version", "codes", "throttles"), [(6, [0, 89], [0, 1000]), (5, [0, 0], [1000, 3000])])
def test_changes_of_topics_are_refused_or_throttled_by_version(
    broker: Cluster, version: int, codes: list[int], throttles: list[int]
) -> None:
    limit(broker, {"controller_mutation_rate": 1}, client_id="admin")
    answers = []
    for number in range(2):
        topics = [CreatableTopic(f"topic-{number}", 12 - 10 * number, -1, [], [])]
        answers.append(Talk(broker, "admin").ask(CreateTopicsRequest(topics, 1000), version, CreateTopicsResponse))
    assert [each.topics[0].error_code for each in answers] == codes
    assert [each.throttle_time_ms for each in answers] == throttles


def test_the_answer_to_a_request_in_parts_is_whole_and_carries_the_time(broker: Cluster) -> None:
    groups = [f"group-{number}" for number in range(3000)]
    limit(broker, SLOW, client_id="slow")
    answer = Talk(broker, "slow").ask(DescribeGroupsRequest(groups), 5, DescribeGroupsResponse)
    assert [each.group_id for each in answer.groups] == groups
    assert answer.throttle_time_ms == 1000


def test_a_connection_that_ends_while_it_is_muted_is_freed(broker: Cluster) -> None:
    limit(broker, SLOW, client_id="slow")
    slow = Talk(broker, "slow")
    assert slow.throttle() == 1000
    slow.wire.close()
    broker.ticks.fire(101.0)
    assert broker.ticks.alarms.due == inf
    assert slow.wire.session.closed


def test_the_longest_throttle_can_be_encoded_and_is_kept_for_no_ended_connection(broker: Cluster) -> None:
    limit(broker, {"producer_byte_rate": 1}, client_id="writer")
    limit(broker, {"controller_mutation_rate": 1e-9}, client_id="admin")
    for _ in range(3):
        writer = Talk(broker, "writer")
        assert produce(writer, 900_000).throttle_time_ms > 800_000_000
        writer.wire.close()
        assert len(broker.ticks.alarms) == 0
    admins = [Talk(broker, "admin") for _ in range(3)]
    for number, admin in enumerate(admins):
        topics = [CreatableTopic(f"topic-{number}", 12, -1, [], [])]
        answer = admin.ask(CreateTopicsRequest(topics, 1000), 5, CreateTopicsResponse)
        assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, MAX_THROTTLE_MS)
    admins[0].wire.close()
    assert len(broker.ticks.alarms) == 3
    admins[1].wire.close()
    assert len(broker.ticks.alarms) == 1


def test_rates_are_bounded_and_expire(broker: Cluster) -> None:
    limit(broker, SLOW, client_id=None)
    throttling = next(iter(broker.nodes.values())).throttling
    assert throttling is not None
    client = Talk(broker, "x").wire.session.client
    for number in range(MAX_SENSORS + 10):
        throttling._record("request_percentage", client._replace(client_id=str(number)), 1.0, 0.0)
    assert len(throttling._sensors) == MAX_SENSORS
    for number in range(10):
        throttling._record("request_percentage", client._replace(client_id=f"later-{number}"), 1.0, 3601.0)
    assert len(throttling._sensors) < MAX_SENSORS


class Counted(OrderedDict[int, Any]):
    """A dictionary that counts the keys that are looked at, one after the other."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        for key in super().__iter__():
            self.looks += 1
            yield key


def test_a_new_rate_costs_a_look_at_two_others(broker: Cluster) -> None:
    limit(broker, SLOW, client_id=None)
    throttling = next(iter(broker.nodes.values())).throttling
    assert throttling is not None
    throttling._sensors = sensors = Counted()
    client = Talk(broker, "x").wire.session.client
    for number in range(1000):
        throttling._record("request_percentage", client._replace(client_id=str(number)), 1.0, 0.0)
    assert len(sensors) == 1000
    assert sensors.looks <= 2000
