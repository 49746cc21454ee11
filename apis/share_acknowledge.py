"""ShareAcknowledge (79): a member of a share group accepts, releases or rejects acquired records (KIP-932).

v1  the first; flexible; version 0 was early access in Kafka 4.0, and no later release has it
v2  renewal of acquisition locks (KIP-1222)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch, NodeEndpoint
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int16, int32, string, uuid


class AcknowledgePartition(Struct):
    partition_index: int = field(int32)
    acknowledgement_batches: list[AcknowledgementBatch] = field(array(AcknowledgementBatch))


class AcknowledgeTopic(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[AcknowledgePartition] = field(array(AcknowledgePartition))


class ShareAcknowledgeRequest(Message, key=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"):
    """`share_session_epoch`: -1 closes the share session; 0 is refused, since only ShareFetch opens a session."""

    group_id: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+")
    share_session_epoch: int = field(int32)
    is_renew_ack: bool = field(boolean, versions="2+")
    topics: list[AcknowledgeTopic] = field(array(AcknowledgeTopic))


class PartitionData(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = field(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


class ShareAcknowledgeResponse(Message, key=ApiKey.SHARE_ACKNOWLEDGE, versions="1-2", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = field(int32, versions="2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(array(ShareAcknowledgeTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(array(NodeEndpoint))


def error(request: ShareAcknowledgeRequest, code: int) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=code)


API = Api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", ShareAcknowledgeRequest, ShareAcknowledgeResponse, error)
