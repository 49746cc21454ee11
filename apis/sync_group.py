"""SyncGroup (14): the leader of a generation sends the assignments, and each member receives its own.

v0  the first
v1  throttle time
v2  throttle time is taken after the answer is sent
v3  group instance id (KIP-345)
v4  flexible
v5  protocol type and name in both directions, and the request must have them (KIP-559)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, bytes_, field, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = field(string)
    assignment: bytes = field(bytes_)


class SyncGroupRequest(Message, key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    """Only the leader sends `assignments`."""

    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="3+", nullable="3+", default=None)
    protocol_type: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(array(SyncGroupRequestAssignment))


class SyncGroupResponse(Message, key=ApiKey.SYNC_GROUP, versions="0-5", flexible="4+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16)
    protocol_type: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = field(bytes_)


def error(request: SyncGroupRequest, code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


API = Api(ApiKey.SYNC_GROUP, "SyncGroup", SyncGroupRequest, SyncGroupResponse, error)
