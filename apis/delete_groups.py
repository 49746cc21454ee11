"""DeleteGroups (42): deletes empty groups with all their offsets.

v0  the first
v1  throttle time is taken after the answer is sent
v2  flexible
v3  error messages (KIP-1331)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string


class DeleteGroupsRequest(Message, key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    groups_names: list[str] = field(array(string))


class DeletableGroupResult(Struct):
    group_id: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, versions="3+", nullable="3+", default=None, ignorable=True)


class DeleteGroupsResponse(Message, key=ApiKey.DELETE_GROUPS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(int32)
    results: list[DeletableGroupResult] = field(array(DeletableGroupResult))


def error(request: DeleteGroupsRequest, code: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[DeletableGroupResult(each, code) for each in request.groups_names])


API = Api(ApiKey.DELETE_GROUPS, "DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse, error)
