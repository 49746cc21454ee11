"""ListGroups (16): the groups that one broker coordinates.

v0  the first
v1  throttle time
v2  throttle time is taken after the answer is sent
v3  flexible
v4  states, and a filter by state (KIP-518)
v5  types, and a filter by type (KIP-848)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string


class ListGroupsRequest(Message, key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    """An empty filter matches all groups."""

    states_filter: list[str] = field(array(string), versions="4+")
    types_filter: list[str] = field(array(string), versions="5+")


class ListedGroup(Struct):
    group_id: str = field(string)
    protocol_type: str = field(string)
    group_state: str = field(string, versions="4+", ignorable=True)
    group_type: str = field(string, versions="5+", ignorable=True)


class ListGroupsResponse(Message, key=ApiKey.LIST_GROUPS, versions="0-5", flexible="3+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    error_code: int = field(int16)
    groups: list[ListedGroup] = field(array(ListedGroup))


def error(request: ListGroupsRequest, code: int) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code)


API = Api(ApiKey.LIST_GROUPS, "ListGroups", ListGroupsRequest, ListGroupsResponse, error)
