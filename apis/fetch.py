"""Fetch (1): record batches of partitions, from an offset on.

v0  the first; message sets
v1  throttle time
v2  message format 1, with timestamps (KIP-32)
v3  a limit of bytes for the whole answer (KIP-74)
v4  isolation level; record batches, message format 2 (KIP-98)
v5  log start offset (KIP-107)
v6  KAFKA_STORAGE_ERROR (56) may be answered (KIP-112)
v7  fetch sessions (KIP-227)
v8  throttle time is taken after the answer is sent
v9  current leader epoch (KIP-320)
v10 zstd (KIP-110)
v11 rack, preferred read replica (KIP-392)
v12 flexible; last fetched epoch, diverging epoch (KIP-595)
v13 topic ids in place of names (KIP-516)
v14 OFFSET_MOVED_TO_TIERED_STORAGE (109) may be answered (KIP-405)
v15 replica state in place of the replica id (KIP-903)
v16 the answer has the new leaders and their addresses (KIP-951)
v17 replica directory id (KIP-853)
v18 high watermark of the follower (KIP-1166)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, int64, records, string, uuid


class ReplicaState(Struct):
    replica_id: int = field(int32, versions="15+", default=-1)
    replica_epoch: int = field(int64, versions="15+", default=-1)


class FetchPartition(Struct):
    partition: int = field(int32)
    current_leader_epoch: int = field(int32, versions="9+", default=-1, ignorable=True)
    fetch_offset: int = field(int64)
    last_fetched_epoch: int = field(int32, versions="12+", default=-1)
    log_start_offset: int = field(int64, versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int = field(int32)
    replica_directory_id: bytes = field(uuid, versions="17+", tag=0, tagged="17+", ignorable=True)
    high_watermark: int = field(int64, versions="18+", default=2**63 - 1, tag=1, tagged="18+", ignorable=True)


class FetchTopic(Struct):
    topic: str = field(string, versions="0-12", ignorable=True)
    topic_id: bytes = field(uuid, versions="13+", ignorable=True)
    partitions: list[FetchPartition] = field(array(FetchPartition))


class ForgottenTopic(Struct):
    topic: str = field(string, versions="7-12", ignorable=True)
    topic_id: bytes = field(uuid, versions="13+", ignorable=True)
    partitions: list[int] = field(array(int32), versions="7+")


class FetchRequest(Message, key=ApiKey.FETCH, versions="0-18", flexible="12+"):
    """A request within a session (KIP-227) has the session's id and next epoch, and only the partitions that changed.

    A session epoch of -1 ends the session, or asks for none; 0 asks for a new one. The answer may wait `max_wait_ms`
    for `min_bytes` of data.
    """

    cluster_id: str | None = field(
        string, versions="12+", nullable="12+", default=None, tag=0, tagged="12+", ignorable=True
    )
    replica_id: int = field(int32, versions="0-14", default=-1)
    replica_state: ReplicaState = field(ReplicaState, versions="15+", tag=1, tagged="15+")
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, versions="3+", default=2**31 - 1, ignorable=True)
    isolation_level: int = field(int8, versions="4+", ignorable=True)
    session_id: int = field(int32, versions="7+", ignorable=True)
    session_epoch: int = field(int32, versions="7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic), versions="7+")
    rack_id: str = field(string, versions="11+", ignorable=True)


class EpochEndOffset(Struct):
    epoch: int = field(int32, versions="12+", default=-1)
    end_offset: int = field(int64, versions="12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(int32, versions="12+", default=-1)
    leader_epoch: int = field(int32, versions="12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = field(int64, default=-1)
    epoch: int = field(int32, default=-1)


class AbortedTransaction(Struct):
    producer_id: int = field(int64, versions="4+")
    first_offset: int = field(int64, versions="4+")


class PartitionData(Struct):
    """`records` has whole record batches as they were produced, except that the last one may be cut."""

    partition_index: int = field(int32)
    error_code: int = field(int16)
    high_watermark: int = field(int64)
    last_stable_offset: int = field(int64, versions="4+", default=-1, ignorable=True)
    log_start_offset: int = field(int64, versions="5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field(EpochEndOffset, versions="12+", tag=0, tagged="12+")
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch, versions="12+", tag=1, tagged="12+")
    snapshot_id: SnapshotId = field(SnapshotId, versions="12+", tag=2, tagged="12+")
    aborted_transactions: list[AbortedTransaction] | None = field(
        array(AbortedTransaction), versions="4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = field(int32, versions="11+", default=-1)
    records: bytes | None = field(records, nullable="0+", default=None)


class FetchableTopicResponse(Struct):
    topic: str = field(string, versions="0-12", ignorable=True)
    topic_id: bytes = field(uuid, versions="13+", ignorable=True)
    partitions: list[PartitionData] = field(array(PartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(int32, versions="16+")
    host: str = field(string, versions="16+")
    port: int = field(int32, versions="16+")
    rack: str | None = field(string, versions="16+", nullable="16+", default=None)


class FetchResponse(Message, key=ApiKey.FETCH, versions="0-18", flexible="12+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16, versions="7+", ignorable=True)
    session_id: int = field(int32, versions="7+")
    responses: list[FetchableTopicResponse] = field(array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint), versions="16+", tag=0, tagged="16+")


def error(request: FetchRequest, code: int) -> FetchResponse:
    """Set the code for the answer and, if topics have names, for each partition: older versions have only the
    latter.
    """
    return FetchResponse(
        error_code=code,
        session_id=request.session_id,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=each.partition, error_code=code, high_watermark=-1, records=b"")
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
            if topic.topic
        ],
    )


API = Api(ApiKey.FETCH, "Fetch", FetchRequest, FetchResponse, error)
