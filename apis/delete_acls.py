"""DeleteAcls (31): deletes the access rules that match filters (KIP-140).

v0  the first
v1  the pattern type of a resource (KIP-290); throttle time is taken after the answer is sent
v2  flexible
v3  users as resources (KIP-373)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, string


class DeleteAclsFilter(Struct):
    """A null name, principal or host matches all."""

    resource_type_filter: int = field(int8)
    resource_name_filter: str | None = field(string, nullable="0+")
    pattern_type_filter: int = field(int8, versions="1+", default=3)
    principal_filter: str | None = field(string, nullable="0+")
    host_filter: str | None = field(string, nullable="0+")
    operation: int = field(int8)
    permission_type: int = field(int8)


class DeleteAclsRequest(Message, key=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    filters: list[DeleteAclsFilter] = field(array(DeleteAclsFilter))


class DeleteAclsMatchingAcl(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    resource_type: int = field(int8)
    resource_name: str = field(string)
    pattern_type: int = field(int8, versions="1+", default=3)
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


class DeleteAclsFilterResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = field(array(DeleteAclsMatchingAcl))


class DeleteAclsResponse(Message, key=ApiKey.DELETE_ACLS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(int32)
    filter_results: list[DeleteAclsFilterResult] = field(array(DeleteAclsFilterResult))


def error(request: DeleteAclsRequest, code: int) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(code) for _ in request.filters])


API = Api(ApiKey.DELETE_ACLS, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse, error)
