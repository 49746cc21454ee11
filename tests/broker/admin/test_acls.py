"""Access rules on a broker without an authorizer."""

from kafka_shim.apis.create_acls import AclCreation, AclCreationResult, CreateAclsRequest
from kafka_shim.apis.delete_acls import DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsRequest
from kafka_shim.apis.describe_acls import DescribeAclsResponse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.admin.acls import create_acls, delete_acls, describe_acls

DISABLED = ErrorCode.SECURITY_DISABLED


def test_description_has_an_error_and_no_rules() -> None:
    assert describe_acls() == DescribeAclsResponse(0, DISABLED, "No Authorizer is configured on the broker", [])


def test_each_created_rule_has_an_error() -> None:
    request = CreateAclsRequest([AclCreation(2, name, 3, "User:alice", "*", 3, 3) for name in ("a", "b")])
    assert create_acls(request).results == [AclCreationResult(DISABLED, "No Authorizer is configured.")] * 2
    assert create_acls(CreateAclsRequest([])).results == []


def test_each_filter_has_an_error_and_no_matches() -> None:
    request = DeleteAclsRequest([DeleteAclsFilter(2, None, 1, None, None, 1, 1)] * 3)
    refusal = DeleteAclsFilterResult(DISABLED, "No Authorizer is configured.", [])
    assert delete_acls(request).filter_results == [refusal] * 3
