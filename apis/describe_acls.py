"""DescribeAcls (29): the access rules that match a filter (KIP-140).

v0  the first
v1  the pattern type of a resource (KIP-290); throttle time is taken after the answer is sent
v2  flexible
v3  users as resources (KIP-373)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, string


class DescribeAclsRequest(Message, key=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    """A null name, principal or host matches all."""

    resource_type_filter: int = field(int8)
    resource_name_filter: str | None = field(string, nullable="0+")
    pattern_type_filter: int = field(int8, versions="1+", default=3)
    principal_filter: str | None = field(string, nullable="0+")
    host_filter: str | None = field(string, nullable="0+")
    operation: int = field(int8)
    permission_type: int = field(int8)


class AclDescription(Struct):
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


class DescribeAclsResource(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    pattern_type: int = field(int8, versions="1+", default=3)
    acls: list[AclDescription] = field(array(AclDescription))


class DescribeAclsResponse(Message, key=ApiKey.DESCRIBE_ACLS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    resources: list[DescribeAclsResource] = field(array(DescribeAclsResource))


def error(request: DescribeAclsRequest, code: int) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code)


API = Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse, error)
