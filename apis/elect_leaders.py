"""ElectLeaders (43): elects leaders of partitions (KIP-183).

v0  the first, as ElectPreferredLeaders
v1  the kind of election, and an error for the whole answer (KIP-460)
v2  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, string


class TopicPartitions(Struct):
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


class ElectLeadersRequest(Message, key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    """`election_type`: 0 preferred, 1 unclean. Null partitions mean all partitions."""

    election_type: int = field(int8, versions="1+")
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+")
    timeout_ms: int = field(int32, default=60_000)


class PartitionResult(Struct):
    partition_id: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class ReplicaElectionResult(Struct):
    topic: str = field(string)
    partition_result: list[PartitionResult] = field(array(PartitionResult))


class ElectLeadersResponse(Message, key=ApiKey.ELECT_LEADERS, versions="0-2", flexible="2+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, versions="1+", ignorable=True)
    replica_election_results: list[ReplicaElectionResult] = field(array(ReplicaElectionResult))


def error(request: ElectLeadersRequest, code: int) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(topic.topic, [PartitionResult(each, code) for each in topic.partitions])
            for topic in request.topic_partitions or ()
        ],
    )


API = Api(ApiKey.ELECT_LEADERS, "ElectLeaders", ElectLeadersRequest, ElectLeadersResponse, error)
