"""DescribeAcls, CreateAcls and DeleteAcls on a broker without an authorizer: SECURITY_DISABLED (54).

Source: `AclApis` of Kafka 4.2, also for the messages. Create and Delete are answered by the controller, Describe by
the broker, hence two messages.
"""

from __future__ import annotations

from kafka_shim.apis.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafka_shim.apis.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from kafka_shim.apis.describe_acls import DescribeAclsResponse
from kafka_shim.apis.wire.errors import ErrorCode


def describe_acls() -> DescribeAclsResponse:
    """Refuse the request as a whole."""
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


def create_acls(request: CreateAclsRequest) -> CreateAclsResponse:
    """Refuse each rule in the request."""
    refusal = AclCreationResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return CreateAclsResponse(results=[refusal] * len(request.creations))


def delete_acls(request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Refuse each filter in the request; none matches a rule."""
    refusal = DeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))
