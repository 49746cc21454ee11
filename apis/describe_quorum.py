"""DescribeQuorum (55): leader, voters and observers of the metadata quorum (KIP-595).

v0  the first; flexible
v1  times of a replica's last fetch, and of its last complete fetch (KIP-836)
v2  error messages, directories of replicas, listeners of the voters (KIP-853)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string, uint16, uuid


class PartitionAsked(Struct):
    partition_index: int = field(int32)


class TopicAsked(Struct):
    topic_name: str = field(string)
    partitions: list[PartitionAsked] = field(array(PartitionAsked))


class DescribeQuorumRequest(Message, key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    topics: list[TopicAsked] = field(array(TopicAsked))


class ReplicaState(Struct):
    """Timestamps in ms since the epoch; -1 is unknown."""

    replica_id: int = field(int32)
    replica_directory_id: bytes = field(uuid, versions="2+", ignorable=True)
    log_end_offset: int = field(int64)
    last_fetch_timestamp: int = field(int64, versions="1+", ignorable=True, default=-1)
    last_caught_up_timestamp: int = field(int64, versions="1+", ignorable=True, default=-1)


class PartitionData(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, versions="2+", nullable="2+", ignorable=True, default=None)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32)
    high_watermark: int = field(int64)
    current_voters: list[ReplicaState] = field(array(ReplicaState))
    observers: list[ReplicaState] = field(array(ReplicaState))


class TopicData(Struct):
    topic_name: str = field(string)
    partitions: list[PartitionData] = field(array(PartitionData))


class Listener(Struct):
    name: str = field(string, versions="2+")
    host: str = field(string, versions="2+")
    port: int = field(uint16, versions="2+")


class Node(Struct):
    node_id: int = field(int32, versions="2+")
    listeners: list[Listener] = field(array(Listener), versions="2+")


class DescribeQuorumResponse(Message, key=ApiKey.DESCRIBE_QUORUM, versions="0-2", flexible="0+"):
    error_code: int = field(int16)
    error_message: str | None = field(string, versions="2+", nullable="2+", ignorable=True, default=None)
    topics: list[TopicData] = field(array(TopicData))
    nodes: list[Node] = field(array(Node), versions="2+", ignorable=True)


def error(request: DescribeQuorumRequest, code: int) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code)


API = Api(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", DescribeQuorumRequest, DescribeQuorumResponse, error)
