"""Transactional ids, the parts of a transaction, and its end in logs and groups."""

import pytest

from kafka_shim.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.init_producer_id import InitProducerIdRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from kafka_shim.broker import produce
from kafka_shim.broker.transaction_ends import Retry
from kafka_shim.broker.transactions import LAST_EPOCH
from kafka_shim.groups.interface import TransactionSupportedOperation
from kafka_shim.groups.pending_offsets import PendingOffsets
from kafka_shim.persistence.batch import Record, read_batch, write_batch
from kafka_shim.persistence.records import NO_TOPIC_ID, OffsetCommitKey, PendingOffsetKey, TransactionKey
from kafka_shim.trace import schema

from .context import EPOCH_MS, fetch_request, partitions_of
from .test_batches import changed
from .transacting import UNSTABLE, Transacting


@pytest.fixture
def broker() -> Transacting:
    return Transacting()


class TestOffsets:
    def test_offsets_are_pending_until_the_transaction_is_committed(self, broker):
        producer = broker.init()
        broker.commit({0: 1})
        assert broker.commit_in(producer, {0: 10, 1: 11}) == [0, 0]
        assert broker.offsets(stable=False) == {0: 1}
        assert broker.offsets() == {0: UNSTABLE, 1: UNSTABLE}
        assert broker.end(producer) == (producer[0], producer[1] + 1)
        assert broker.offsets() == {0: 10, 1: 11}

    def test_offsets_are_dropped_when_the_transaction_is_aborted(self, broker):
        producer = broker.init()
        broker.commit({0: 1})
        broker.commit_in(producer, {0: 10, 1: 11})
        broker.end(producer, commit=False)
        assert broker.offsets() == {0: 1}

    def test_a_later_plain_commit_stays(self, broker):
        producer = broker.init()
        broker.commit_in(producer, {0: 10, 1: 11})
        broker.commit({0: 1})
        broker.restart()
        assert broker.offsets() == {0: UNSTABLE, 1: UNSTABLE}
        broker.end(producer)
        assert broker.offsets() == {0: 1, 1: 11}

    def test_a_partition_that_a_commit_names_often_is_compared_with_transactions_once(self, broker, monkeypatch):
        broker.commit_in(broker.init(), {0: 10, 1: 11})
        partitions: list[int] = []
        keys_of = PendingOffsets.keys

        def keys(pending: PendingOffsets, group_id: str, topic: str, partition: int) -> list[PendingOffsetKey]:
            partitions.append(partition)
            return keys_of(pending, group_id, topic, partition)

        monkeypatch.setattr(PendingOffsets, "keys", keys)
        named = [OffsetCommitRequestPartition(index % 2, index) for index in range(300)]
        topics = [OffsetCommitRequestTopic("t", partitions=named)]
        answer = broker.ask("OffsetCommit", OffsetCommitRequest("grp", -1, "", topics=topics), 8)
        assert [each.error_code for each in answer.topics[0].partitions] == [0] * 300
        assert partitions == [0, 1]
        assert broker.offsets(stable=False) == {0: 298, 1: 299}

    def test_an_offset_committed_again_in_the_transaction_counts_again(self, broker):
        producer = broker.init()
        broker.commit_in(producer, {0: 10})
        broker.commit({0: 1})
        broker.commit_in(producer, {0: 20})
        broker.end(producer)
        assert broker.offsets() == {0: 20}

    @pytest.mark.parametrize("restarted", [False, True])
    @pytest.mark.parametrize("first", ["a", "b"])
    def test_the_last_written_offset_of_two_transactions_stays(self, broker, first, restarted):
        producers = {name: broker.init(name) for name in "ab"}
        for offset, name in ((10, "a"), (20, "b")):
            assert broker.commit_in(producers[name], {0: offset}, name=name) == [0]
        if restarted:
            broker.restart()
        second = "b" if first == "a" else "a"
        broker.end(producers[first], name=first)
        assert broker.offsets() == {0: UNSTABLE}
        broker.end(producers[second], name=second)
        assert broker.offsets() == {0: 20}

    def test_deleting_a_group_drops_its_pending_offsets(self, broker):
        producer = broker.init()
        broker.commit_in(producer, {0: 10})
        assert broker.ask("DeleteGroups", DeleteGroupsRequest(["grp"]), 2).results[0].error_code == 0
        broker.end(producer)
        assert broker.offsets() == {}
        assert "grp" not in broker.service.groups

    def test_deleting_a_topic_drops_its_pending_offsets(self, broker):
        producer = broker.init()
        broker.commit_in(producer, {0: 10})
        broker.service.topic_deleted("t", NO_TOPIC_ID, broker.now)
        broker.settle()
        broker.end(producer)
        assert broker.offsets() == {}

    def test_a_group_with_pending_offsets_does_not_expire(self):
        broker = Transacting(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1000)
        producer = broker.init(timeout=900_000)
        broker.commit({0: 1, 1: 1})
        broker.commit_in(producer, {0: 10})
        broker.advance(100)
        assert broker.offsets(stable=False) == {0: 1}
        broker.end(producer, commit=False)
        broker.advance(1)
        assert "grp" not in broker.service.groups

    def test_a_commit_writes_the_tombstone_of_the_pending_offset(self, broker):
        producer = broker.init()
        broker.commit_in(producer, {0: 10})
        partition = broker.service.partition_of("grp")
        keys = dict(broker.store.load(partition))
        assert PendingOffsetKey("grp", "t", 0, producer[0]) in keys
        assert OffsetCommitKey("grp", "t", 0) not in keys
        broker.end(producer)
        keys = dict(broker.store.load(partition))
        assert PendingOffsetKey("grp", "t", 0, producer[0]) not in keys
        assert keys[OffsetCommitKey("grp", "t", 0)].offset == 10

    def test_the_coordinator_of_the_group_may_be_loading_when_the_transaction_ends(self, broker):
        producer = broker.init()
        broker.commit_in(producer, {0: 10})
        partition = broker.service.partition_of("grp")
        assert partition != broker.service.partition_of("id")
        broker.service.unload(partition, broker.now)
        broker.service.begin_loading(partition)
        ended = broker.end(producer)
        assert ended == (producer[0], producer[1] + 1)
        assert broker.add(ended, 0) == [51]
        assert broker.ask("InitProducerId", InitProducerIdRequest("id", 1000), 5).error_code == 51
        assert broker.end(producer) == 51
        assert broker.end(producer, commit=False) == 51
        assert broker.end(ended, commit=False) == 51
        retries = []
        broker.transactions.completion.on_retry = retries.append
        broker.advance(0.5)
        why = {("__consumer_offsets", partition): "no process has loaded it"}
        assert retries == [Retry("id", True, attempts, why) for attempts in (1, 2)]
        assert broker.service.counters.marker_retries == 2
        broker.service.load(partition, list(broker.store.load(partition)), broker.now)
        assert broker.offsets() == {0: UNSTABLE}
        broker.advance(1)
        assert broker.offsets() == {0: 10}
        assert broker.end(producer) == ended
        assert broker.add(ended, 0) == [0]


class TestTrace:
    """Trace events of a transaction with offsets of a group."""

    def drain_events(self, broker: Transacting) -> list[tuple[str, object]]:
        events = [e for e in broker.outbox.events if e["event"] in ("transaction_offsets", "commit")]
        assert [problem for event in events for problem in schema.problems(event)] == []
        broker.outbox.events.clear()
        return [
            (event.get("change", "commit"), {each["partition"]: each["offset"] for each in event["offsets"]})
            for event in events
        ]

    def test_an_offset_is_committed_when_it_shows_and_not_before(self, broker):
        broker.outbox.listening = broker.outbox.tracing = True
        producer = broker.init()
        broker.commit_in(producer, {0: 10, 1: 11})
        assert self.drain_events(broker) == [("pending", {0: 10, 1: 11})]
        broker.commit({0: 1})
        assert self.drain_events(broker) == [("commit", {0: 1})]
        broker.end(producer)
        assert self.drain_events(broker) == [("committed", {0: 10, 1: 11}), ("commit", {1: 11})]
        assert broker.offsets() == {0: 1, 1: 11}

    def test_an_aborted_offset_is_never_traced_as_committed(self, broker):
        broker.outbox.listening = broker.outbox.tracing = True
        producer = broker.init()
        broker.commit_in(producer, {0: 10})
        broker.end(producer, commit=False)
        assert self.drain_events(broker) == [("pending", {0: 10}), ("aborted", {0: 10})]


class TestDecisions:
    """A transaction that ends: nothing shows before the decision is durable, and everything does in the end."""

    def open(self, broker: Transacting) -> tuple[int, int]:
        producer = broker.init()
        broker.commit({0: 1})
        assert broker.commit_in(producer, {0: 10}) == [0]
        assert broker.produce(producer, 0) == 0
        return producer

    @pytest.mark.parametrize("commit", [True, False])
    def test_an_unstored_decision_shows_nowhere_and_the_transaction_stays_open(self, broker, commit):
        producer = self.open(broker)
        broker.decide(producer, commit=commit)
        assert broker.ends() == (0, 1)
        broker.restart()
        assert broker.ends() == (0, 1)
        assert broker.offsets() == {0: UNSTABLE}
        assert broker.end(producer, commit=not commit) == (producer[0], producer[1] + 1)
        assert broker.ends() == (2, 2)
        assert broker.offsets() == {0: 1 if commit else 10}

    @pytest.mark.parametrize("commit", [True, False])
    def test_the_next_process_carries_out_a_durable_decision(self, broker, commit):
        producer = self.open(broker)
        broker.decide(producer, commit=commit)
        broker.write()
        assert broker.ends() == (0, 1)
        broker.restart()
        broker.advance(0)
        assert broker.ends() == (2, 2)
        assert broker.offsets() == {0: 10 if commit else 1}
        assert broker.add((producer[0], producer[1] + 1), 0) == [0]

    def test_the_end_is_recorded_only_after_all_markers_are_durable(self, broker):
        producer = self.open(broker)
        key = TransactionKey("id")
        home = broker.service.partition_of("id")
        broker.decide(producer)
        statuses = []
        while broker.outbox.records or broker.outbox.effects:
            broker.step()
            statuses.append((dict(broker.store.load(home))[key].transaction_status, broker.stored_offset("grp", 0)))
        assert statuses == [(2, 1), (2, 10), (4, 10)]

    def test_the_next_process_knows_the_producer_id_after_the_last_epoch(self, broker):
        producer_id, _ = broker.init()
        shard = broker.service.shard_of("id")
        last = dict(broker.store.load(shard.partition))[TransactionKey("id")]
        last.producer_epoch = 2**15 - 2
        shard.write(TransactionKey("id"), last)
        producer = (producer_id, 2**15 - 2)
        assert broker.produce(producer, 0) == 0
        answer = broker.decide(producer)
        broker.write()
        broker.restart()
        broker.advance(0)
        assert (answer.producer_id, answer.producer_epoch) != producer
        assert answer.producer_epoch == 0
        assert broker.produce((answer.producer_id, 0), 0, partition=1) == 0


class TestTransactionalIds:
    def test_epochs_go_on_after_a_restart(self, broker):
        producer_id, epoch = broker.init()
        broker.restart()
        assert broker.init() == (producer_id, epoch + 1)

    def test_the_last_epoch_is_followed_by_a_new_producer_id(self, broker):
        producer_id, _ = broker.init()
        shard = broker.service.shard_of("id")
        last = dict(broker.store.load(shard.partition))[TransactionKey("id")]
        last.producer_epoch = 2**15 - 2
        shard.replay(TransactionKey("id"), last)
        new_id, epoch = broker.init()
        assert new_id != producer_id
        assert epoch == 0

    def at_last_epoch(self, broker):
        """Return a producer at its last epoch, with an open transaction and a timeout of a second."""
        producer_id, _ = broker.init(timeout=1_000)
        shard = broker.service.shard_of("id")
        last = dict(broker.store.load(shard.partition))[TransactionKey("id")]
        last.producer_epoch = LAST_EPOCH
        shard.write(TransactionKey("id"), last)
        assert broker.produce((producer_id, LAST_EPOCH), 0) == 0
        return producer_id, LAST_EPOCH

    def answer_to(self, broker, claim):
        """Send an InitProducerId with this id and epoch; return the new ones, or the error."""
        answer = broker.ask("InitProducerId", InitProducerIdRequest("id", 1_000, *claim), 5)
        return answer.error_code or (answer.producer_id, answer.producer_epoch)

    @pytest.mark.parametrize("times_out", [True, False])
    def test_an_abort_by_the_coordinator_at_the_last_epoch_takes_a_new_producer_id(self, broker, times_out):
        old = self.at_last_epoch(broker)
        if times_out:
            broker.advance(2)
        else:
            assert self.answer_to(broker, (-1, -1)) == 51
        assert broker.end(old, commit=True) == 48
        new = broker.end(old, commit=False)
        assert new[0] != old[0]
        assert new[1] == 0
        assert self.answer_to(broker, (old[0], 5)) == 90
        assert self.answer_to(broker, old) == new
        assert self.answer_to(broker, old) == 90
        assert broker.produce(new, 0) == 0

    def test_before_4_3_such_an_abort_keeps_the_producer_id(self):
        broker = Transacting("4.2")
        old = self.at_last_epoch(broker)
        broker.advance(2)
        assert broker.end(old, commit=False) == (old[0], LAST_EPOCH + 1)
        assert self.answer_to(broker, old) == 90
        new = broker.init()
        assert new[0] != old[0]
        assert new[1] == 0

    @pytest.mark.parametrize("release", ["3.9", "4.4"])
    def test_a_producer_that_was_aborted_returns_with_its_epoch(self, release):
        broker = Transacting(release)
        old = broker.init()
        broker.produce(old, 0)
        assert self.answer_to(broker, (-1, -1)) == 51
        expected = (old[0], old[1] + 1) if release == "4.4" else 90
        assert self.answer_to(broker, old) == self.answer_to(broker, old) == expected

    def test_a_producer_is_fenced_by_one_that_names_no_epoch(self, broker):
        old = broker.init()
        assert broker.init() == (old[0], old[1] + 1)
        assert self.answer_to(broker, old) == 90

    def test_an_open_transaction_is_aborted_first(self, broker):
        old = broker.init()
        broker.commit_in(old, {0: 10})
        broker.produce(old, 0)
        answer = broker.ask("InitProducerId", InitProducerIdRequest("id", 1000), 5)
        assert answer.error_code == 51
        assert broker.offsets() == {}
        assert broker.ends() == (2, 2)
        assert broker.init() == (old[0], old[1] + 2)
        assert broker.end(old) == 90

    def test_another_node_is_to_be_asked(self, broker):
        broker.service.unload(broker.service.partition_of("id"), broker.now)
        assert broker.ask("InitProducerId", InitProducerIdRequest("id", 1000), 5).error_code == 16
        assert broker.add((1, 0), 0) == [16]
        assert broker.add_offsets((1, 0)) == 16
        assert broker.end((1, 0)) == 16
        assert broker.commit_in((1, 0), {0: 1}) == [15]

    def test_a_transaction_past_its_timeout_is_aborted(self, broker):
        producer = broker.init(timeout=5000)
        broker.commit_in(producer, {0: 10})
        broker.produce(producer, 0)
        broker.advance(4.9)
        assert broker.offsets() == {0: UNSTABLE}
        broker.advance(0.2)
        assert broker.offsets() == {}
        assert broker.ends() == (2, 2)
        assert broker.end(producer) == 48
        assert broker.commit_in(producer, {0: 10}) == [47]

    def test_a_restart_restarts_the_time_of_a_transaction(self, broker):
        producer = broker.init(timeout=5000)
        broker.commit_in(producer, {0: 10})
        broker.advance(4)
        broker.restart()
        broker.advance(4)
        assert broker.offsets() == {0: UNSTABLE}
        broker.advance(1.1)
        assert broker.offsets() == {}

    def test_an_unused_id_is_forgotten(self):
        broker = Transacting(offsets_retention_check_interval_ms=60_000)
        old, busy = broker.init("old"), broker.init("busy", timeout=900_000)
        broker.add(busy, 0, name="busy")
        broker.advance(7 * 86_400 - 800)
        assert broker.init("old") == (old[0], old[1] + 1)
        broker.advance(700)
        broker.restart()
        assert broker.init("old") == (old[0], old[1] + 2)
        broker.advance(7 * 86_400 + 60)
        assert broker.init("old")[1] == 0
        assert broker.init("busy")[1] == 0

    def test_more_partitions_give_no_more_time(self, broker):
        producer = broker.init(timeout=5000)
        broker.add(producer, 0)
        broker.advance(4)
        broker.add(producer, 1)
        broker.advance(1.1)
        assert broker.end(producer) == 48

    def test_a_transaction_that_cannot_be_aborted_yet_is_aborted_later(self, broker):
        producer = broker.init(timeout=5000)
        broker.commit_in(producer, {0: 10})
        partition = broker.service.partition_of("grp")
        broker.service.unload(partition, broker.now)
        broker.advance(6)
        broker.service.load(partition, list(broker.store.load(partition)), broker.now)
        assert broker.offsets() == {0: UNSTABLE}
        broker.advance(1)
        assert broker.offsets() == {}


class TestLogs:
    def test_committed_records_are_read_up_to_the_last_stable_offset(self, broker):
        producer = broker.init()
        broker.produce((-1, -1), -1, transactional=False, name=None)
        assert broker.produce(producer, 0) == 0
        broker.produce((-1, -1), -1, transactional=False, name=None)
        assert broker.ends() == (1, 3)
        stable, everything = broker.read(), broker.read(committed=False)
        assert (stable.last_stable_offset, stable.high_watermark) == (1, 3)
        assert everything.records.startswith(stable.records)
        assert len(stable.records) < len(everything.records)
        broker.end(producer)
        assert broker.ends() == (4, 4)
        assert broker.read().records == broker.read(committed=False).records

    def test_aborted_transactions_are_named_where_they_are_read(self, broker):
        producer = broker.init()
        for commit in (False, True, False):
            broker.produce(producer, 0)
            producer = broker.end(producer, commit=commit)
        aborted = [(each.producer_id, each.first_offset) for each in broker.read().aborted_transactions]
        assert aborted == [(producer[0], 0), (producer[0], 4)]
        assert [each.first_offset for each in broker.read(2).aborted_transactions] == [4]
        assert broker.read(committed=False).aborted_transactions is None

    def test_the_marker_is_a_control_batch(self, broker):
        producer = broker.init()
        broker.add(producer, 0)
        broker.end(producer, commit=False)
        batch, _ = read_batch(broker.read().records)
        assert (batch.control, batch.transactional, batch.producer_id) == (True, True, producer[0])
        assert batch.producer_epoch == producer[1] + 1
        (record,) = batch.records()
        assert record.key == b"\0\0\0\0"

    def test_a_held_fetch_is_woken_by_the_end_of_the_transaction(self, broker):
        producer = broker.init()
        broker.produce(producer, 0)
        exchange = broker.cluster.fetch(fetch_request(("t", 0, 0), isolation_level=1), exchange="held")
        assert exchange == "held"
        broker.produce(producer, 1)
        assert broker.cluster.replies() == []
        broker.end(producer)
        ((_, response),) = broker.cluster.replies()
        assert partitions_of(response)["t", 0].last_stable_offset == 3

    def test_a_batch_needs_to_be_part_of_the_transaction(self, broker):
        producer = broker.init()
        assert broker.produce(producer, 0, version=9) == 48
        assert broker.produce(producer, 0, version=11) == 120
        assert broker.produce(producer, 0, version=12) == 0
        assert broker.produce(producer, 0, partition=1, name=None) == 53
        assert broker.produce(producer, 0, partition=1, name="another") == 49
        assert broker.produce((producer[0], producer[1] + 1), 0, partition=1) == 47
        assert broker.produce(producer, 1, transactional=False) == 48

    def test_a_request_adds_all_its_partitions_by_one_record(self, broker):
        producer = broker.init()
        producer_id, epoch = producer

        def data(partition: int, sequence: int, epoch: int = epoch) -> PartitionProduceData:
            records = [Record(0, EPOCH_MS, None, b"value")]
            batch = write_batch(
                records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
            )
            return PartitionProduceData(partition, batch)

        rows = [data(0, 0), data(0, 1), data(1, 0, epoch + 1), data(2, 5), data(9, 0)]
        request = ProduceRequest("id", -1, 1000, [TopicProduceData("t", partition_data=rows)])
        answer = broker.judge("Produce", request, 12)
        errors = [each.error_code for each in answer.responses[0].partition_responses]
        assert errors == [0, 0, 47, 0, 3]
        ((_, key, value),) = broker.outbox.records
        assert key == TransactionKey("id")
        assert [(each.topic, each.partition_ids) for each in value.transaction_partitions] == [("t", [0, 2])]
        broker.settle()
        assert broker.produce(producer, 2) == 0
        broker.end(producer)
        assert [broker.ends(partition) for partition in range(3)] == [(4, 4), (0, 0), (2, 2)]

    @pytest.mark.parametrize("is_sound", [True, False])
    def test_a_verified_request_reads_few_bytes_at_once(self, broker, monkeypatch, is_sound):
        monkeypatch.setattr(produce, "MAX_UNPACKED", 10_000)
        monkeypatch.setattr(produce, "_RECORD", 1)
        producer_id, epoch = broker.init()
        kind = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": 0, "transactional": True}
        records = [Record(0, EPOCH_MS, None, bytes(7_000))]
        if not is_sound:
            records.append(Record(2, EPOCH_MS, None, b"after a gap"))
        data = write_batch(records, codec="gzip", **kind)
        if not is_sound:
            # The header fits the number of records: only these have the gap.
            data = changed(data, 23, "i", 1)
        rows = [PartitionProduceData(index, data) for index in range(3)]
        request = ProduceRequest("id", -1, 1000, [TopicProduceData("t", partition_data=rows)])
        api = broker.cluster.broker._produce
        answer = api.produce(
            request,
            broker.now,
            by_topic_id=False,
            zstd_allowed=True,
            with_leaders=False,
            supported_operation=TransactionSupportedOperation.ADD_PARTITION,
            answers={("t", index): ErrorCode.NONE for index in range(3)},
        )
        errors = [each.error_code for each in answer.responses[0].partition_responses]
        assert errors == ([0, 0, 19] if is_sound else [-1, 19, 19])

    def test_a_request_adds_the_same_transaction_again_by_one_record(self, broker):
        producer = broker.init()
        broker.add(producer, 0)
        parts = [(1, False), (2, True), (2, False), (2, True), (0, True)]
        transactions = [
            AddPartitionsToTxnTransaction("id", *producer, verifies, [AddPartitionsToTxnTopic("t", [partition])])
            for partition, verifies in parts
        ]
        answer = broker.judge("AddPartitionsToTxn", AddPartitionsToTxnRequest(transactions), 5)
        results = [each.topic_results[0].results_by_partition[0] for each in answer.results_by_transaction]
        assert [each.partition_error_code for each in results] == [0, 120, 0, 0, 0]
        ((_, _, value),) = broker.outbox.records
        assert [(each.topic, each.partition_ids) for each in value.transaction_partitions] == [("t", [0, 1, 2])]

    def test_with_the_next_epoch_sequence_numbers_begin_again(self, broker):
        producer = broker.init()
        broker.produce(producer, 0)
        producer = broker.end(producer)
        assert broker.produce(producer, 5) == 45
        assert broker.produce(producer, 0) == 0

    def test_without_a_new_epoch_sequence_numbers_go_on(self, broker):
        producer = broker.init()
        broker.add(producer, 0)
        broker.produce(producer, 0)
        assert broker.end(producer, version=4) == producer
        assert broker.produce(producer, 1) == 0


class TestMarkers:
    def mark(self, broker, producer, topic, partition, *, commit=True, coordinator_epoch=0):
        marker = WritableTxnMarker(*producer, commit, [WritableTxnMarkerTopic(topic, [partition])], coordinator_epoch)
        answer = broker.ask("WriteTxnMarkers", WriteTxnMarkersRequest([marker]), 1)
        return answer.markers[0].topics[0].partitions[0].error_code

    def test_markers_end_transactions_in_logs(self, broker):
        producer = broker.init()
        broker.produce(producer, 0)
        assert self.mark(broker, producer, "t", 0) == 0
        assert broker.ends() == (2, 2)

    def test_a_broker_that_follows_and_one_without_a_replica(self, broker):
        broker.cluster.topics.create("elsewhere", [[2, 1], [2, 3]])
        assert [self.mark(broker, broker.init(), "elsewhere", index) for index in (0, 1)] == [6, 3]

    def test_markers_end_transactions_in_groups_of_a_broker_without_a_visible_offsets_topic(self, broker):
        """Clients may find their coordinator by another process: then nothing makes the topic here."""
        producer = broker.init()
        broker.commit_in(producer, {0: 10})
        broker.cluster.topics.delete(broker.cluster.topics.named("__consumer_offsets"))
        partition = broker.service.partition_of("grp")
        assert self.mark(broker, producer, "__consumer_offsets", partition) == 0
        assert broker.offsets() == {0: 10}
        broker.service.unload(partition, broker.now)
        assert self.mark(broker, producer, "__consumer_offsets", partition) == 3

    @pytest.mark.parametrize(("commit", "left"), [(True, {0: 10}), (False, {})])
    def test_markers_end_transactions_in_groups(self, broker, commit, left):
        producer = broker.init()
        broker.commit_in(producer, {0: 10})
        place = broker.service.partition_of("grp")
        assert self.mark(broker, producer, "__consumer_offsets", place, commit=commit) == 0
        assert broker.offsets() == left

    def test_a_coordinator_that_was_followed_ends_nothing_in_groups(self, broker):
        producer = broker.init()
        place = broker.service.partition_of("grp")
        broker.commit_in(producer, {0: 10})
        assert self.mark(broker, producer, "__consumer_offsets", place, coordinator_epoch=5) == 0
        broker.commit_in(producer, {0: 20})
        assert self.mark(broker, producer, "__consumer_offsets", place, coordinator_epoch=4) == 52
        assert broker.offsets() == {0: UNSTABLE}

    def test_markers_for_missing_partitions_are_refused(self, broker):
        assert self.mark(broker, (1, 0), "t", 9) == 3
        assert self.mark(broker, (1, 0), "nothing", 0) == 3
        broker.service.unload(2, broker.now)
        assert self.mark(broker, (1, 0), "__consumer_offsets", 2) == 6

    def test_old_epochs_are_refused(self, broker):
        broker.init()
        producer = broker.init()
        broker.produce(producer, 0)
        assert self.mark(broker, (producer[0], producer[1] - 1), "t", 0) == 47
        assert self.mark(broker, producer, "t", 0, coordinator_epoch=5) == 0
        assert self.mark(broker, producer, "t", 0, coordinator_epoch=4) == 52
