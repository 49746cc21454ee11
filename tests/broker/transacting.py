"""A broker with its groups, transactions and store; time is a number, requests go to the handlers."""

from itertools import count
from typing import Any

from kafka_shim.apis import registry
from kafka_shim.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafka_shim.apis.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kafka_shim.apis.end_txn import EndTxnRequest
from kafka_shim.apis.fetch import PartitionData
from kafka_shim.apis.init_producer_id import InitProducerIdRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.releases import DEFAULT_RELEASE, rules_of
from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafka_shim.apis.wire import Message
from kafka_shim.broker.transactions import Transactions
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.interface import PARKED, Client
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.shard import NodeParts
from kafka_shim.groups.timers import Timers
from kafka_shim.persistence.batch import Record, write_batch
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.persistence.records import OffsetCommitKey
from tests.handling import Call, handle

from .context import EPOCH_MS, Cluster, fetch_request, partitions_of

CLIENT = Client("client", "/127.0.0.1")
KEYS = {api.name: key for key, api in registry.APIS.items()}
UNSTABLE = "unstable"


class Transacting:
    """One broker with all partitions of `__consumer_offsets`, 4 of them, on a store that outlives `restart`."""

    def __init__(self, release: str = DEFAULT_RELEASE, **settings: int) -> None:
        self.release = release
        self.config = GroupConfig(offsets_topic_num_partitions=4, **settings)
        self.store = MemoryStore()
        self.cluster = Cluster(offsets_topic_num_partitions="4")
        self.cluster.topics.declare("t", 3)
        self.cluster.topics.ensure_offsets_topic()
        self.tokens = count(1)
        self.restart()

    @property
    def now(self) -> float:
        return self.cluster.now

    def restart(self) -> None:
        """A new process on the same store; its logs, unlike a real one's, are still there."""
        ids = count(1)
        self.outbox = Outbox()
        parts = NodeParts(
            config=self.config,
            outbox=self.outbox,
            timers=Timers(self.outbox),
            new_id=lambda: str(next(ids)),
            wall_offset=EPOCH_MS / 1000,
            rules=rules_of(self.release),
        )
        self.service = GroupService(1, parts, KINDS, lambda key, kind: (0, 1, "host", 9092))
        self.transactions = transactions = Transactions(
            self.cluster.topics, lambda p: self.service.shards.get(p), 4, self.cluster.epoch_ms
        )
        self.service.coordinator = transactions
        self.cluster.make_broker(1, self.service, transactions)
        self.cluster.broker = self.cluster.brokers[1]
        for partition in range(4):
            self.service.load(partition, list(self.store.load(partition)), self.now)
        self.settle()

    def settle(self) -> None:
        """Make all written records durable and apply their effects."""
        while self.outbox.records or self.outbox.effects:
            self.step()

    def step(self) -> None:
        """Write one batch and apply its effects."""
        effects, self.outbox.effects = self.outbox.effects, []
        self.write()
        for each in effects:
            self.transactions.apply(each.effect, self.now)

    def write(self) -> None:
        """Write one batch without its effects."""
        self.store.write(self.outbox.records)
        self.outbox.records.clear()

    def advance(self, seconds: float) -> None:
        """Let time pass, and fire each timer at its time."""
        end = self.now + seconds
        while (deadline := self.service.next_deadline()) <= end:
            self.cluster.now = max(self.now, deadline)
            self.service.fire(self.now)
            self.settle()
        self.cluster.now = end

    def ask(self, name: str, request: Message, version: int) -> Any:
        """The answer of an API's handler in a version."""
        answer = self.judge(name, request, version)
        self.settle()
        return answer

    def judge(self, name: str, request: Message, version: int) -> Any:
        """As `ask`, but leave the handler's records undurable."""
        api = registry.APIS[KEYS[name]]
        call = Call(version, CLIENT, self.now, self.service, self.cluster.broker)
        answer = handle(request, call)
        return answer if answer is PARKED else api.shape(answer, version)

    # Producers

    def init(self, name: str = "id", *, timeout: int = 60_000) -> tuple[int, int]:
        """The producer id and epoch of a transactional id; asks again when a transaction had to be ended first."""
        request = InitProducerIdRequest(name, timeout)
        answer = self.ask("InitProducerId", request, 5)
        if answer.error_code == 51:
            answer = self.ask("InitProducerId", request, 5)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch

    def add(self, producer: tuple[int, int], *partitions: int, topic: str = "t", name: str = "id") -> list[int]:
        transaction = AddPartitionsToTxnTransaction(
            name, *producer, False, [AddPartitionsToTxnTopic(topic, list(partitions))]
        )
        answer = self.ask("AddPartitionsToTxn", AddPartitionsToTxnRequest([transaction]), 5)
        (results,) = answer.results_by_transaction[0].topic_results
        return [each.partition_error_code for each in results.results_by_partition]

    def add_offsets(self, producer: tuple[int, int], group: str = "grp", *, name: str = "id") -> int:
        error: int = self.ask("AddOffsetsToTxn", AddOffsetsToTxnRequest(name, *producer, group), 4).error_code
        return error

    def produce(
        self, producer: tuple[int, int], sequence: int, *, partition: int = 0, name: str | None = "id",
        version: int = 12, transactional: bool = True,
    ) -> int:  # fmt: skip
        """Write one record; the error."""
        data = write_batch(
            [Record(0, EPOCH_MS, None, b"value")], producer_id=producer[0], producer_epoch=producer[1],
            base_sequence=sequence, transactional=transactional,
        )  # fmt: skip
        topic = TopicProduceData("t", partition_data=[PartitionProduceData(partition, data)])
        answer = self.ask("Produce", ProduceRequest(name, -1, 1000, [topic]), version)
        error: int = answer.responses[0].partition_responses[0].error_code
        return error

    def end(
        self, producer: tuple[int, int], *, commit: bool = True, name: str = "id", version: int = 5
    ) -> tuple[int, int] | int:
        """The producer id and epoch to go on with, or the error."""
        answer = self.ask("EndTxn", EndTxnRequest(name, *producer, commit), version)
        return answer.error_code or ((answer.producer_id, answer.producer_epoch) if version >= 5 else producer)

    def decide(self, producer: tuple[int, int], *, commit: bool = True, name: str = "id", version: int = 5) -> Any:
        """EndTxn, of which nothing is durable yet; the answer that is to leave when it is."""
        return self.judge("EndTxn", EndTxnRequest(name, *producer, commit), version)

    # Offsets

    def stored_offset(self, group: str, partition: int) -> int:
        """The offset that the store has."""
        records = dict(self.store.load(self.service.partition_of(group)))
        return int(records[OffsetCommitKey(group, "t", partition)].offset)

    def commit_in(
        self, producer: tuple[int, int], offsets: dict[int, int], *, group: str = "grp", name: str = "id",
        version: int = 5, **fields: Any,
    ) -> list[int]:  # fmt: skip
        """TxnOffsetCommit; the errors."""
        partitions = [TxnOffsetCommitRequestPartition(p, offset, -1, "") for p, offset in offsets.items()]
        request = TxnOffsetCommitRequest(
            name, group, *producer, topics=[TxnOffsetCommitRequestTopic("t", partitions=partitions)], **fields
        )
        answer = self.ask("TxnOffsetCommit", request, version)
        return [each.error_code for topic in answer.topics for each in topic.partitions]

    def commit(self, offsets: dict[int, int], *, group: str = "grp") -> None:
        partitions = [OffsetCommitRequestPartition(p, offset) for p, offset in offsets.items()]
        request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic("t", partitions=partitions)])
        answer = self.ask("OffsetCommit", request, 9)
        assert {each.error_code for each in answer.topics[0].partitions} == {0}

    def delete_offset(self, partition: int, *, group: str = "grp") -> None:
        topic = OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(partition)])
        assert self.ask("OffsetDelete", OffsetDeleteRequest(group, [topic]), 0).error_code in (0, 69)

    def offsets(self, *, group: str = "grp", stable: bool = True) -> dict[int, int | str]:
        """The offsets there are, or `UNSTABLE`."""
        row = OffsetFetchRequestGroup(group, None, -1, [OffsetFetchRequestTopics("t", partition_indexes=[0, 1, 2])])
        answer = self.ask("OffsetFetch", OffsetFetchRequest(groups=[row], require_stable=stable), 9)
        return {
            each.partition_index: UNSTABLE if each.error_code == 88 else each.committed_offset
            for each in answer.groups[0].topics[0].partitions
            if each.committed_offset != -1 or each.error_code
        }

    # Logs

    def read(self, offset: int = 0, *, committed: bool = True, partition: int = 0) -> PartitionData:
        request = fetch_request(("t", partition, offset), max_wait_ms=0, isolation_level=int(committed))
        return partitions_of(self.cluster.fetch(request))["t", partition]

    def ends(self, partition: int = 0) -> tuple[int, int]:
        """The last stable offset and the log's end."""
        log = self.cluster.topics.named("t").partitions[partition].log  # type: ignore[union-attr]
        return log.last_stable_offset, log.end_offset
