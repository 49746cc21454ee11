"""LeaveGroup (13): members leave a classic group, or an admin client removes them.

v0  the first; one member
v1  throttle time
v2  throttle time is taken after the answer is sent
v3  many members, each by id or by group instance id, each with its own error (KIP-345)
v4  flexible
v5  reason for leaving (KIP-800)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string


class MemberIdentity(Struct):
    """A leaving member. An empty `member_id` with a `group_instance_id` means the static member of any member id."""

    member_id: str = field(string, versions="3+")
    group_instance_id: str | None = field(string, versions="3+", nullable="3+", default=None)
    reason: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)


class LeaveGroupRequest(Message, key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    group_id: str = field(string)
    member_id: str = field(string, versions="0-2")
    members: list[MemberIdentity] = field(array(MemberIdentity), versions="3+")


class MemberResponse(Struct):
    member_id: str = field(string, versions="3+")
    group_instance_id: str | None = field(string, versions="3+", nullable="3+")
    error_code: int = field(int16, versions="3+")


class LeaveGroupResponse(Message, key=ApiKey.LEAVE_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16)
    members: list[MemberResponse] = field(array(MemberResponse), versions="3+")


def normalise(request: LeaveGroupRequest, version: int) -> LeaveGroupRequest:
    """Before version 3, move the single member into the list. Changes `request` in place."""
    if version < 3:
        request.members = [MemberIdentity(request.member_id)]
    return request


def shape(response: LeaveGroupResponse, version: int) -> LeaveGroupResponse:
    """Before version 3, answer with the error of the single member, unless the answer has an error of its own."""
    if version < 3:
        if response.error_code == 0 and response.members:
            response.error_code = response.members[0].error_code
        response.members = []
    return response


def error(request: LeaveGroupRequest, code: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)


API = Api(
    ApiKey.LEAVE_GROUP, "LeaveGroup", LeaveGroupRequest, LeaveGroupResponse, error, normalise=normalise, shape=shape
)
