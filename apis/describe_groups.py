"""DescribeGroups (15): state, protocol and members of classic groups.

v0  the first
v1  throttle time
v2  throttle time is taken after the answer is sent
v3  authorized operations (KIP-430)
v4  group instance id of each member (KIP-345)
v5  flexible
v6  GROUP_ID_NOT_FOUND (69) with a message for a missing group (KIP-1043)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import ErrorCode, Message, Struct, array, boolean, bytes_, field, int16, int32, string


class DescribeGroupsRequest(Message, key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    groups: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean, versions="3+")


class DescribedGroupMember(Struct):
    """`client_host` is in Java's spelling, `/127.0.0.1`."""

    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="4+", nullable="4+", default=None, ignorable=True)
    client_id: str = field(string)
    client_host: str = field(string)
    member_metadata: bytes = field(bytes_)
    member_assignment: bytes = field(bytes_)


class DescribedGroup(Struct):
    """`protocol_data` is the protocol name. `authorized_operations` has one bit per operation; the highest bit alone
    means that the client did not ask.
    """

    error_code: int = field(int16)
    error_message: str | None = field(string, versions="6+", nullable="6+", default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    protocol_type: str = field(string)
    protocol_data: str = field(string)
    members: list[DescribedGroupMember] = field(array(DescribedGroupMember))
    authorized_operations: int = field(int32, versions="3+", default=-(2**31))


class DescribeGroupsResponse(Message, key=ApiKey.DESCRIBE_GROUPS, versions="0-6", flexible="5+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    groups: list[DescribedGroup] = field(array(DescribedGroup))


def shape(response: DescribeGroupsResponse, version: int) -> DescribeGroupsResponse:
    """Before version 6, report a missing group as Dead without an error, and leave out error messages."""
    if version < 6:
        for group in response.groups:
            group.error_message = None
            if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
                group.error_code = ErrorCode.NONE
                group.group_state = "Dead"
    return response


def group_error(group_id: str, code: int) -> DescribedGroup:
    """Build the answer for one group with an error."""
    return DescribedGroup(error_code=code, group_id=group_id)


def error(request: DescribeGroupsRequest, code: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[group_error(each, code) for each in request.groups])


API = Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse, error, shape=shape)
