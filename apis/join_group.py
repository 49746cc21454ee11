"""JoinGroup (11): a member asks to be in the next generation of a classic group.

v0  the first; the session timeout is the rebalance timeout too
v1  rebalance timeout
v2  throttle time
v3  throttle time is taken after the answer is sent
v4  a member without an id is answered MEMBER_ID_REQUIRED (79) with one (KIP-394)
v5  group instance id (KIP-345)
v6  flexible
v7  protocol type in the answer; the protocol name may be null (KIP-559)
v8  reason for joining (KIP-800)
v9  the answer may ask the leader to skip the assignment (KIP-814)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, bytes_, field, int16, int32, string


class JoinGroupRequestProtocol(Struct):
    """A protocol that the member supports, in order of preference: for consumers, an assignor and the subscription."""

    name: str = field(string)
    metadata: bytes = field(bytes_)


class JoinGroupRequest(Message, key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """`member_id` is empty until the coordinator has assigned one. Timeouts are milliseconds."""

    group_id: str = field(string)
    session_timeout_ms: int = field(int32)
    rebalance_timeout_ms: int = field(int32, versions="1+", default=-1, ignorable=True)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="5+", nullable="5+", default=None)
    protocol_type: str = field(string)
    protocols: list[JoinGroupRequestProtocol] = field(array(JoinGroupRequestProtocol))
    reason: str | None = field(string, versions="8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    metadata: bytes = field(bytes_)


class JoinGroupResponse(Message, key=ApiKey.JOIN_GROUP, versions="0-9", flexible="6+"):
    """`members` is filled in for the leader alone; a `generation_id` of -1 comes with an error."""

    throttle_time_ms: int = field(int32, versions="2+", ignorable=True)
    error_code: int = field(int16)
    generation_id: int = field(int32, default=-1)
    protocol_type: str | None = field(string, versions="7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = field(string, nullable="7+")
    leader: str = field(string)
    skip_assignment: bool = field(boolean, versions="9+")
    member_id: str = field(string)
    members: list[JoinGroupResponseMember] = field(array(JoinGroupResponseMember))


def normalise(request: JoinGroupRequest, version: int) -> JoinGroupRequest:
    """In version 0, use the session timeout as rebalance timeout. Changes `request` in place."""
    if version == 0:
        request.rebalance_timeout_ms = request.session_timeout_ms
    return request


def shape(response: JoinGroupResponse, version: int) -> JoinGroupResponse:
    """Write a missing protocol name as null from version 7 on, as an empty string before."""
    if version >= 7:
        response.protocol_name = response.protocol_name or None
    elif response.protocol_name is None:
        response.protocol_name = ""
    return response


def error(request: JoinGroupRequest, code: int) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=request.member_id, protocol_name=None)


API = Api(ApiKey.JOIN_GROUP, "JoinGroup", JoinGroupRequest, JoinGroupResponse, error, normalise=normalise, shape=shape)
