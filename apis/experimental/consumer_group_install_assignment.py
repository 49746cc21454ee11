"""ConsumerGroupInstallAssignment: the member that has computed the assignment of its group hands it in.

v0  flexible

After KIP-848 while it was under discussion, whose text has the purpose of each field; that of the error is added.
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
    """`group_epoch` is the one that the assignment was computed for. With an `error`, which is the assignor's own,
    everybody keeps what they have."""

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
