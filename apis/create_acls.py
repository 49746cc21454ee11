"""CreateAcls (30): adds access rules (KIP-140).

v0  the first
v1  the pattern type of a resource (KIP-290); throttle time is taken after the answer is sent
v2  flexible
v3  users as resources (KIP-373)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int8, int16, int32, string


class AclCreation(Struct):
    resource_type: int = field(int8)
    resource_name: str = field(string)
    resource_pattern_type: int = field(int8, versions="1+", default=3)
    principal: str = field(string)
    host: str = field(string)
    operation: int = field(int8)
    permission_type: int = field(int8)


class CreateAclsRequest(Message, key=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    creations: list[AclCreation] = field(array(AclCreation))


class AclCreationResult(Struct):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class CreateAclsResponse(Message, key=ApiKey.CREATE_ACLS, versions="0-3", flexible="2+"):
    throttle_time_ms: int = field(int32)
    results: list[AclCreationResult] = field(array(AclCreationResult))


def error(request: CreateAclsRequest, code: int) -> CreateAclsResponse:
    return CreateAclsResponse(results=[AclCreationResult(code) for _ in request.creations])


API = Api(ApiKey.CREATE_ACLS, "CreateAcls", CreateAclsRequest, CreateAclsResponse, error)
