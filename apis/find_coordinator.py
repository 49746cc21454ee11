"""FindCoordinator (10): the broker that coordinates a group, a transactional id or a share group.

v0  the first; groups only
v1  kind of key, throttle time, error message
v2  throttle time is taken after the answer is sent
v3  flexible
v4  many keys in one request, one answer per key (KIP-699)
v5  TRANSACTION_ABORTABLE (120) may be answered (KIP-890)
v6  share groups, with keys `group:topic id:partition` (KIP-932)
"""

import re
from typing import Final

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import ErrorCode, Message, Struct, array, field, int8, int16, int32, string

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2

_TOPIC_ID: Final = re.compile("[A-Za-z0-9_-]{22}")
_INT32: Final = re.compile(r"[+-]?\d{1,10}")


class FindCoordinatorRequest(Message, key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    """`key_type`: 0 group, 1 transactional id, 2 share group."""

    key: str = field(string, versions="0-3")
    key_type: int = field(int8, versions="1+")
    coordinator_keys: list[str] = field(array(string), versions="4+")


class Coordinator(Struct):
    key: str = field(string, versions="4+")
    node_id: int = field(int32, versions="4+")
    host: str = field(string, versions="4+")
    port: int = field(int32, versions="4+")
    error_code: int = field(int16, versions="4+")
    error_message: str | None = field(string, versions="4+", nullable="4+", ignorable=True)


class FindCoordinatorResponse(Message, key=ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16, versions="0-3")
    error_message: str | None = field(string, versions="1-3", nullable="1-3", ignorable=True)
    node_id: int = field(int32, versions="0-3")
    host: str = field(string, versions="0-3")
    port: int = field(int32, versions="0-3")
    coordinators: list[Coordinator] = field(array(Coordinator), versions="4+")


def normalise(request: FindCoordinatorRequest, version: int) -> FindCoordinatorRequest:
    """Before version 4, move the single key into the list. Changes `request` in place."""
    if version < 4:
        request.coordinator_keys = [request.key]
    return request


_MESSAGES: Final[dict[int, str]] = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.INVALID_REQUEST: (
        "This most likely occurs because of a request being malformed by the client library or the message was sent to "
        "an incompatible broker. See the broker logs for more details."
    ),
}
"""Kafka 4.2's messages by error code, NONE included; from version 4 on Kafka sends only the one of INVALID_REQUEST."""


def shape(response: FindCoordinatorResponse, version: int) -> FindCoordinatorResponse:
    """Before version 4, answer with the single coordinator, and give its error a message."""
    if version < 4 and response.coordinators:
        (coordinator,) = response.coordinators
        response.coordinators = []
        response.error_code = coordinator.error_code
        response.error_message = coordinator.error_message or _MESSAGES.get(coordinator.error_code, "")
        response.node_id = coordinator.node_id
        response.host = coordinator.host
        response.port = coordinator.port
    return response


def is_share_key(key: str) -> bool:
    """Return True for a key of the form `group:topic id:partition`; the group may contain colons too."""
    group, *rest = key.rstrip(":").rsplit(":", 2)
    if len(rest) != 2 or not group.strip():
        return False
    topic_id, partition = rest
    return bool(_TOPIC_ID.fullmatch(topic_id) and _INT32.fullmatch(partition) and abs(int(partition)) < 2**31)


def no_coordinator(key: str, code: int) -> Coordinator:
    """Build the answer for one key that has an error instead of a node."""
    message = _MESSAGES[code] if code == ErrorCode.INVALID_REQUEST else ""
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)


def error(request: FindCoordinatorRequest, code: int) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(coordinators=[no_coordinator(key, code) for key in request.coordinator_keys])


API = Api(
    ApiKey.FIND_COORDINATOR,
    "FindCoordinator",
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    error,
    normalise=normalise,
    shape=shape,
)
