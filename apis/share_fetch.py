"""ShareFetch (78): records that a member of a share group acquires, and acknowledgements of earlier ones (KIP-932).

v1  the first; flexible; version 0 was early access in Kafka 4.0, and no later release has it
v2  acquire mode (KIP-1206), renewal of acquisition locks (KIP-1222)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import (
    Message,
    Struct,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    uuid,
)


class AcknowledgementBatch(Struct):
    """`acknowledge_types`: 0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all offsets, or one for each."""

    first_offset: int = field(int64)
    last_offset: int = field(int64)
    acknowledge_types: list[int] = field(array(int8))


class FetchPartition(Struct):
    partition_index: int = field(int32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


class FetchTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[FetchPartition] = field(array(FetchPartition))


class ForgottenTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


class ShareFetchRequest(Message, key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    """`share_session_epoch`: 0 opens a share session, -1 closes it. `share_acquire_mode`: 0 whole batches, 1 at most
    `max_records`."""

    group_id: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+")
    share_session_epoch: int = field(int32)
    max_wait_ms: int = field(int32)
    min_bytes: int = field(int32)
    max_bytes: int = field(int32, default=2**31 - 1)
    max_records: int = field(int32)
    batch_size: int = field(int32)
    share_acquire_mode: int = field(int8, versions="2+", ignorable=True)
    is_renew_ack: bool = field(boolean, versions="2+")
    topics: list[FetchTopic] = field(array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(array(ForgottenTopic))


class LeaderIdAndEpoch(Struct):
    leader_id: int = field(int32)
    leader_epoch: int = field(int32)


class AcquiredRecords(Struct):
    first_offset: int = field(int64)
    last_offset: int = field(int64)
    delivery_count: int = field(int16)


class PartitionData(Struct):
    """`records` has whole record batches; the member owns only the `acquired_records` among them."""

    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    acknowledge_error_code: int = field(int16)
    acknowledge_error_message: str | None = field(string, nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)
    records: bytes = field(records)
    acquired_records: list[AcquiredRecords] = field(array(AcquiredRecords))


class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, nullable="0+", default=None)


class ShareFetchResponse(Message, key=ApiKey.SHARE_FETCH, versions="1-2", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(int32)
    responses: list[ShareFetchableTopicResponse] = field(array(ShareFetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))


def error(request: ShareFetchRequest, code: int) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=code)


API = Api(ApiKey.SHARE_FETCH, "ShareFetch", ShareFetchRequest, ShareFetchResponse, error)
