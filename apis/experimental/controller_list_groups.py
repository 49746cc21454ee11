"""ControllerListGroups: the address of a group's controller, and the members of the group.

v0  the only one

Source: Client Rewrite (https://cwiki.apache.org/confluence/display/KAFKA/Client+Rewrite), before Kafka 0.9. Its
version, correlation id and client id are those of Kafka's header.
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ExperimentalKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string, uint16

KEY = ExperimentalKey.CONTROLLER_LIST_GROUPS


class ControllerListGroupsRequest(Message, key=KEY, versions="0"):
    """Without `groups`: all groups of this controller."""

    groups: list[str] = field(array(string))


class GroupInfo(Struct):
    """`members`, `topics` and `session_timeout` (milliseconds) are filled in only by the group's controller."""

    group: str = field(string)
    members: list[str] = field(array(string))
    topics: list[str] = field(array(string))
    broker_id: int = field(int32)
    host: str = field(string)
    port: int = field(uint16)
    session_timeout: int = field(int64)


class ControllerListGroupsResponse(Message, key=KEY, versions="0"):
    groups: list[GroupInfo] = field(array(GroupInfo))
    error_code: int = field(int16)


def error(request: ControllerListGroupsRequest, code: int) -> ControllerListGroupsResponse:
    return ControllerListGroupsResponse(error_code=code)


API = Api(KEY, "ControllerListGroups", ControllerListGroupsRequest, ControllerListGroupsResponse, error)
