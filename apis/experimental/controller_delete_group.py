"""ControllerDeleteGroup: deletes groups without members, with their offsets.

v0  the only one

Source: Client Rewrite (https://cwiki.apache.org/confluence/display/KAFKA/Client+Rewrite), before Kafka 0.9. Its
version, correlation id and client id are those of Kafka's header.
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.wire import Message, array, field, int16, string

KEY = ExperimentalKey.CONTROLLER_DELETE_GROUP


class ControllerDeleteGroupRequest(Message, key=KEY, versions="0"):
    groups: list[str] = field(array(string))


class ControllerDeleteGroupResponse(Message, key=KEY, versions="0"):
    """`error_code` is the first error, if any."""

    deleted: list[str] = field(array(string))
    error_code: int = field(int16)


def error(request: ControllerDeleteGroupRequest, code: int) -> ControllerDeleteGroupResponse:
    return ControllerDeleteGroupResponse(error_code=code)


API = Api(KEY, "ControllerDeleteGroup", ControllerDeleteGroupRequest, ControllerDeleteGroupResponse, error)
