"""ClientAssignorHeartbeat: ConsumerGroupHeartbeat as in the draft of KIP-848, with assignors of the clients.

v0  flexible

The fields and their order are those of the KIP's draft. Kafka removed the clients' assignors before it released
ConsumerGroupHeartbeat (68), which is a separate API here.
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.client_assignor import ClientAssignor
from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, bytes_, field, int8, int16, int32, string

KEY = ExperimentalKey.CLIENT_ASSIGNOR_HEARTBEAT


class ClientAssignorHeartbeatRequest(Message, key=KEY, versions="0", flexible="0+"):
    """A field that did not change since the last heartbeat is null, or -1. `client_assignors` begins with the preferred
    one.

    `member_epoch`: 0 joins, -1 leaves, -2 leaves for a while, as a static member.
    """

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    subscribed_topic_names: list[str] | None = field(array(string), nullable="0+", default=None)
    subscribed_topic_regex: str | None = field(string, nullable="0+", default=None)
    server_assignor: str | None = field(string, nullable="0+", default=None)
    client_assignors: list[ClientAssignor] | None = field(array(ClientAssignor), nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = field(array(TopicPartitions), nullable="0+", default=None)


class Assignment(Struct):
    """`assigned` partitions can be used at once, `pending` ones after their former owners have revoked them. `error`
    and `metadata` are the assignor's.
    """

    error: int = field(int8)
    assigned: list[TopicPartitions] = field(array(TopicPartitions))
    pending: list[TopicPartitions] = field(array(TopicPartitions))
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)


class ClientAssignorHeartbeatResponse(Message, key=KEY, versions="0", flexible="0+"):
    """A null `assignment` did not change. `should_compute_assignment` asks the member to compute the group's
    assignment.
    """

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    should_compute_assignment: bool = field(boolean)
    heartbeat_interval_ms: int = field(int32)
    assignment: Assignment | None = field(Assignment, nullable="0+", default=None)


def error(
    request: ClientAssignorHeartbeatRequest, code: int, message: str | None = None
) -> ClientAssignorHeartbeatResponse:
    return ClientAssignorHeartbeatResponse(error_code=code, error_message=message)


API = Api(KEY, "ClientAssignorHeartbeat", ClientAssignorHeartbeatRequest, ClientAssignorHeartbeatResponse, error)
