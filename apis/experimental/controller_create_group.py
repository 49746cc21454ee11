"""ControllerCreateGroup: creates a group with its topics, before its first member.

v0  the only one

Source: Client Rewrite (https://cwiki.apache.org/confluence/display/KAFKA/Client+Rewrite), before Kafka 0.9. Its
version, correlation id and client id are those of Kafka's header.
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.wire import Message, array, boolean, field, int16, int64, string

KEY = ExperimentalKey.CONTROLLER_CREATE_GROUP


class ControllerCreateGroupRequest(Message, key=KEY, versions="0"):
    """A member silent for more than `session_timeout` milliseconds is removed. An `ephemeral` group is deleted with its
    last member; the flag is in the proposal's table but missing from its layout.
    """

    group_id: str = field(string)
    session_timeout: int = field(int64)
    topics: list[str] = field(array(string))
    ephemeral: bool = field(boolean)


class ControllerCreateGroupResponse(Message, key=KEY, versions="0"):
    group_id: str = field(string)
    error_code: int = field(int16)


def error(request: ControllerCreateGroupRequest, code: int) -> ControllerCreateGroupResponse:
    return ControllerCreateGroupResponse(request.group_id, code)


API = Api(KEY, "ControllerCreateGroup", ControllerCreateGroupRequest, ControllerCreateGroupResponse, error)
