"""Heartbeat (12): keeps a member of a classic group alive, and tells it of a rebalance.

v0  the first
v1  throttle time
v2  throttle time is taken after the answer is sent
v3  group instance id (KIP-345)
v4  flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, field, int16, int32, string


class HeartbeatRequest(Message, key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    group_id: str = field(string)
    generation_id: int = field(int32)
    member_id: str = field(string)
    group_instance_id: str | None = field(string, versions="3+", nullable="3+", default=None)


class HeartbeatResponse(Message, key=ApiKey.HEARTBEAT, versions="0-4", flexible="4+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16)


def error(request: HeartbeatRequest, code: int) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


API = Api(ApiKey.HEARTBEAT, "Heartbeat", HeartbeatRequest, HeartbeatResponse, error)
