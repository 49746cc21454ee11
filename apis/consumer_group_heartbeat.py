"""ConsumerGroupHeartbeat (68): a member of a KIP-848 group joins, heartbeats, receives its assignment, or leaves.

v0  the first; flexible
v1  subscription by regular expression, and the member makes its own id (KIP-1082)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string, uuid


class TopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


class ConsumerGroupHeartbeatRequest(Message, key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"):
    """A field that did not change since the last heartbeat is null, or -1.

    `member_epoch`: 0 joins, -1 leaves, -2 leaves for a while, as a static member.
    """

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(string, versions="1+", nullable="1+", default=None)
    server_assignor: str | None = field(string, nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+", default=None)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


class ConsumerGroupHeartbeatResponse(Message, key=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"):
    """A null `assignment` means that it did not change."""

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)


def error(
    request: ConsumerGroupHeartbeatRequest, code: int, message: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


API = Api(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    "ConsumerGroupHeartbeat",
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    error,
)
