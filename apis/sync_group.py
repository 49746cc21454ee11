"""SyncGroup (14): the leader of a generation hands in the assignments, and each member fetches its own.

v0  the first
v1  throttle time
v2  throttle time is taken after the answer is sent
v3  group instance id (KIP-345)
v4  flexible
v5  protocol type and name in both directions, and the request must have them (KIP-559)
"""

from kafka_shim.apis.api import Api, unshaped
from kafka_shim.apis.call import Call, Parked
from kafka_shim.apis.wire import ErrorCode, Message, Struct, array, bytes_, field, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = field(string)
    assignment: bytes = field(bytes_)


class SyncGroupRequest(Message, key=14, versions="0-5", flexible="4+"):
    """`assignments` is empty but from the leader."""

    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="3+", nullable="3+", default=None)
    protocol_type: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


class SyncGroupResponse(Message, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16)
    protocol_type: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = field(bytes_)


def error(request: SyncGroupRequest, code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def handle(request: SyncGroupRequest, call: Call) -> SyncGroupResponse | Parked:
    """From version 5 on a request without protocol type or name is refused before anything else: 23."""
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return error(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return call.groups.sync(request, call.token, call.now)


API = Api(14, "SyncGroup", SyncGroupRequest, SyncGroupResponse, handle, unshaped, error)
