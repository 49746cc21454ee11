"""`__consumer_offsets` is fetched like any topic: the stored records of groups, byte for byte as Kafka writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, TopicPartition

from kafka_shim.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafka_shim.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.offsets import EARLIEST, LATEST
from kafka_shim.persistence.batch import Record, read_batch
from kafka_shim.persistence.keys import encode_key
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.partition import partition_for
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue, decode_key, decode_value
from kafka_shim.persistence.sqlite import SqliteStore
from kafka_shim.server import offsets_log
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.offsets_log import AT_ONCE
from kafka_shim.testing import CoordinatorServer
from tests.server.test_durability import SlowStore, commit, error_of, running
from tests.server.test_failures import mistaken, once
from tests.server.turns import Turns
from tests.server.wire import Wire, cluster, request
from tests.waiting import until_in_trio as until

TOPIC = "__consumer_offsets"
PARTITION = partition_for("billing", 50)
BILLING = OffsetCommitKey("billing", "orders", 0)


def fetch(wire: Wire, offset: int, wait_ms: int = 0, now: float = 100.0) -> None:
    """Fetch the partition of group `billing` as a client."""
    partition = FetchPartition(partition=PARTITION, fetch_offset=offset, partition_max_bytes=1 << 24)
    whole = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 24, topics=[FetchTopic(TOPIC, partitions=[partition])]
    )
    wire.receive(request(whole, 11), now)


def answered(wire: Wire) -> PartitionData:
    (topic,) = wire.answer(FetchResponse, 11)[1].responses
    (partition,) = topic.partitions
    assert isinstance(partition, PartitionData)
    return partition


def records(data: PartitionData) -> list[Record]:
    found, at = [], 0
    raw = data.records or b""
    while at < len(raw):
        batch = read_batch(raw, at)
        assert batch is not None
        found += batch[0].records()
        at = batch[1]
    return found


def read(data: PartitionData) -> list[tuple[int, object, int | None]]:
    """Return offset, key and committed offset of each record; None for a tombstone."""
    found = []
    for record in records(data):
        assert record.key is not None
        key = decode_key(record.key)
        value = None if record.value is None else decode_value(key, record.value)
        assert value is None or isinstance(value, OffsetCommitValue)
        found.append((record.offset, key, None if value is None else value.offset))
    return found


def ends(wire: Wire) -> tuple[int, int]:
    """Return the first and the last offset of the log."""
    found = []
    for timestamp in (EARLIEST, LATEST):
        topic = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(PARTITION, timestamp=timestamp)])
        wire.receive(request(ListOffsetsRequest(topics=[topic]), 2))
        (partition,) = wire.answer(ListOffsetsResponse, 2)[1].topics[0].partitions
        assert partition.error_code == 0
        found.append(partition.offset)
    return found[0], found[1]


def test_a_log_begins_with_the_records_of_the_store_and_goes_on_with_every_batch() -> None:
    made = cluster(topics={"orders": 1})
    made.topics.ensure_offsets_topic()
    groups, reader = Wire(made), Wire(made)
    for offset in (5, 6):
        groups.receive(commit(offset))
        assert error_of(groups) == 0
    # A value that was replaced before the first read is compacted away.
    assert ends(reader) == (0, 1)
    fetch(reader, 0)
    assert read(answered(reader)) == [(0, BILLING, 6)]

    fetch(reader, 1, wait_ms=10_000)
    assert reader.sent == b""
    groups.receive(commit(7))
    assert error_of(groups) == 0
    found = answered(reader)
    assert read(found) == [(1, BILLING, 7)]
    assert records(found)[0].key == encode_key(BILLING)

    groups.receive(request(DeleteGroupsRequest(["billing"]), 1))
    assert groups.answer(DeleteGroupsResponse, 1)[1].results[0].error_code == 0
    fetch(reader, 2)
    assert (2, BILLING, None) in read(answered(reader))
    fetch(reader, 1000)
    assert answered(reader).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_log_that_lacks_a_record_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster(topics={"orders": 1})
    made.topics.ensure_offsets_topic()
    groups, reader = Wire(made), Wire(made)
    groups.receive(commit(5))
    assert error_of(groups) == 0
    assert ends(reader) == (0, 1)
    monkeypatch.setattr(offsets_log, "write_batch", once(offsets_log.write_batch))
    groups.receive(commit(6))
    assert error_of(groups) == 0
    assert made.failures.by_border == {"log": 1}
    assert ends(reader) == (1, 2)
    fetch(reader, 1)
    assert read(answered(reader)) == [(1, BILLING, 6)]


def test_fetch_that_waits_hears_that_its_log_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = cluster(topics={"orders": 1})
    made.topics.ensure_offsets_topic()
    groups, reader = Wire(made), Wire(made)
    assert ends(reader) == (0, 0)
    fetch(reader, 0, wait_ms=10_000)
    with monkeypatch.context() as patch:
        patch.setattr(offsets_log, "write_batch", mistaken)
        groups.receive(commit(5))
        assert error_of(groups) == 0
        assert answered(reader).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        # As long as the log cannot begin, no fetch waits for its records.
        fetch(reader, 0, wait_ms=10_000)
        assert answered(reader).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    fetch(reader, 0, wait_ms=10_000)
    assert read(answered(reader)) == [(0, BILLING, 5)]


async def test_log_that_cannot_begin_is_read_at_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(SlowStore()) as made:
        made.topics.ensure_offsets_topic()
        monkeypatch.setattr(made.durability.store, "load", once(made.durability.store.load))
        reader = Wire(made)

        def is_begun() -> bool:
            fetch(reader, 0)
            return answered(reader).error_code == 0

        await until(is_begun)
        assert made.failures.by_border == {"log": 1}


def test_a_large_log_is_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_log, "COMPACT_BYTES", 4000)
    made = cluster(topics={"orders": 1})
    made.topics.ensure_offsets_topic()
    groups, reader = Wire(made), Wire(made)
    assert ends(reader) == (0, 0)
    for offset in range(200):
        groups.receive(commit(offset))
        groups.answers()
    assert ends(reader) == (0, 200)
    fetch(reader, 0)
    found = read(answered(reader))
    # Offsets stay as they are, and the newest value is there.
    assert found[-1] == (199, BILLING, 199)
    assert len(found) < 100
    assert all(offset == committed for offset, _, committed in found)


class Growing:
    """A log of many offsets, in turns that the test takes. `encoded` counts the values that were encoded."""

    PARTITIONS = 3 * AT_ONCE

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: MemoryStore | None = None) -> None:
        self.cluster: Cluster = cluster(store, topics={"orders": self.PARTITIONS})
        self.cluster.topics.ensure_offsets_topic()
        self.groups, self.reader = Wire(self.cluster), Wire(self.cluster)
        self.turns = Turns(self.groups, self.reader)
        assert self.cluster.offsets_logs is not None
        self.cluster.offsets_logs.take_turns = self.turns.add
        self.encoded = 0
        encode = offsets_log.encode_value

        def counted(key: object, value: object) -> bytes:
            self.encoded += 1
            return encode(key, value)

        monkeypatch.setattr(offsets_log, "encode_value", counted)

    def commit(self, offset: int, partitions: int = PARTITIONS) -> None:
        """Commit this offset for many partitions."""
        every = [OffsetCommitRequestPartition(index, offset) for index in range(partitions)]
        asked = OffsetCommitRequest("billing", topics=[OffsetCommitRequestTopic("orders", partitions=every)])
        self.groups.receive(request(asked, 8))
        (topic,) = self.groups.answer(OffsetCommitResponse, 8)[1].topics
        assert {each.error_code for each in topic.partitions} == {0}

    def read(self) -> list[tuple[OffsetCommitKey, int | None]]:
        """Read the whole log; return the key and the offset of each record."""
        found: list[tuple[OffsetCommitKey, int | None]] = []
        self.turns.all()
        at, end = ends(self.reader)
        while at < end:
            fetch(self.reader, at)
            self.turns.all()
            for place, key, offset in read(answered(self.reader)):
                assert isinstance(key, OffsetCommitKey)
                found.append((key, offset))
                at = place + 1
        return found


def test_a_large_log_begins_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    keys = [OffsetCommitKey("billing", "orders", index) for index in range(Growing.PARTITIONS)]
    store.write([(PARTITION, key, OffsetCommitValue(5)) for key in keys])
    made = Growing(monkeypatch, store)
    fetch(made.reader, 0)
    assert answered(made.reader).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert made.encoded == AT_ONCE
    # Another client asks again, and a commit comes, before the log has begun.
    fetch(made.reader, 0)
    assert answered(made.reader).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    made.commit(6, 1)
    assert made.encoded == AT_ONCE
    made.turns.all()
    found = made.read()
    assert made.encoded == Growing.PARTITIONS + 1
    assert found == [*((key, 5) for key in keys), (keys[0], 6)]


def test_large_commits_reach_the_log_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Growing(monkeypatch)
    assert ends(made.reader) == (0, 0)
    for offset in (5, 6, 7):
        made.commit(offset)
    assert made.encoded == AT_ONCE
    made.turns.all()
    # While the log was behind, the newest commit has replaced the one before.
    assert made.encoded == 2 * Growing.PARTITIONS
    found = made.read()
    assert len(found) == 2 * Growing.PARTITIONS
    assert set(dict(found).values()) == {7}
    made.commit(8, 1)
    assert made.read()[-1] == (BILLING, 8)


def test_many_logs_begin_with_as_many_records_at_once_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    for index in range(3):
        keys = [OffsetCommitKey(f"g{index}", "orders", each) for each in range(AT_ONCE)]
        store.write([(index, key, OffsetCommitValue(5)) for key in keys])
    made = Growing(monkeypatch, store)
    monkeypatch.setattr(offsets_log, "PAUSE", inf)
    every = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(3)]
    made.reader.receive(request(FetchRequest(max_bytes=1 << 24, topics=[FetchTopic(TOPIC, partitions=every)]), 11))
    assert made.encoded == AT_ONCE
    made.turns.all()
    assert made.encoded == 3 * AT_ONCE


def test_log_that_fails_in_a_turn_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Growing(monkeypatch)
    assert ends(made.reader) == (0, 0)
    fetch(made.reader, 0, wait_ms=10_000)
    made.commit(5)
    assert answered(made.reader).error_code == 0
    fetch(made.reader, AT_ONCE, wait_ms=10_000)
    monkeypatch.setattr(offsets_log, "write_batch", once(offsets_log.write_batch))
    made.turns.all()
    assert made.cluster.failures.by_border == {"log": 1}
    assert answered(made.reader).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert dict(made.read()) == {OffsetCommitKey("billing", "orders", each): 5 for each in range(Growing.PARTITIONS)}


def test_settings_of_a_topic_bound_no_log_of_groups() -> None:
    made = cluster(topics={"orders": 1})
    topic = made.topics.ensure_offsets_topic()
    groups, reader = Wire(made), Wire(made)
    assert ends(reader) == (0, 0)
    made.topics.configure(topic, {**topic.configs, "retention.bytes": "1"})
    made.topics.apply_all_settings()
    for offset in (5, 6):
        groups.receive(commit(offset))
        groups.answers()
    assert ends(reader) == (0, 2)


def test_log_of_a_deleted_topic_gets_no_records() -> None:
    made = cluster(topics={"orders": 1})
    topic = made.topics.ensure_offsets_topic()
    groups, reader = Wire(made), Wire(made)
    groups.receive(commit(5))
    groups.answers()
    assert ends(reader) == (0, 1)
    made.topics.delete(topic)
    groups.receive(commit(6))
    assert error_of(groups) == 0
    assert topic.partitions[PARTITION].log.end_offset == 1
    assert made.durability.on_durable is None
    made.topics.ensure_offsets_topic()
    assert ends(reader) == (0, 1)
    fetch(reader, 0)
    assert read(answered(reader)) == [(0, BILLING, 6)]


async def test_clients_try_again_until_a_slow_store_was_read() -> None:
    store = SlowStore()
    store.let_go(1000)
    async with running(store) as made:
        made.topics.ensure_offsets_topic()
        groups, reader = Wire(made), Wire(made)
        groups.receive(commit(5), made.clock())
        await until(lambda: groups.sent)
        groups.answers()
        fetch(reader, 0, wait_ms=10_000, now=made.clock())
        assert answered(reader).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = made.topics.ensure_offsets_topic().partitions[PARTITION]
        await until(lambda: partition.begin_log is None)
        fetch(reader, 0, now=made.clock())
        assert read(answered(reader)) == [(0, BILLING, 5)]
        fetch(reader, 1, wait_ms=10_000, now=made.clock())
        groups.receive(commit(6), made.clock())
        await until(lambda: reader.sent)
        assert read(answered(reader)) == [(1, BILLING, 6)]


async def test_batches_are_written_while_a_large_store_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_log, "PAGE", 10)
    store = SlowStore()
    store.let_go(1000)
    keys = [OffsetCommitKey("billing", "orders", index) for index in range(25)]
    store.write([(PARTITION, key, OffsetCommitValue(5)) for key in keys])
    async with running(store) as made:
        made.topics.ensure_offsets_topic()
        groups, reader = Wire(made), Wire(made)
        pages = []
        nothing_under_way = made.durability.nothing_under_way

        @asynccontextmanager
        async def counted() -> AsyncIterator[None]:
            if pages:
                # A batch comes between two pages, and waits for none but the one before.
                groups.receive(commit(5 + len(pages)), made.clock())
                await until(lambda: groups.sent)
                assert error_of(groups) == 0
            async with nothing_under_way():
                pages.append(1)
                yield

        monkeypatch.setattr(made.durability, "nothing_under_way", counted)
        fetch(reader, 0)
        assert answered(reader).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition = made.topics.ensure_offsets_topic().partitions[PARTITION]
        await until(lambda: partition.begin_log is None)
        fetch(reader, 0)
        found = [(key, offset) for _, key, offset in read(answered(reader))]
        assert len(pages) == 3
        assert found == [*((key, 5) for key in keys), (BILLING, 7)]


def test_a_log_begins_again_at_later_offsets_after_another_process_has_written() -> None:
    made = cluster(topics={"orders": 1})
    made.topics.ensure_offsets_topic()
    groups, reader = Wire(made), Wire(made)
    groups.receive(commit(5))
    groups.answers()
    assert ends(reader) == (0, 1)
    assert made.offsets_logs is not None
    made.offsets_logs.close(PARTITION)
    groups.receive(commit(6))
    groups.answers()
    assert ends(reader) == (1, 2)
    fetch(reader, 1)
    assert read(answered(reader)) == [(1, BILLING, 6)]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_any_consumer_reads_the_log(kind: str, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "offsets.db", 50) if kind == "sqlite" else None
    if store is not None:
        store.open()
    with CoordinatorServer(topics={"orders": 1}, store=store) as server:
        settings = {"bootstrap.servers": server.bootstrap, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        billing = Consumer({**settings, "group.id": "billing"})
        for offset in (3, 4):
            billing.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
        reader = Consumer({**settings, "group.id": "reader"})
        reader.assign([TopicPartition(TOPIC, PARTITION, OFFSET_BEGINNING)])
        messages: list[Message] = []
        while len(messages) < 2:
            message = reader.poll(10)
            assert message is not None
            if message.error() is not None:
                raise KafkaException(message.error())
            messages.append(message)
            # The second one is committed while the log is read.
            if len(messages) == 1:
                billing.commit(offsets=[TopicPartition("orders", 0, 9)], asynchronous=False)
        reader.close()
        billing.close()
    values = [decode_value(BILLING, message.value() or b"") for message in messages]
    assert [message.key() for message in messages] == [encode_key(BILLING)] * 2
    assert [value.offset for value in values if isinstance(value, OffsetCommitValue)] == [4, 9]
    if store is not None:
        store.close()
