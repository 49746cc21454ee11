"""ConsumerGroupInstallAssignment: a member sends the assignment that it computed for its group.

v0  flexible

Source: the draft of KIP-848, which explains the fields; `error_message` is ours.
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.wire import Message, Struct, array, bytes_, field, int8, int16, int32, string

KEY = ExperimentalKey.CONSUMER_GROUP_INSTALL_ASSIGNMENT


class InstalledMember(Struct):
    member_id: str = field(string)
    partitions: list[TopicPartitions] = field(array(TopicPartitions))
    metadata_version: int = field(int16)
    metadata: bytes = field(bytes_)


class ConsumerGroupInstallAssignmentRequest(Message, key=KEY, versions="0", flexible="0+"):
    """`group_epoch` is the epoch the assignment was computed for. An `error`, the assignor's own, leaves every member's
    assignment unchanged.
    """

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    group_epoch: int = field(int32)
    error: int = field(int8)
    members: list[InstalledMember] = field(array(InstalledMember))


class ConsumerGroupInstallAssignmentResponse(Message, key=KEY, versions="0", flexible="0+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


def error(request: ConsumerGroupInstallAssignmentRequest, code: int) -> ConsumerGroupInstallAssignmentResponse:
    return ConsumerGroupInstallAssignmentResponse(error_code=code)


API = Api(
    KEY,
    "ConsumerGroupInstallAssignment",
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    error,
)
