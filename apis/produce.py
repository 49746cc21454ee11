"""Produce (0): appends record batches to partitions.

v0  the first; message sets
v1  throttle time
v2  message format 1, with timestamps (KIP-32)
v3  transactional id; record batches, message format 2 (KIP-98)
v4  KAFKA_STORAGE_ERROR (56) may be answered (KIP-112)
v5  log start offset (KIP-107)
v6  throttle time is taken after the answer is sent
v7  zstd (KIP-110)
v8  errors of single records, error message (KIP-467)
v9  flexible
v10 the answer has the new leaders and their addresses (KIP-951)
v11 TRANSACTION_ABORTABLE (120) may be answered (KIP-890)
v12 the partition is added to the transaction implicitly (KIP-890)
v13 topic ids in place of names (KIP-516)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, records, string, uuid


class PartitionProduceData(Struct):
    index: int = field(int32)
    records: bytes | None = field(records, nullable="0+", default=None)


class TopicProduceData(Struct):
    name: str = field(string, versions="0-12", ignorable=True)
    topic_id: bytes = field(uuid, versions="13+", ignorable=True)
    partition_data: list[PartitionProduceData] = field(array(PartitionProduceData))


class ProduceRequest(Message, key=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    """`acks`: 0 sends no answer, 1 waits for the leader, -1 waits for all in-sync replicas."""

    transactional_id: str | None = field(string, versions="3+", nullable="3+", default=None)
    acks: int = field(int16)
    timeout_ms: int = field(int32)
    topic_data: list[TopicProduceData] = field(array(TopicProduceData))


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field(int32, versions="8+")
    batch_index_error_message: str | None = field(string, versions="8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(int32, versions="10+", default=-1)
    leader_epoch: int = field(int32, versions="10+", default=-1)


class PartitionProduceResponse(Struct):
    """A `log_append_time_ms` of -1 means that the records keep the producer's timestamps."""

    index: int = field(int32)
    error_code: int = field(int16)
    base_offset: int = field(int64)
    log_append_time_ms: int = field(int64, versions="2+", default=-1, ignorable=True)
    log_start_offset: int = field(int64, versions="5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(
        array(BatchIndexAndErrorMessage), versions="8+", ignorable=True
    )
    error_message: str | None = field(string, versions="8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, versions="10+", tag=0, tagged="10+")


class TopicProduceResponse(Struct):
    name: str = field(string, versions="0-12", ignorable=True)
    topic_id: bytes = field(uuid, versions="13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(array(PartitionProduceResponse))


class NodeEndpoint(Struct):
    node_id: int = field(int32, versions="10+")
    host: str = field(string, versions="10+")
    port: int = field(int32, versions="10+")
    rack: str | None = field(string, versions="10+", nullable="10+", default=None)


class ProduceResponse(Message, key=ApiKey.PRODUCE, versions="0-13", flexible="9+"):
    responses: list[TopicProduceResponse] = field(array(TopicProduceResponse))
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), versions="10+", tag=0, tagged="10+")


def error(request: ProduceRequest, code: int) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=each.index, error_code=code, base_offset=-1)
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


API = Api(ApiKey.PRODUCE, "Produce", ProduceRequest, ProduceResponse, error)
