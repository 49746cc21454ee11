"""DescribeQuorum, UnregisterController and DescribeLogDirs: the metadata quorum and the disk usage, as tools expect
them.

There is neither a Raft quorum nor a disk. The controller appears as the only voter of a log that ends at the number of
changes of topics so far, and the other brokers as observers without lag. The only log directory has the logs that a
broker leads or follows, and no volume that could be full. Sources: KIP-113, KIP-595, KIP-827, KIP-836, KIP-853; Kafka's
KafkaRaftClient and ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kafka_shim.apis.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kafka_shim.apis.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from kafka_shim.apis.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import Topic, Topics

METADATA_TOPIC: Final = "__cluster_metadata"
_EPOCH: Final = 1


class Quorum:
    """The rules of DescribeQuorum and UnregisterController. Every broker gives the same answer. `epoch_ms` turns
    monotonic seconds into ms since the epoch."""

    def __init__(self, topics: Topics, epoch_ms: Callable[[float], int]) -> None:
        self.topics = topics
        self._epoch_ms = epoch_ms

    def unregister_controller(self, request: UnregisterControllerRequest) -> UnregisterControllerResponse:
        """Refuse: the only controller is active, INVALID_REQUEST (42); no other is registered,
        CONTROLLER_ID_NOT_REGISTERED (136)."""
        if request.controller_id == self.topics.controller_id():
            reason = "Controller cannot unregister itself while it is active."
            return UnregisterControllerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=reason)
        reason = f"Controller ID {request.controller_id} is not currently registered."
        return UnregisterControllerResponse(error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED, error_message=reason)

    def describe(self, request: DescribeQuorumRequest, now: float) -> DescribeQuorumResponse:
        """Describe partition 0 of `__cluster_metadata`; any other request is UNKNOWN_TOPIC_OR_PARTITION (3)
        everywhere."""
        if not request.topics:
            return DescribeQuorumResponse(error_message="")
        partitions = [
            (topic.topic_name, [each.partition_index for each in topic.partitions]) for topic in request.topics
        ]
        if partitions != [(METADATA_TOPIC, [0])]:
            return DescribeQuorumResponse(
                error_message="",
                topics=[TopicData(name, [_unknown(index) for index in indexes]) for name, indexes in partitions],
            )
        nodes = self.topics.nodes
        leader = self.topics.controller_id()
        end = self.topics.revision
        now_ms = self._epoch_ms(now)
        replicas = {each: ReplicaState(each, _directory(each), end, now_ms, now_ms) for each in nodes}
        data = PartitionData(
            error_message="",
            leader_id=leader,
            leader_epoch=_EPOCH,
            high_watermark=end,
            current_voters=[replicas[leader]] if leader in replicas else [],
            observers=[each for node_id, each in replicas.items() if node_id != leader],
        )
        voters = [
            Node(each.id, [Listener("CONTROLLER", each.host, each.port)])
            for each in nodes.values()
            if each.id == leader
        ]
        return DescribeQuorumResponse(error_message="", topics=[TopicData(METADATA_TOPIC, [data])], nodes=voters)


class LogDirs:
    """The rule of DescribeLogDirs on one broker."""

    def __init__(self, node_id: int, topics: Topics) -> None:
        self.node_id = node_id
        self.topics = topics

    def describe(self, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        """Return the only directory, with those partitions in the request that have a replica here."""
        partitions: dict[str, set[int]] = {}
        for each in all_topics(self.topics.all()) if request.topics is None else request.topics:
            partitions.setdefault(each.topic, set()).update(each.partitions)
        settings = self.topics.settings
        folder = settings.text("log.dirs") or settings.text("log.dir")
        described = [
            self._topic(topic, indexes)
            for name, indexes in partitions.items()
            if (topic := self.topics.named(name)) is not None
        ]
        return DescribeLogDirsResponse(
            results=[DescribeLogDirsResult(log_dir=folder, topics=[each for each in described if each.partitions])]
        )

    def _topic(self, topic: Topic, partitions: set[int]) -> DescribeLogDirsTopic:
        return DescribeLogDirsTopic(
            topic.name,
            [
                DescribeLogDirsPartition(each.index, each.log.size)
                for each in topic.partitions
                if each.index in partitions and self.node_id in each.replicas
            ],
        )


def all_topics(topics: Iterable[Topic]) -> list[DescribableLogDirTopic]:
    """Return the elements of a request that names all partitions of these topics."""
    return [DescribableLogDirTopic(topic.name, [each.index for each in topic.partitions]) for topic in topics]


def one_directory(results: list[DescribeLogDirsResult]) -> list[DescribeLogDirsResult]:
    """Merge the answers to parts of a request: each has the directory with some of the topics."""
    results[0].topics = [topic for each in results for topic in each.topics]
    return results[:1]


def _unknown(index: int) -> PartitionData:
    return PartitionData(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def _directory(node_id: int) -> bytes:
    """Return the id of a broker's directory: always the same, and different for each broker."""
    return b"kafka_shim" + node_id.to_bytes(6, "big", signed=True)
