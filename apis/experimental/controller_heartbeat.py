"""ControllerHeartbeat: keeps a consumer alive; the answer tells whether it must register again.

v0  the only one

Source: Client Rewrite (https://cwiki.apache.org/confluence/display/KAFKA/Client+Rewrite), before Kafka 0.9. Its
version, correlation id and client id are those of Kafka's header.
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.wire import Message, field, int16, int64, string

KEY = ExperimentalKey.CONTROLLER_HEARTBEAT


class ControllerHeartbeatRequest(Message, key=KEY, versions="0"):
    """The proposal's layout has only `session_timeout`, in milliseconds; its text sends the generation too."""

    group_id: str = field(string)
    consumer_id: str = field(string)
    generation_id: int = field(int64)
    session_timeout: int = field(int64)


class ControllerHeartbeatResponse(Message, key=KEY, versions="0"):
    controller_generation: int = field(int64)
    error_code: int = field(int16)


def error(request: ControllerHeartbeatRequest, code: int) -> ControllerHeartbeatResponse:
    return ControllerHeartbeatResponse(-1, code)


API = Api(KEY, "ControllerHeartbeat", ControllerHeartbeatRequest, ControllerHeartbeatResponse, error)
