"""An answer leaves when its records are durable; a failing store fails the requests that wait (semantics 2.10)."""

import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from kafka_shim.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafka_shim.apis.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.end_txn import EndTxnRequest, EndTxnResponse
from kafka_shim.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import Node as Address
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.store import Entry, StoreError, records_of
from kafka_shim.server.cluster import Cluster, ClusterConfig
from kafka_shim.server.compose import make_cluster
from tests.server.wire import Wire, read, request
from tests.waiting import until_in_trio as until


class SlowStore(MemoryStore):
    """A store that writes in a worker thread, one batch for every `let_one_go`, and fails on demand."""

    durable_at_once = False

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Entry]] = []
        self.failure: StoreError | None = None
        self.load_failures: list[StoreError] = []
        self._go = threading.Semaphore(0)

    def let_go(self, batches: int = 1) -> None:
        self._go.release(batches)

    async def take_format(self, cluster: Cluster, nursery: trio.Nursery) -> None:
        """Start a cluster that keeps its topics, and take its first batch: the format of a new store."""
        self.let_go()
        await nursery.start(cluster.run)
        await cluster.loaded.wait()
        await cluster.durability.flushed()
        self.batches.clear()

    def write(self, batch: Sequence[Entry]) -> None:
        self.batches.append(list(batch))
        self._go.acquire()
        if self.failure is not None:
            raise self.failure
        super().write(batch)

    def load(self, partition: int) -> Iterator[tuple[Any, Any]]:
        if self.load_failures:
            raise self.load_failures.pop()
        return super().load(partition)


@asynccontextmanager
async def running(store: SlowStore, *, lasting: bool = False, **settings: str) -> AsyncIterator[Cluster]:
    """Run a cluster on this store. At the end, blocked writes of the store are released."""
    # A busy machine needs more than the default of 5 s for some requests between two looks of a test.
    usual = {"group.initial.rebalance.delay.ms": "0", "offsets.commit.timeout.ms": "600000"}
    named = usual | {k.replace("_", "."): v for k, v in settings.items()}
    cluster = make_cluster(
        [Address(1, "localhost", 9092)], ClusterConfig(settings=named, topics={"orders": 2}, lasting=lasting), store
    )
    async with trio.open_nursery() as nursery:
        if lasting:
            await store.take_format(cluster, nursery)
        else:
            await nursery.start(cluster.run)
            await cluster.loaded.wait()
        try:
            yield cluster
        finally:
            store.let_go(1000)
            nursery.cancel_scope.cancel()


def commit(offset: int, group: str = "billing") -> bytes:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    return request(OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("orders", partitions=[partition])]), 2)


def fetch() -> bytes:
    return request(OffsetFetchRequest(group_id="billing", topics=[OffsetFetchRequestTopic("orders", [0])]), 1)


def committed(wire: Wire) -> int:
    """Return the offset in an OffsetFetch answer."""
    return wire.answer(OffsetFetchResponse, 1)[1].topics[0].partitions[0].committed_offset


def error_of(wire: Wire) -> int:
    """Return the error of an OffsetCommit answer."""
    return wire.answer(OffsetCommitResponse, 2)[1].topics[0].partitions[0].error_code


async def test_a_commit_is_answered_when_it_is_durable() -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire, now = Wire(cluster), cluster.clock()
        wire.receive(commit(7), now)
        await until(lambda: store.batches)
        assert wire.sent == b""
        store.let_go()
        await until(lambda: wire.sent)
        assert error_of(wire) == 0


def huge_commit(offset: int) -> bytes:
    """Return a commit of 59,999 partitions, of which one exists."""
    partitions = [
        OffsetCommitRequestPartition(number, offset, committed_metadata="") for number in (0, *range(2, 60_000))
    ]
    return request(
        OffsetCommitRequest("billing", topics=[OffsetCommitRequestTopic("orders", partitions=partitions)]), 2
    )


@pytest.mark.parametrize("failure", [None, StoreError("The disk is full.")], ids=["stored", "refused"])
async def test_huge_commit_is_answered_when_its_batch_has_ended(failure: StoreError | None) -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire, neighbour, now = Wire(cluster), Wire(cluster), cluster.clock()
        wire.receive(huge_commit(7), now)
        await until(lambda: store.batches)
        # The neighbour's answer comes after all turns of the huge commit that need no store.
        neighbour.receive(request(DescribeGroupsRequest(["x" * 30_000] * 40), 5), now)
        await until(lambda: neighbour.sent)
        assert wire.sent == b""
        store.failure = failure
        store.let_go()
        await until(lambda: wire.has_answer)
        answer = wire.answer(OffsetCommitResponse, 2)[1]
        codes = {each.partition_index: each.error_code for each in answer.topics[0].partitions}
        assert len(codes) == 59_999
        expected = ErrorCode.NONE if failure is None else ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert codes[0] == expected
        store.failure = None


async def test_a_client_that_has_closed_its_side_is_answered_when_its_commit_is_durable() -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire, now = Wire(cluster), cluster.clock()
        wire.receive(commit(7) + fetch(), now)
        wire.session.end()
        await until(lambda: store.batches)
        assert not wire.is_closed
        store.let_go()
        await until(lambda: wire.is_closed)
        stored, fetched = wire.answers()
        assert read(stored, OffsetCommitResponse, 2)[1].topics[0].partitions[0].error_code == 0
        assert read(fetched, OffsetFetchResponse, 1)[1].topics[0].partitions[0].committed_offset == 7


async def test_a_session_stays_closed_if_its_connection_breaks_at_the_answer() -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire, now = Wire(cluster), cluster.clock()
        for number in range(3):
            if number == 2:
                assert wire.session.remembered
                wire.send = lambda data: (wire.close(), True)[1]  # type: ignore[method-assign]
            wire.receive(commit(7), now)
            await until(lambda number=number: len(store.batches) > number)  # type: ignore[misc]
            store.let_go()
            await until(lambda: wire.has_answer or wire.is_closed)
            wire.answers()
        assert wire.session.closed


async def test_no_client_sees_a_commit_before_it_is_durable() -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire, reader, now = Wire(cluster), Wire(cluster), cluster.clock()
        wire.receive(commit(7), now)
        reader.receive(fetch(), now)
        await until(lambda: store.batches)
        assert reader.sent == b""
        store.let_go()
        await until(lambda: reader.sent)
        assert committed(reader) == 7


async def test_records_during_a_write_form_the_next_batch() -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wires, now = [Wire(cluster) for _ in range(5)], cluster.clock()
        wires[0].receive(commit(0), now)
        await until(lambda: store.batches)
        for number, wire in enumerate(wires[1:], 1):
            wire.receive(commit(number), now)
        store.let_go()
        await until(lambda: len(store.batches) == 2)
        assert wires[0].sent
        assert not any(wire.sent for wire in wires[1:])
        assert len(store.batches[1]) == 4
        store.let_go()
        await until(lambda: all(wire.sent for wire in wires))


async def test_a_connection_is_answered_in_order_across_batches() -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire, now = Wire(cluster), cluster.clock()
        wire.receive(commit(1) + fetch() + commit(2) + fetch(), now)
        store.let_go(2)
        answers: list[bytes] = []
        await until(lambda: answers.extend(wire.answers()) or len(answers) == 4)
        shown = [read(answers[at], OffsetFetchResponse, 1)[1] for at in (1, 3)]
        assert [each.topics[0].partitions[0].committed_offset for each in shown] == [1, 2]


async def test_other_requests_do_not_wait_for_the_store() -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire, other, now = Wire(cluster), Wire(cluster), cluster.clock()
        wire.receive(commit(7), now)
        await until(lambda: store.batches)
        other.receive(request(ApiVersionsRequest(), 0), now)
        assert other.answer(ApiVersionsResponse, 0)[1].error_code == 0


@pytest.mark.parametrize("error", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
async def test_a_failed_batch_leaves_no_trace_in_memory(error: ErrorCode) -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire, reader, late, now = Wire(cluster), Wire(cluster), Wire(cluster), cluster.clock()
        store.let_go()
        wire.receive(commit(1), now)
        await until(lambda: wire.sent)
        assert error_of(wire) == 0

        store.failure = StoreError("The disk is full.", error)
        wire.receive(commit(2), now)
        reader.receive(fetch(), now)
        await until(lambda: len(store.batches) == 2)
        late.receive(commit(3), now)
        store.let_go()
        await until(lambda: wire.sent and reader.sent and late.sent)
        assert error_of(wire) == error
        assert error_of(late) == error
        reader.answers()

        store.failure = None
        await until(lambda: "loading" not in cluster.nodes[1].groups.partitions().values())
        reader.receive(fetch(), now)
        assert committed(reader) == 1
        store.let_go()
        wire.receive(commit(4), now)
        await until(lambda: wire.sent)
        assert error_of(wire) == 0


async def test_a_failed_batch_fails_no_request_of_the_next_batch_about_other_partitions() -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire, late, other, now = Wire(cluster), Wire(cluster), Wire(cluster), cluster.clock()
        assert partition_for("billing", 50) != partition_for("shipping", 50)
        store.failure = StoreError("The disk is full.", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        wire.receive(commit(1), now)
        await until(lambda: store.batches)
        late.receive(commit(2), now)
        other.receive(commit(3, "shipping"), now)
        store.let_go()
        await until(lambda: wire.sent and late.sent)
        assert [error_of(wire), error_of(late)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
        assert other.sent == b""
        store.failure = None
        store.let_go()
        await until(lambda: other.sent)
        assert error_of(other) == 0
        assert [key.group for _, key, _ in records_of(store.batches[1])] == ["shipping"]


def creation(topic: str) -> bytes:
    return request(CreateTopicsRequest([CreatableTopic(topic, 1, 1)], 10_000), 5)


async def test_a_failed_batch_of_topics_fails_no_commit_of_the_next_batch() -> None:
    store = SlowStore()
    async with running(store, lasting=True) as cluster:
        wire, late, other, now = Wire(cluster), Wire(cluster), Wire(cluster), cluster.clock()
        store.failure = StoreError("The disk is full.", ErrorCode.COORDINATOR_NOT_AVAILABLE)
        wire.receive(creation("a"), now)
        await until(lambda: store.batches)
        late.receive(creation("b"), now)
        other.receive(commit(3), now)
        store.let_go()
        await until(lambda: wire.sent and late.sent)
        answers = [each.answer(CreateTopicsResponse, 5)[1] for each in (wire, late)]
        assert [answer.topics[0].error_code for answer in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
        assert other.sent == b""
        store.failure = None
        store.let_go()
        await until(lambda: other.sent)
        assert error_of(other) == 0
        assert cluster.topics.named("b") is None


async def test_parked_members_look_for_the_coordinator_after_the_store_fails() -> None:
    store = SlowStore()
    async with running(store, group_initial_rebalance_delay_ms="60000") as cluster:
        wire, now = Wire(cluster), cluster.clock()
        store.failure = StoreError("The disk is full.")
        wire.receive(
            request(
                JoinGroupRequest(
                    group_id="billing",
                    session_timeout_ms=30_000,
                    rebalance_timeout_ms=60_000,
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol("range", b"")],
                ),
                2,
            ),
            now,
        )
        store.let_go()
        await until(lambda: wire.sent)
        assert wire.answer(JoinGroupResponse, 2)[1].error_code == ErrorCode.NOT_COORDINATOR


async def test_a_partition_is_tried_again_until_it_is_loaded() -> None:
    store = SlowStore()
    store.load_failures = [StoreError("The file is locked.")] * 2
    async with running(store) as cluster:
        assert set(cluster.nodes[1].groups.partitions().values()) == {"active"}
        assert store.load_failures == []


async def test_requests_fail_when_the_store_does_not_answer(autojump_clock: trio.testing.MockClock) -> None:
    store = SlowStore()
    async with running(store, offsets_commit_timeout_ms="5000") as cluster:
        wire, now = Wire(cluster), cluster.clock()
        wire.receive(commit(7), now)
        cluster.ticks.fire(now + 4.9)
        assert wire.sent == b""
        cluster.ticks.fire(now + 5.0)
        assert error_of(wire) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        # Its connection goes on, and the batch may still come through.
        store.let_go()
        wire.receive(request(ApiVersionsRequest(), 0), now + 6.0)
        assert wire.answer(ApiVersionsResponse, 0)[1].error_code == 0


async def test_a_store_that_is_durable_at_once_answers_at_once() -> None:
    cluster = make_cluster([Address(1, "localhost", 9092)], ClusterConfig(topics={"orders": 1}), MemoryStore())
    cluster.load_at_once()
    wire = Wire(cluster)
    wire.receive(commit(7) + fetch())
    first, second = wire.answers()
    assert first[:4] == second[:4]
    assert cluster.durability.durable == 1


async def test_no_log_shows_the_unstored_end_of_a_transaction() -> None:
    store = SlowStore()
    async with running(store) as cluster:
        wire = Wire(cluster)

        async def ask(message: Message, version: int, answer: type[Message]) -> Any:
            wire.receive(request(message, version), cluster.clock())
            await until(lambda: wire.sent)
            return wire.answer(answer, version)[1]

        store.let_go(2)
        given = await ask(InitProducerIdRequest("id", 60_000), 4, InitProducerIdResponse)
        sender = (given.producer_id, given.producer_epoch)
        record = write_batch(
            [Record(0, 0, None, b"x")],
            producer_id=sender[0],
            producer_epoch=sender[1],
            base_sequence=0,
            transactional=True,
        )
        topics = [TopicProduceData("orders", partition_data=[PartitionProduceData(0, record)])]
        produced = await ask(ProduceRequest("id", -1, 1000, topics), 12, ProduceResponse)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        log = cluster.topics.named("orders").partitions[0].log
        store.failure = StoreError("The disk is full.")
        store.let_go()
        refused = await ask(EndTxnRequest("id", *sender, True), 3, EndTxnResponse)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (log.last_stable_offset, log.end_offset) == (0, 1)
        await cluster.loader.idle.wait()
        assert (log.last_stable_offset, log.end_offset) == (0, 1)
        store.failure = None
        store.let_go(2)
        ended = await ask(EndTxnRequest("id", *sender, True), 3, EndTxnResponse)
        assert ended.error_code == ErrorCode.NONE
        assert (log.last_stable_offset, log.end_offset) == (2, 2)
