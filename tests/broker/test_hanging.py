"""Transactions that ended in the log of another process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_shim.apis.describe_transactions import DescribeTransactionsRequest
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker import hanging
from kafka_shim.broker.hanging import HangingTransactions
from kafka_shim.broker.log import PartitionLog
from kafka_shim.persistence.batch import Record, write_batch

from .context import EPOCH_MS
from .transacting import Transacting


class Process:
    """A process, the only coordinator of transactions unless `is_remote`; `elsewhere` lets another one lead."""

    def __init__(self, is_remote: bool) -> None:
        self.broker = broker = Transacting()
        self.is_cut_off = False
        self.questions: list[tuple[DescribeTransactionsRequest, hanging.Doubts]] = []
        self.hanging = HangingTransactions(
            1,
            broker.cluster.topics,
            broker.service.shard_of,
            lambda name: 2 if is_remote else None,
            self,
            broker.cluster.epoch_ms,
        )
        self.hanging.is_cut_off = lambda: self.is_cut_off
        broker.transactions.hanging = self.hanging

    def holder(self, topic: str, index: int) -> int | None:
        raise NotImplementedError

    def epoch(self, partition: int) -> int:
        raise NotImplementedError

    def ask(self, node_id: int, version: int, request: Message, purpose: object) -> None:
        assert (node_id, version) == (2, 0)
        assert isinstance(request, DescribeTransactionsRequest)
        assert isinstance(purpose, hanging.Doubts)
        self.questions.append((request, purpose))

    def answer(self, *, is_silent: bool = False) -> None:
        """Let the other process answer the questions now."""
        while self.questions:
            request, purpose = self.questions.pop(0)
            state = None if is_silent else self.broker.judge("DescribeTransactions", request, 0)
            self.hanging.answered(purpose, state, self.broker.now)

    def renew(self, *, is_doubtful: bool = False) -> None:
        if is_doubtful:
            self.hanging.doubt()
        self.hanging.ask(self.broker.now)
        self.answer()

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """Let another process lead partition 0 of `t`, with a log of its own."""
        topic = self.broker.cluster.topics.named("t")
        assert topic is not None
        partition = topic.partitions[0]
        ours, partition.log = partition.log, PartitionLog()
        yield
        partition.log = ours

    def write(self, producer: tuple[int, int], sequence: int, kind: str, partition: int = 0, name: str = "id") -> int:
        """Write as a client does that adds its partitions first, or does it by the write; return the error."""
        if kind == "adds-first":
            assert self.broker.add(producer, partition, name=name) == [0]
        return self.broker.produce(producer, sequence, partition=partition, name=name, version=PRODUCE[kind])

    def end(self, producer: tuple[int, int], kind: str, *, commit: bool = True) -> tuple[int, int]:
        """End the transaction; return the producer id and epoch to go on with."""
        following = self.broker.end(producer, commit=commit, version=END[kind])
        assert isinstance(following, tuple)
        return following

    def aborted(self) -> list[int]:
        """Return the first offsets of the aborted transactions of partition 0."""
        return [each.first_offset for each in self.broker.read().aborted_transactions or ()]


PRODUCE = {"adds-first": 11, "adds-itself": 12}
END = {"adds-first": 4, "adds-itself": 5}


@pytest.fixture(params=[False, True], ids=["own-coordinator", "coordinator-elsewhere"])
def process(request: pytest.FixtureRequest) -> Process:
    return Process(request.param)


@pytest.fixture(params=list(PRODUCE))
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_that_ended_elsewhere_ends_here_alike(process: Process, commit: bool, kind: str) -> None:
    broker = process.broker
    producer = broker.init()
    assert process.write(producer, 0, kind) == 0
    with process.elsewhere():
        following = process.end(producer, kind, commit=commit)
    assert broker.ends() == (0, 1)
    process.renew()
    assert broker.ends() == (0, 1)
    process.renew(is_doubtful=True)
    assert broker.ends() == (2, 2)
    assert process.aborted() == ([] if commit else [0])
    # Other batches went to the other log: any sequence number is the next one here.
    assert process.write(following, 7, kind) == 0
    process.end(following, kind)
    assert broker.ends() == (4, 4)
    assert process.aborted() == ([] if commit else [0])


def test_open_transaction_stays_open(process: Process, kind: str) -> None:
    broker = process.broker
    producer = broker.init()
    assert process.write(producer, 0, kind) == 0
    process.renew(is_doubtful=True)
    assert broker.ends() == (0, 1)
    assert process.write(producer, 1, kind) == 0
    process.end(producer, kind)
    assert broker.ends() == (3, 3)
    assert process.aborted() == []


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_whose_end_is_decided_waits_for_its_marker(process: Process, commit: bool, kind: str) -> None:
    broker = process.broker
    producer = broker.init()
    assert process.write(producer, 0, kind) == 0
    broker.decide(producer, commit=commit, version=END[kind])
    process.renew(is_doubtful=True)
    assert broker.ends() == (0, 1)
    broker.settle()
    assert broker.ends() == (2, 2)
    assert process.aborted() == ([] if commit else [0])


@pytest.mark.parametrize("commit", [True, False])
def test_doubtful_transaction_takes_no_batch_of_the_next_one(process: Process, commit: bool, kind: str) -> None:
    broker = process.broker
    producer = broker.init()
    assert process.write(producer, 0, kind) == 0
    with process.elsewhere():
        following = process.end(producer, kind, commit=not commit)
    process.hanging.doubt()
    broker.advance(2.0)
    assert process.write(following, 1, kind) == ErrorCode.NOT_ENOUGH_REPLICAS
    process.renew()
    # If the partition was added first, the coordinator knows the later transaction alone.
    assert broker.ends() == (2, 2)
    assert process.write(following, 1, kind) == 0
    process.end(following, kind, commit=commit)
    assert broker.ends() == (4, 4)
    first = [0] if commit or kind == "adds-first" else []
    assert process.aborted() == first + ([] if commit else [2])


@pytest.mark.parametrize("commit", [True, False])
def test_batch_of_the_next_epoch_makes_an_open_transaction_doubtful(process: Process, commit: bool) -> None:
    broker = process.broker
    producer = broker.init()
    assert broker.produce(producer, 0) == 0
    with process.elsewhere():
        following = process.end(producer, "adds-itself", commit=commit)
    assert broker.produce(following, 0) == ErrorCode.NOT_ENOUGH_REPLICAS
    process.renew()
    assert broker.ends() == (2, 2)
    assert broker.produce(following, 0) == 0
    broker.end(following)
    assert broker.ends() == (4, 4)
    assert process.aborted() == ([] if commit else [0])


def test_epoch_that_a_stranger_claims_refuses_no_batch_of_the_producer(process: Process) -> None:
    broker = process.broker
    producer = broker.init()
    assert broker.produce(producer, 0) == 0
    assert broker.produce((producer[0], producer[1] + 1), 0) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert broker.produce(producer, 1) == 0
    process.renew()
    assert broker.produce(producer, 2) == 0
    broker.end(producer)
    assert broker.ends() == (4, 4)
    assert process.aborted() == []


def test_process_without_leases_takes_no_transactional_batch(process: Process, kind: str) -> None:
    broker = process.broker
    producer = broker.init()
    process.is_cut_off = True
    assert process.write(producer, 0, kind) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert broker.produce((-1, -1), 0, transactional=False, name=None) == 0
    process.is_cut_off = False
    assert process.write(producer, 0, kind) == 0
    process.end(producer, kind)
    assert broker.ends() == (3, 3)


def test_doubt_lasts_until_a_coordinator_knows(process: Process, kind: str) -> None:
    broker = process.broker
    producer = broker.init()
    assert process.write(producer, 0, kind) == 0
    with process.elsewhere():
        process.end(producer, kind)
    partition = broker.service.partition_of("id")
    shard = broker.service.shards.pop(partition)
    process.renew(is_doubtful=True)
    assert broker.ends() == (0, 1)
    broker.service.shards[partition] = shard
    process.renew()
    assert broker.ends() == (2, 2)
    assert process.aborted() == []


def test_doubt_lasts_while_the_other_process_does_not_answer() -> None:
    process = Process(is_remote=True)
    broker = process.broker
    producer = broker.init()
    assert broker.produce(producer, 0) == 0
    with process.elsewhere():
        broker.end(producer)
    process.hanging.doubt()
    for _ in range(3):
        process.hanging.ask(broker.now)
    assert len(process.questions) == 1
    process.answer(is_silent=True)
    assert broker.ends() == (0, 1)
    process.renew()
    assert broker.ends() == (2, 2)
    process.hanging.ask(broker.now)
    assert process.questions == []


def test_records_of_a_transaction_are_not_read_if_its_end_is_forgotten(process: Process, kind: str) -> None:
    broker = process.broker
    producer = broker.init()
    assert process.write(producer, 0, kind) == 0
    with process.elsewhere():
        following = process.end(producer, kind)
    broker.advance(2.0)
    assert process.write(following, 0, kind, partition=1) == 0
    following = process.end(following, kind)
    process.renew(is_doubtful=True)
    assert broker.ends() == (2, 2)
    assert process.aborted() == [0]


def test_write_that_was_not_added_to_a_transaction_is_written_again(process: Process) -> None:
    """The store may fail between the write and the record of its transaction."""
    broker = process.broker
    producer = broker.init()
    assert broker.produce(producer, 0, partition=1) == 0
    following = process.end(producer, "adds-itself")
    topic = TopicProduceData("t", partition_data=[PartitionProduceData(0, batch_of(following))])
    broker.judge("Produce", ProduceRequest("id", -1, 1000, [topic]), 12)
    broker.outbox.records.clear()
    broker.outbox.effects.clear()
    partition = broker.service.partition_of("id")
    broker.service.unload(partition, broker.now)
    broker.service.load(partition, list(broker.store.load(partition)), broker.now)
    assert broker.ends() == (0, 1)
    process.renew(is_doubtful=True)
    assert broker.ends() == (2, 2)
    assert broker.produce(following, 0) == 0
    broker.end(following)
    assert broker.ends() == (4, 4)
    assert process.aborted() == [0]


def batch_of(producer: tuple[int, int]) -> bytes:
    return write_batch(
        [Record(0, EPOCH_MS, None, b"value")],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
        transactional=True,
    )


def test_questions_at_once_are_bounded(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hanging, "AT_ONCE", 2)
    broker = process.broker
    producers = {name: broker.init(name) for name in "abcde"}
    for name, producer in producers.items():
        assert broker.produce(producer, 0, name=name) == 0
    with process.elsewhere():
        for name, producer in producers.items():
            broker.end(producer, name=name)
    process.hanging.doubt()
    process.hanging.ask(broker.now)
    questions = process.questions
    assert [len(request.transactional_ids) for request, _ in questions] == ([2] if questions else [])
    process.answer()
    for _ in range(2):
        process.renew()
    assert broker.ends() == (10, 10)


def test_one_line_tells_of_the_ends(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    broker = process.broker
    for name, commit in (("a\nb", True), ("c", False)):
        producer = broker.init(name)
        assert broker.produce(producer, 0, name=name) == 0
        with process.elsewhere():
            broker.end(producer, name=name, commit=commit)
    process.renew(is_doubtful=True)
    (line,) = [each.getMessage() for each in caplog.records]
    assert "2 transactions had ended at another process and were open here: 1 are committed, 1 aborted" in line
    assert "\n" not in line
