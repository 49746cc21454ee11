"""FindCoordinator (10): which broker coordinates a group, a transactional id or a share group.

v0  the first; groups only
v1  kind of key, throttle time, error message
v2  throttle time is taken after the answer is sent
v3  flexible
v4  many keys in one request, one answer per key (KIP-699)
v5  TRANSACTION_ABORTABLE (120) may be answered (KIP-890)
v6  share groups, with keys `group:topic id:partition` (KIP-932)
"""

from apis.wire import Message, Struct, array, field, int8, int16, int32, string


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
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


class FindCoordinatorResponse(Message, key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16, versions="0-3")
    error_message: str | None = field(string, versions="1-3", nullable="1-3", ignorable=True)
    node_id: int = field(int32, versions="0-3")
    host: str = field(string, versions="0-3")
    port: int = field(int32, versions="0-3")
    coordinators: list[Coordinator] = field(array(Coordinator), versions="4+")
