"""ConsumerGroupPrepareAssignment: a member fetches the input for the assignment of its group.

v0  flexible

Source: the draft of KIP-848, which explains the fields; `error_message` is ours.
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.client_assignor import ClientAssignor
from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string, uuid

KEY = ExperimentalKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT


class ConsumerGroupPrepareAssignmentRequest(Message, key=KEY, versions="0", flexible="0+"):
    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)


class PreparedMember(Struct):
    """`assignor` is the member's entry for the assignor in use, `target` its present target assignment."""

    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    subscribed_topic_ids: list[bytes] = field(array(uuid))
    assignor: ClientAssignor = field(ClientAssignor)
    target: list[TopicPartitions] = field(array(TopicPartitions))


class PreparedTopic(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: int = field(int32)


class ConsumerGroupPrepareAssignmentResponse(Message, key=KEY, versions="0", flexible="0+"):
    """`group_epoch` is the epoch of the assignment to compute."""

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    group_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[PreparedMember] = field(array(PreparedMember))
    topics: list[PreparedTopic] = field(array(PreparedTopic))


def error(request: ConsumerGroupPrepareAssignmentRequest, code: int) -> ConsumerGroupPrepareAssignmentResponse:
    return ConsumerGroupPrepareAssignmentResponse(error_code=code)


API = Api(
    KEY,
    "ConsumerGroupPrepareAssignment",
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    error,
)
