"""ConsumerGroupDescribe (69): state, assignor and members of KIP-848 groups.

v0  the first; flexible
v1  whether a member still speaks the classic protocol (KIP-1099)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int8, int16, int32, string, uuid


class ConsumerGroupDescribeRequest(Message, key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


class TopicPartitions(Struct):
    topic_id: bytes = field(uuid)
    topic_name: str = field(string)
    partitions: list[int] = field(array(int32))


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


class Member(Struct):
    """`member_type`: -1 unknown, 0 classic, 1 consumer."""

    member_id: str = field(string)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    member_epoch: int = field(int32)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable="0+", default=None)
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    member_type: int = field(int8, versions="1+", default=-1, ignorable=True)


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


class ConsumerGroupDescribeResponse(Message, key=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(int32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))


def group_error(group_id: str, code: int) -> DescribedGroup:
    """Build the answer for one group with an error."""
    return DescribedGroup(error_code=code, group_id=group_id)


def error(request: ConsumerGroupDescribeRequest, code: int) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[group_error(each, code) for each in request.group_ids])


API = Api(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    "ConsumerGroupDescribe",
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    error,
)
