"""Fetch without sessions: records, errors, waits, and events that end a wait."""

import gc
import weakref
from math import inf

import pytest

from kafka_shim.apis.fetch import FetchResponse
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.fetch_state import FetchState
from kafka_shim.groups.interface import TransactionSupportedOperation
from tests.broker.context import Cluster, batch, fetch_request, partitions_of, records_of


def cluster_with(*topics: str, **settings: str) -> Cluster:
    cluster = Cluster(**settings)
    for topic in topics:
        cluster.topics.declare(topic, 2)
    return cluster


class TestAnsweredAtOnce:
    def test_records_from_the_offset_on(self) -> None:
        cluster = cluster_with("t")
        for value in (b"a", b"b", b"c"):
            cluster.send("t", 0, batch(value))
        data = partitions_of(cluster.fetch(fetch_request(("t", 0, 1))))["t", 0]
        assert [record.value for record in records_of(data.records)] == [b"b", b"c"]
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)
        assert data.aborted_transactions is None

    def test_read_committed_lists_aborted_transactions(self) -> None:
        cluster = cluster_with("t")
        cluster.send("t", 0, batch(b"a"))
        response = cluster.fetch(fetch_request(("t", 0, 0), isolation_level=1))
        assert partitions_of(response)["t", 0].aborted_transactions == []

    @pytest.mark.parametrize("fields", [{"max_wait_ms": 0}, {"min_bytes": 0}])
    def test_nothing_when_the_client_will_not_wait(self, fields: dict[str, int]) -> None:
        response = cluster_with("t").fetch(fetch_request(("t", 0, 0), **fields))
        assert partitions_of(response)["t", 0].records == b""

    @pytest.mark.parametrize("offset", [-1, 1, 100])
    def test_offset_out_of_range(self, offset: int) -> None:
        data = partitions_of(cluster_with("t").fetch(fetch_request(("t", 0, offset))))["t", 0]
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset, data.records) == (-1, -1, -1, b"")

    def test_a_dropped_offset_is_out_of_range(self) -> None:
        cluster = cluster_with("t", log_bytes=1000)
        for _ in range(30):
            cluster.send("t", 0, batch(b"x" * 100))
        data = partitions_of(cluster.fetch(fetch_request(("t", 0, 0))))["t", 0]
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_leader_epoch_of_the_future(self) -> None:
        response = cluster_with("t").fetch(fetch_request(("t", 0, 0), current_leader_epoch=1))
        assert partitions_of(response)["t", 0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    def test_last_fetched_epoch_of_the_future(self) -> None:
        request = fetch_request(("t", 0, 0))
        request.topics[0].partitions[0].last_fetched_epoch = 1
        data = partitions_of(cluster_with("t").fetch(request))["t", 0]
        assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    def test_unknown_topic_alone(self) -> None:
        response = cluster_with().fetch(fetch_request(("nope", 0, 0)))
        assert partitions_of(response)["nope", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_partition_that_does_not_exist(self) -> None:
        response = cluster_with("t").fetch(fetch_request(("t", 9, 0)))
        assert partitions_of(response)["t", 9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_unknown_topic_id(self) -> None:
        response = cluster_with().fetch(fetch_request(("", 0, 0), topic_id=b"?" * 16), by_topic_id=True)
        assert response.responses[0].topic_id == b"?" * 16
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    def test_by_topic_id(self) -> None:
        cluster = cluster_with("t")
        cluster.send("t", 0, batch(b"a"))
        topic_id = cluster.broker.topics.topic_id("t")
        response = cluster.fetch(fetch_request(("", 0, 0), topic_id=topic_id), by_topic_id=True)
        assert records_of(response.responses[0].partitions[0].records)[0].value == b"a"

    def test_no_partitions_at_all(self) -> None:
        assert cluster_with().fetch(fetch_request()) == FetchResponse()


class TestLimits:
    SIZE = len(batch(b"x" * 100))

    def cluster(self) -> Cluster:
        cluster = cluster_with("t")
        for index in (0, 1):
            for _ in range(4):
                cluster.send("t", index, batch(b"x" * 100))
        return cluster

    def sizes(self, **fields: int) -> list[int]:
        response = self.cluster().fetch(fetch_request(("t", 0, 0), ("t", 1, 0), **fields))
        return [len(each.records or b"") // self.SIZE for each in partitions_of(response).values()]

    def test_max_bytes_limits_the_answer(self) -> None:
        assert self.sizes(max_bytes=self.SIZE * 5) == [4, 1]
        assert self.sizes(max_bytes=self.SIZE * 3) == [3, 0]

    def test_partition_max_bytes_limits_a_partition(self) -> None:
        assert self.sizes(partition_max_bytes=self.SIZE * 2) == [2, 2]

    def test_first_batch_of_the_answer_comes_whole(self) -> None:
        assert self.sizes(max_bytes=1) == [1, 0]
        assert self.sizes(partition_max_bytes=1) == [1, 0]

    def test_the_broker_limits_the_answer(self) -> None:
        cluster = cluster_with("t", fetch_max_bytes="1024")
        for _ in range(10):
            cluster.send("t", 0, batch(b"x" * 200))
        data = partitions_of(cluster.fetch(fetch_request(("t", 0, 0))))["t", 0].records
        assert data is not None
        assert 0 < len(data) <= 1024


class TestWaiting:
    def test_answered_empty_when_the_time_is_over_and_not_before(self) -> None:
        cluster = cluster_with("t")
        exchange = cluster.fetch(fetch_request(("t", 0, 0), ("t", 1, 0), max_wait_ms=500))
        assert cluster.broker.next_deadline() == 0.5
        cluster.advance(0.499)
        assert cluster.replies() == []
        cluster.advance(0.001)
        ((answered, response),) = cluster.replies()
        assert answered == exchange
        assert {key: data.records for key, data in partitions_of(response).items()} == {("t", 0): b"", ("t", 1): b""}
        assert cluster.broker.next_deadline() == inf

    def test_woken_by_produce(self) -> None:
        cluster = cluster_with("t")
        exchange = cluster.fetch(fetch_request(("t", 0, 0), ("t", 1, 0)))
        cluster.send("t", 1, batch(b"a"))
        ((answered, response),) = cluster.replies()
        assert answered == exchange
        assert records_of(partitions_of(response)["t", 1].records)[0].value == b"a"
        cluster.advance(10)
        assert cluster.replies() == []

    def test_one_request_to_several_partitions_wakes_once_with_all(self) -> None:
        cluster = cluster_with("t")
        cluster.fetch(fetch_request(("t", 0, 0), ("t", 1, 0)))
        both = [PartitionProduceData(index, batch(b"a")) for index in (0, 1)]
        request = ProduceRequest(acks=1, topic_data=[TopicProduceData("t", partition_data=both)])
        cluster.broker.produce(
            request,
            None,
            0.0,
            by_topic_id=False,
            zstd_allowed=True,
            with_leaders=True,
            supported_operation=TransactionSupportedOperation.ADD_PARTITION,
        )
        ((_, response),) = cluster.replies()
        assert all(data.records for data in partitions_of(response).values())

    def test_not_woken_by_another_partition(self) -> None:
        cluster = cluster_with("t")
        cluster.fetch(fetch_request(("t", 0, 0)))
        cluster.send("t", 1, batch(b"a"))
        assert cluster.replies() == []

    def test_min_bytes_are_waited_for(self) -> None:
        cluster = cluster_with("t")
        data = batch(b"a")
        cluster.fetch(fetch_request(("t", 0, 0), ("t", 1, 0), min_bytes=len(data) * 3))
        for index in (0, 1):
            cluster.send("t", index, data)
            assert cluster.replies() == []
        cluster.send("t", 0, data)
        ((_, response),) = cluster.replies()
        assert [len(each.records or b"") for each in partitions_of(response).values()] == [len(data) * 2, len(data)]

    def test_less_than_min_bytes_comes_when_the_time_is_over(self) -> None:
        cluster = cluster_with("t")
        cluster.send("t", 0, batch(b"a"))
        cluster.fetch(fetch_request(("t", 0, 0), min_bytes=10_000))
        cluster.send("t", 0, batch(b"b"))
        cluster.advance(0.5)
        ((_, response),) = cluster.replies()
        assert [record.value for record in records_of(partitions_of(response)["t", 0].records)] == [b"a", b"b"]

    def test_unknown_partition_waits_with_the_others(self) -> None:
        cluster = cluster_with("t")
        cluster.fetch(fetch_request(("t", 0, 0), ("nope", 0, 0)))
        assert cluster.replies() == []
        cluster.advance(0.5)
        ((_, response),) = cluster.replies()
        assert partitions_of(response)["nope", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_deletion_of_the_topic_wakes(self) -> None:
        cluster = cluster_with("t", "u")
        cluster.fetch(fetch_request(("t", 0, 0)))
        cluster.topics.delete(cluster.topics.named("t"))
        cluster.topics.settle(0.0)
        ((_, response),) = cluster.replies()
        assert partitions_of(response)["t", 0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_forgotten_fetch_is_not_answered(self) -> None:
        cluster = cluster_with("t")
        exchange = cluster.fetch(fetch_request(("t", 0, 0)))
        cluster.broker.forget(exchange)
        assert cluster.broker.next_deadline() == inf
        cluster.send("t", 0, batch(b"a"))
        cluster.advance(1)
        assert cluster.replies() == []

    def test_forgetting_an_unparked_fetch_does_nothing(self) -> None:
        cluster = cluster_with("t")
        exchange = cluster.fetch(fetch_request(("t", 0, 0)))
        cluster.broker.forget("somebody else")
        cluster.advance(0.5)
        assert [each for each, _ in cluster.replies()] == [exchange]

    def test_earliest_deadline_first(self) -> None:
        cluster = cluster_with("t")
        waits = {cluster.fetch(fetch_request(("t", 0, 0), max_wait_ms=wait)): wait for wait in (300, 100, 200)}
        cluster.advance(1)
        assert [waits[exchange] for exchange, _ in cluster.replies()] == [100, 200, 300]


class TestUnchangedRequest:
    """The hottest request there is: held, answered with nothing, sent again byte for byte."""

    def test_answer_is_the_same_object_every_time(self) -> None:
        cluster = cluster_with("t")
        request = fetch_request(("t", 0, 0), ("nope", 0, 0))
        responses = []
        for _ in range(3):
            cluster.fetch(request)
            cluster.advance(0.5)
            ((_, response),) = cluster.replies()
            responses.append(response)
        assert responses[0] is responses[1] is responses[2]
        assert partitions_of(responses[0])["t", 0].high_watermark == 0

    def test_two_connections_share_it(self) -> None:
        cluster = cluster_with("t")
        request = fetch_request(("t", 0, 0))
        tokens = [cluster.fetch(request), cluster.fetch(request)]
        cluster.send("t", 0, batch(b"a"))
        assert [exchange for exchange, _ in cluster.replies()] == tokens

    def test_data_is_seen_all_the_same(self) -> None:
        cluster = cluster_with("t")
        request = fetch_request(("t", 0, 0))
        cluster.fetch(request)
        cluster.advance(0.5)
        cluster.replies()
        cluster.send("t", 0, batch(b"a"))
        assert records_of(partitions_of(cluster.fetch(request))["t", 0].records)[0].value == b"a"

    def test_a_topic_that_appears_is_seen(self) -> None:
        cluster = cluster_with("t")
        request = fetch_request(("t", 0, 0), ("late", 0, 0))
        cluster.fetch(request)
        cluster.advance(0.5)
        cluster.replies()
        cluster.topics.declare("late", 1)
        cluster.send("late", 0, batch(b"a"))
        assert partitions_of(cluster.fetch(request))["late", 0].error_code == 0

    def test_logs_and_requests_are_let_go(self) -> None:
        cluster = cluster_with("t")
        log = cluster.topics.named("t").partitions[0].log
        for _ in range(50):
            exchange = cluster.fetch(fetch_request(("t", 0, 0)))
            cluster.broker.forget(exchange)
        assert not log.watchers
        cluster.fetch(fetch_request(("t", 0, 0)))
        assert len(log.watchers) == 1
        cluster.send("t", 0, batch(b"a"))
        assert not log.watchers

    def test_remembered_answers_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kafka_shim.broker.fetches.REMEMBERED_SIZE", 10)
        cluster = cluster_with("t")
        log = cluster.topics.named("t").partitions[0].log
        for _ in range(100):
            cluster.fetch(fetch_request(("t", 0, 0)))
            cluster.advance(0.5)
        assert len(log.watchers) == 10
        assert len(cluster.replies()) == 100

    def test_fetch_that_is_too_large_to_remember_is_woken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kafka_shim.broker.fetches.REMEMBERED_SIZE", 1)
        cluster = cluster_with("t")
        log = cluster.topics.named("t").partitions[0].log
        exchange = cluster.fetch(fetch_request(("t", 0, 0), ("t", 1, 0)))
        cluster.send("t", 0, batch(b"a"))
        ((answered, response),) = cluster.replies()
        assert answered == exchange
        assert partitions_of(response)["t", 0].records
        assert not log.watchers

    def test_deadlines_of_the_answered_do_not_pile_up(self) -> None:
        cluster = cluster_with("t")
        for number in range(5000):
            cluster.fetch(fetch_request(("t", 0, number), max_wait_ms=2**31 - 1))
            cluster.send("t", 0, batch(b"a"))
        assert len(cluster.replies()) == 5000
        assert len(cluster.broker.fetches.deadlines) < 1100


class Call:
    """An exchange with its request."""


def states() -> int:
    return sum(type(each) is FetchState for each in gc.get_objects())


@pytest.mark.parametrize("is_answered", [True, False])
def test_deadline_keeps_nothing_of_a_fetch_that_waits_no_longer(is_answered: bool) -> None:
    cluster = cluster_with("t", "first")
    cluster.fetch(fetch_request(("first", 0, 0)))
    before = states()
    exchange = Call()
    cluster.fetch(fetch_request(("t", 0, 0), max_wait_ms=2**31 - 1), exchange=exchange)
    assert states() == before + 1
    if is_answered:
        cluster.send("t", 0, batch(b"a"))
        assert len(cluster.replies()) == 1
    else:
        cluster.broker.forget(exchange)
    is_there = weakref.ref(exchange)
    del exchange
    assert is_there() is None
    assert states() == before


class TestManyBrokers:
    def test_another_leader_is_named(self) -> None:
        cluster = Cluster(nodes=3)
        topic = cluster.topics.declare("t", 3)
        leader = topic.partitions[1].leader
        assert leader != 1
        response = cluster.fetch(fetch_request(("t", 1, 0)))
        data = partitions_of(response)["t", 1]
        assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (leader, 0)
        assert [(node.node_id, node.port) for node in response.node_endpoints] == [(leader, 9090 + leader)]

    def test_leader_answers(self) -> None:
        cluster = Cluster(nodes=3)
        leader = cluster.topics.declare("t", 3).partitions[1].leader
        cluster.send("t", 1, batch(b"a"), node=leader)
        assert partitions_of(cluster.fetch(fetch_request(("t", 1, 0)), node=leader))["t", 1].records

    def test_losing_the_lead_wakes(self) -> None:
        cluster = Cluster(nodes=2)
        topic = cluster.topics.declare("t", 1)
        cluster.topics.lead(topic, 0, 1)
        cluster.fetch(fetch_request(("t", 0, 0)))
        cluster.topics.lead(topic, 0, 2)
        cluster.topics.settle(0.0)
        ((_, response),) = cluster.replies()
        assert partitions_of(response)["t", 0].current_leader.leader_id == 2

    def test_deletion_on_one_broker_wakes_another(self) -> None:
        cluster = Cluster(nodes=2)
        topic = cluster.topics.declare("t", 2)
        (index,) = [each.index for each in topic.partitions if each.leader == 2]
        cluster.fetch(fetch_request(("t", index, 0)), node=2)
        cluster.topics.delete(topic)
        cluster.topics.settle(0.0)
        assert len(cluster.replies()) == 1
