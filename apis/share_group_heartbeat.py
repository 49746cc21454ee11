"""ShareGroupHeartbeat (76): a member of a share group joins, heartbeats, receives its assignment, or leaves.

v1  the first (KIP-932); flexible; version 0 was early access in Kafka 4.0, and no later release has it
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string, uuid


class ShareGroupHeartbeatRequest(Message, key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="0+"):
    """A field that did not change since the last heartbeat is null. `member_epoch`: 0 joins, -1 leaves."""

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    rack_id: str | None = field(string, nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)


class TopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


class ShareGroupHeartbeatResponse(Message, key=ApiKey.SHARE_GROUP_HEARTBEAT, versions="1", flexible="0+"):
    """A null `assignment` means that it did not change."""

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)


def error(request: ShareGroupHeartbeatRequest, code: int, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=code, error_message=message)


API = Api(
    ApiKey.SHARE_GROUP_HEARTBEAT,
    "ShareGroupHeartbeat",
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    error,
)
