"""A cluster's brokers with time as a number, and the few words tests need to talk to one of them.

The record builders of real clients make the batches, so the tests check the bytes that producers send.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData
from kafka_shim.apis.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kafka_shim.broker.broker import Broker
from kafka_shim.broker.fetch_sessions import next_epoch
from kafka_shim.broker.settings import Settings
from kafka_shim.broker.topics import Node, Topics
from kafka_shim.broker.transactions import Transactions
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.interface import NO_REPLY, PARKED, TransactionSupportedOperation
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.shard import NodeParts
from kafka_shim.groups.timers import Timers

EPOCH_MS = 1_700_000_000_000
"""The time at `now` 0 in ms since the epoch."""

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BUILDERS = {"kafka-python": KafkaPythonBuilder, "aiokafka": AioBuilder}


def batch(
    *values: bytes,
    client: str = "kafka-python",
    codec: str = "none",
    timestamp: int = EPOCH_MS,
    step: int = 1,
    producer: tuple[int, int, int] = (-1, -1, -1),
    headers: list[tuple[str, bytes]] | None = None,
) -> bytes:
    """One record batch with a record per value, `step` ms apart; `producer` is its id, epoch and base sequence."""
    producer_id, producer_epoch, base_sequence = producer
    builder = BUILDERS[client](
        magic=2,
        compression_type=CODECS[codec],
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        batch_size=2**20,
    )
    for index, value in enumerate(values):
        builder.append(index, timestamp + index * step, b"key", value, headers or [])
    return bytes(builder.build())


def records_of(data: bytes) -> list[Any]:
    """The records of batches, as aiokafka's consumer reads them."""
    found = []
    while data:
        size = 12 + int.from_bytes(data[8:12], "big")
        one = AioBatch(data[:size])
        assert one.validate_crc()
        found += list(one)
        data = data[size:]
    return found


class Cluster:
    """Brokers 1 to `nodes` that share topics, an outbox, and a clock that only `advance` moves."""

    def __init__(self, nodes: int = 1, *, log_bytes: int = 2**20, **settings: str) -> None:
        ids = count(1)

        def new_id() -> bytes:
            return next(ids).to_bytes(16, "big")

        self.now = 0.0
        self.outbox = Outbox()
        self.topics = Topics(
            [Node(each, f"host-{each}", 9090 + each) for each in range(1, nodes + 1)],
            Settings({name.replace("_", "."): value for name, value in settings.items()}),
            new_id,
            log_bytes,
            cluster_id="cluster",
        )
        self._new_id = new_id
        self._tokens = count()
        self.brokers: dict[int, Broker] = {}
        for each in self.topics.nodes:
            parts = NodeParts(config=GroupConfig(), outbox=self.outbox, timers=Timers(self.outbox), new_id=lambda: "")
            groups = GroupService(each, parts, KINDS, lambda key, kind: (0, 1, "host", 9092))
            self.make_broker(each, groups, Transactions(self.topics, groups.shards.get, 50, self.epoch_ms))
        self.broker = self.brokers[1]

    def make_broker(self, node_id: int, groups: GroupService, transactions: Transactions) -> None:
        """Let a new broker serve this node."""
        self.brokers[node_id] = Broker(
            node_id, self.topics, self.outbox, transactions, groups, new_id=self._new_id, epoch_ms=self.epoch_ms
        )

    @staticmethod
    def epoch_ms(now: float) -> int:
        return EPOCH_MS + round(now * 1000)

    def advance(self, seconds: float) -> None:
        """Let time pass and fire due timers on every broker."""
        self.now += seconds
        for broker in self.brokers.values():
            if broker.next_deadline() <= self.now:
                broker.expire(self.now)

    def replies(self) -> list[tuple[Any, Any]]:
        """Tokens and responses of the parked requests answered since the last call."""
        released = [(exchange, response) for exchange, response, gate in self.outbox.replies if gate == 0]
        assert len(released) == len(self.outbox.replies)
        self.outbox.replies.clear()
        return released

    def send(
        self, topic: str, index: int, data: bytes | None, *, acks: int = -1, node: int = 1, **flags: bool
    ) -> PartitionProduceResponse:
        """Produce one batch, and the answer for its partition."""
        request = ProduceRequest(
            acks=acks, topic_data=[TopicProduceData(topic, partition_data=[PartitionProduceData(index, data)])]
        )
        response = self.brokers[node].produce(
            request,
            None,
            self.now,
            **{
                "by_topic_id": False,
                "zstd_allowed": True,
                "with_leaders": False,
                "supported_operation": TransactionSupportedOperation.DEFAULT_ERROR,
                **flags,
            },
        )
        assert response is not NO_REPLY
        return response.responses[0].partition_responses[0]

    def fetch(self, request: FetchRequest, *, node: int = 1, by_topic_id: bool = False, exchange: object = None) -> Any:
        """Fetch: the response, or the exchange if the request is parked."""
        exchange = next(self._tokens) if exchange is None else exchange
        response = self.brokers[node].fetches.fetch(
            request, exchange, self.now, by_topic_id=by_topic_id, with_leaders=True
        )
        return exchange if response is PARKED else response


def fetch_request(*positions: tuple[str, int, int], topic_id: bytes = bytes(16), **fields: Any) -> FetchRequest:
    """A Fetch of partitions `(topic, index, offset)`, one topic entry each."""
    maximum = fields.pop("partition_max_bytes", 2**20)
    leader_epoch = fields.pop("current_leader_epoch", -1)
    forgotten = [ForgottenTopic(topic, topic_id, [index]) for topic, index in fields.pop("forgotten", ())]
    return FetchRequest(
        **{"max_wait_ms": 500, "min_bytes": 1, "session_epoch": -1, **fields},
        forgotten_topics_data=forgotten,
        topics=[
            FetchTopic(
                topic,
                topic_id,
                [
                    FetchPartition(
                        partition=index,
                        fetch_offset=offset,
                        partition_max_bytes=maximum,
                        current_leader_epoch=leader_epoch,
                    )
                ],
            )
            for topic, index, offset in positions
        ],
    )


def partitions_of(response: FetchResponse) -> dict[tuple[str, int], PartitionData]:
    """The partitions of a response by topic and index, in its order."""
    return {(topic.topic, each.partition_index): each for topic in response.responses for each in topic.partitions}


class Client:
    """A consumer with a session: it sends only changes, and remembers id and epoch."""

    def __init__(self, cluster: Cluster, *positions: tuple[str, int, int], by_topic_id: bool = False) -> None:
        self.cluster = cluster
        self.by_topic_id = by_topic_id
        self.epoch = 0
        self.id = 0
        self.first = self.answer(*positions)
        self.id = self.first.session_id
        self.epoch = 1

    def ask(self, *positions: tuple[str, int, int], **fields: object) -> object:
        request = fetch_request(*positions, **{"session_id": self.id, "session_epoch": self.epoch, **fields})
        answer = self.cluster.fetch(request, by_topic_id=self.by_topic_id)
        self.epoch = next_epoch(self.epoch)
        return answer

    def answer(self, *positions: tuple[str, int, int], **fields: object) -> FetchResponse:
        answer = self.ask(*positions, **{"max_wait_ms": 0, **fields})
        assert isinstance(answer, FetchResponse)
        return answer
