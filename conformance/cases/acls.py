"""Cases about access rules on a broker without an authorizer: DescribeAcls, CreateAcls, DeleteAcls."""

from __future__ import annotations

from functools import partial

from kafka_shim.apis.create_acls import AclCreation, CreateAclsRequest
from kafka_shim.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_shim.apis.describe_acls import DescribeAclsRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level

TOPIC, LITERAL, READ, ALLOW = 2, 3, 3, 3
ANY = 1

acl_case = partial(case, source="semantics 6.3", level=Level.SHOULD)


@acl_case("acls/describe/1", "Without an authorizer: SECURITY_DISABLED (54), and no rules", api="DescribeAcls")
def describe(t: Trial) -> None:
    answer = t.call(DescribeAclsRequest(ANY, None, LITERAL, None, None, ANY, ANY))
    t.expect(answer, error_code=E.SECURITY_DISABLED, resources=[])
    t.equal(answer.error_message, "No Authorizer is configured on the broker", "the message")


@acl_case("acls/create/1", "Without an authorizer each rule is SECURITY_DISABLED (54)", api="CreateAcls")
def create(t: Trial) -> None:
    rules = [AclCreation(TOPIC, f"{t.group}-{n}", LITERAL, "User:alice", "*", READ, ALLOW) for n in range(2)]
    results = t.call(CreateAclsRequest(rules)).results
    t.equal(
        [(each.error_code, each.error_message) for each in results],
        [(E.SECURITY_DISABLED, "No Authorizer is configured.")] * 2,
        "results",
    )


@acl_case(
    "acls/delete/1",
    "Without an authorizer each filter is SECURITY_DISABLED (54), and matches no rule",
    api="DeleteAcls",
)
def delete(t: Trial) -> None:
    filters = [DeleteAclsFilter(TOPIC, f"{t.group}-{n}", LITERAL, None, None, ANY, ANY) for n in range(2)]
    results = t.call(DeleteAclsRequest(filters)).filter_results
    t.equal(
        [(each.error_code, each.error_message, each.matching_acls) for each in results],
        [(E.SECURITY_DISABLED, "No Authorizer is configured.", [])] * 2,
        "results",
    )
