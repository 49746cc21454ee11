"""DescribeQuorum and DescribeLogDirs: what a broker says of the cluster's metadata, and of what its logs take.

Decides how what is kept in memory looks to tools that ask after disks and after a Raft quorum. There is neither: the
broker that is the controller is the one voter of a log whose end is the number of changes of topics so far, and the
others have seen all of it. A log directory has the logs that a broker leads or follows, and no volume that could be
full. Sources: KIP-113, KIP-595, KIP-827, KIP-836, KIP-853; Kafka's KafkaRaftClient and ReplicaManager.
"""

from __future__ import annotations

from typing import Final

from kafka_shim.apis.describe_log_dirs import (
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
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.topics import Topic, Topics

METADATA_TOPIC: Final = "__cluster_metadata"
_EPOCH: Final = 1


class Quorum:
    """The rule of DescribeQuorum; it answers alike on every broker."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def describe(self, request: DescribeQuorumRequest, now_ms: int) -> DescribeQuorumResponse:
        """UNKNOWN_TOPIC_OR_PARTITION (3) everywhere unless just partition 0 of `__cluster_metadata` is named.

        `now_ms`: ms since the epoch.
        """
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
        """The one directory, with those of the wanted partitions that have a replica here."""
        if request.topics is None:
            partitions = {topic.name: set(range(len(topic.partitions))) for topic in self.topics.all()}
        else:
            partitions = {}
            for each in request.topics:
                partitions.setdefault(each.topic, set()).update(each.partitions)
        settings = self.topics.settings
        folder = settings.text("log.dirs") or settings.text("log.dir")
        described = [
            self._topic(topic, partitions[topic.name]) for topic in self.topics.all() if topic.name in partitions
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


def _unknown(index: int) -> PartitionData:
    return PartitionData(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def _directory(node_id: int) -> bytes:
    """The id of a broker's directory: always the same, and no other broker's."""
    return b"kafka_shim" + node_id.to_bytes(6, "big", signed=True)
