"""ShareGroupDescribe (77): state, assignor and members of share groups (KIP-932).

v1  the first; flexible; version 0 was early access in Kafka 4.0, and no later release has it
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int16, int32, string, uuid


class ShareGroupDescribeRequest(Message, key=ApiKey.SHARE_GROUP_DESCRIBE, versions="1", flexible="0+"):
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


class TopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


class Member(Struct):
    member_id: str = field(string)
    rack_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    assignment: Assignment = field(Assignment)


class DescribedGroup(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    assignor_name: str = field(string)
    members: list[Member] = field(array(Member))
    authorized_operations: int = field(int32, default=-(2**31))


class ShareGroupDescribeResponse(Message, key=ApiKey.SHARE_GROUP_DESCRIBE, versions="1", flexible="0+"):
    throttle_time_ms: int = field(int32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))


def group_error(group_id: str, code: int) -> DescribedGroup:
    """Build the answer for one group with an error."""
    return DescribedGroup(error_code=code, group_id=group_id)


def error(request: ShareGroupDescribeRequest, code: int) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(groups=[group_error(each, code) for each in request.group_ids])


API = Api(
    ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", ShareGroupDescribeRequest, ShareGroupDescribeResponse, error
)
