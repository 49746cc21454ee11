"""Cases about CreateAcls, DescribeAcls and DeleteAcls on a broker with an authorizer."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kafka_shim.apis.create_acls import AclCreation, CreateAclsRequest
from kafka_shim.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_shim.apis.describe_acls import DescribeAclsRequest
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.conformance.case import case
from kafka_shim.conformance.targets.secured import SECURITY
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.user import ALLOW, ANY, CLUSTER, DENY, LITERAL, MATCH, OPERATIONS, PREFIXED, RESOURCES, User

TOPIC, GROUP, OF_CLUSTER = RESOURCES["topic"], RESOURCES["group"], RESOURCES["cluster"]
READ, WRITE = OPERATIONS["READ"], OPERATIONS["WRITE"]
DENIED = E.CLUSTER_AUTHORIZATION_FAILED

admin_case = partial(case, source="semantics 6.6", profile=SECURITY)
PATTERNS: Final = (1, 3)
"""The versions with types of patterns."""


def creation(alice: User, **changes: Any) -> AclCreation:
    """Return an ACL that lets the user read a group of its own name."""
    fields: dict[str, Any] = {
        "resource_type": GROUP,
        "resource_name": alice.name,
        "resource_pattern_type": LITERAL,
        "principal": alice.principal,
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(**fields | changes)


@admin_case(
    "acls/create/2",
    "An ACL that cannot be is 42 with a message, the others are created",
    api="CreateAcls",
    versions=PATTERNS,
)
def create(t: Trial) -> None:
    alice = User(t)
    impossible: dict[str, dict[str, Any]] = {
        f"The only valid name for the CLUSTER resource is {CLUSTER}": {"resource_type": OF_CLUSTER},
        "Invalid empty resource name": {"resource_name": "", "resource_type": 99},
        "Invalid resourceType UNKNOWN": {"resource_type": 99},
        "Invalid patternType UNKNOWN": {"resource_pattern_type": 99},
        "Invalid operation UNKNOWN": {"operation": 99, "principal": "alice"},
        "Invalid permissionType UNKNOWN": {"permission_type": 99},
        "Could not parse principal from `alice` (no colon is present separating the principal type from the principal "
        "name)": {"principal": "alice"},
    }
    creations = [creation(alice), *(creation(alice, **each) for each in impossible.values())]
    results = t.call(CreateAclsRequest([*creations, creation(alice, operation=WRITE)])).results
    expected = [(0, ""), *((E.INVALID_REQUEST, text) for text in impossible), (0, "")]
    t.equal([(each.error_code, each.error_message) for each in results], expected, "errors and messages")
    acls = [(GROUP, alice.name, LITERAL, "*", operation, ALLOW) for operation in (READ, WRITE)]
    t.until(lambda: sorted(alice.acls()), lambda now: now == acls, "the valid ACLs never showed")


@admin_case(
    "acls/create/5",
    "An ACL with a code for filters, ANY or MATCH, fails them all: -1",
    api="CreateAcls",
    versions=PATTERNS,
)
def create_a_filter(t: Trial) -> None:
    alice = User(t)
    codes = ("resource_type", "resource_pattern_type", "operation", "permission_type")
    for change in ({name: ANY} for name in codes):
        results = t.call(CreateAclsRequest([creation(alice), creation(alice, **change)])).results
        t.equal([each.error_code for each in results], [E.UNKNOWN_SERVER_ERROR] * 2, f"errors with {change}")
    t.equal(alice.acls(), [], "the ACLs")


@admin_case("acls/create/3", "An ACL that exists already is no error, and is there once", api="CreateAcls")
def create_twice(t: Trial) -> None:
    alice = User(t)
    alice.allow("READ", group=alice.name)
    results = t.call(CreateAclsRequest([creation(alice), creation(alice), creation(alice, operation=WRITE)])).results
    t.equal([each.error_code for each in results], [0, 0, 0], "errors")
    expected = [(GROUP, alice.name, LITERAL, "*", operation, ALLOW) for operation in (READ, WRITE)]
    t.until(lambda: sorted(alice.acls()), lambda acls: acls == expected, "the ACLs never showed once each")


@admin_case("acls/create/4", "CreateAcls needs ALTER on the cluster, else each ACL is 31", api="CreateAcls")
def create_denied(t: Trial) -> None:
    alice = User(t)
    alice.allow("DESCRIBE")
    results = alice.call(CreateAclsRequest([creation(alice), creation(alice, operation=WRITE)])).results
    t.equal([each.error_code for each in results], [DENIED, DENIED], "errors")
    alice.allow("ALTER")
    results = alice.call(CreateAclsRequest([creation(alice)])).results
    t.equal([each.error_code for each in results], [0], "the error with ALTER")


def prepared(t: Trial) -> User:
    """Return a user with ACLs for the literal names `group` and `*`, and for two prefixes."""
    alice = User(t)
    alice.allow("READ", group=t.group)
    alice.allow("READ", group="*")
    alice.allow("READ", group=t.group[:-1], prefixed=True)
    alice.deny("WRITE", group=f"{t.group}-longer", prefixed=True)
    return alice


def described(t: Trial, alice: User, **changes: Any) -> list[tuple[str, int]]:
    """Return name and pattern of the user's resources that a filter has."""
    fields: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": alice.principal,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    answer = t.expect(t.call(DescribeAclsRequest(**fields | changes)), error_code=0)
    return sorted((each.resource_name, each.pattern_type) for each in answer.resources)


@admin_case(
    "acls/describe/2",
    "A filter by name: ANY has equal names, MATCH all that cover the name",
    api="DescribeAcls",
    versions=PATTERNS,
)
def describe(t: Trial) -> None:
    alice = prepared(t)
    own, star, shorter = (t.group, LITERAL), ("*", LITERAL), (t.group[:-1], PREFIXED)
    longer = (f"{t.group}-longer", PREFIXED)
    by_name = {"resource_name_filter": t.group}
    t.equal(described(t, alice), sorted([own, star, shorter, longer]), "all")
    t.equal(described(t, alice, **by_name), [own], "ANY")
    t.equal(described(t, alice, **by_name, pattern_type_filter=MATCH), sorted([own, star, shorter]), "MATCH")
    t.equal(described(t, alice, **by_name, pattern_type_filter=PREFIXED), [], "PREFIXED with the name")
    t.equal(described(t, alice, pattern_type_filter=PREFIXED), sorted([shorter, longer]), "PREFIXED without a name")


@admin_case(
    "acls/describe/3",
    "Filters by type, operation, permission, principal and host are exact",
    api="DescribeAcls",
    versions=PATTERNS,
)
def describe_exactly(t: Trial) -> None:
    alice = prepared(t)
    longer = [(f"{t.group}-longer", PREFIXED)]
    t.equal(described(t, alice, operation=WRITE), longer, "of the operation")
    t.equal(described(t, alice, permission_type=DENY), longer, "of the permission")
    t.equal(described(t, alice, resource_type_filter=TOPIC), [], "of topics")
    t.equal(described(t, alice, host_filter="127.0.0.1"), [], "of a host")
    t.equal(described(t, alice, principal_filter=f"{alice.principal}x"), [], "of another principal")


@admin_case(
    "acls/describe/4",
    "DescribeAcls needs DESCRIBE on the cluster, else the answer is 31",
    api="DescribeAcls",
    versions=PATTERNS,
)
def describe_denied(t: Trial) -> None:
    alice = User(t)
    request = DescribeAclsRequest(ANY, None, ANY, alice.principal, None, ANY, ANY)
    t.expect(alice.call(request), error_code=DENIED, resources=[])
    alice.allow("ALTER")
    t.equal(len(t.expect(alice.call(request), error_code=0).resources), 1, "resources with ALTER, which includes it")


def filter_of(alice: User, **changes: Any) -> DeleteAclsFilter:
    fields: dict[str, Any] = {"pattern_type_filter": ANY, "principal_filter": alice.principal}
    fields |= {"resource_type_filter": ANY, "resource_name_filter": None, "host_filter": None}
    return DeleteAclsFilter(**fields | {"operation": ANY, "permission_type": ANY} | changes)


@admin_case(
    "acls/delete/2",
    "DeleteAcls lists the ACLs that each filter has deleted; a filter may have none",
    api="DeleteAcls",
    versions=PATTERNS,
)
def delete(t: Trial) -> None:
    alice = prepared(t)
    filters = [
        filter_of(alice, resource_name_filter=t.group, pattern_type_filter=MATCH),
        filter_of(alice, resource_name_filter="nothing"),
    ]
    results = t.call(DeleteAclsRequest(filters)).filter_results
    t.equal([(each.error_code, len(each.matching_acls)) for each in results], [(0, 3), (0, 0)], "errors and numbers")
    t.equal({each.error_code for each in results[0].matching_acls}, {0}, "errors of the ACLs")
    rest = [(GROUP, f"{t.group}-longer", PREFIXED, "*", WRITE, DENY)]
    t.until(alice.acls, lambda acls: acls == rest, "the ACLs were never deleted")


@admin_case(
    "acls/delete/3",
    "DeleteAcls needs ALTER on the cluster, else each filter is 31",
    api="DeleteAcls",
    versions=PATTERNS,
)
def delete_denied(t: Trial) -> None:
    alice = User(t)
    alice.allow("READ", group=t.group)
    results = alice.call(DeleteAclsRequest([filter_of(alice), filter_of(alice)])).filter_results
    t.equal([(each.error_code, each.matching_acls) for each in results], [(DENIED, [])] * 2, "results")
    t.equal(len(alice.acls()), 1, "ACLs that remain")


@admin_case(
    "acls/delete/4",
    "A filter of DeleteAcls with an unknown code is 42 with a message",
    api="DeleteAcls",
    versions=PATTERNS,
)
def delete_unknown(t: Trial) -> None:
    alice = User(t)
    filters = [
        filter_of(alice, resource_type_filter=99),
        filter_of(alice, pattern_type_filter=99),
        filter_of(alice, operation=99),
        filter_of(alice, permission_type=99),
        filter_of(alice),
    ]
    results = t.call(DeleteAclsRequest(filters)).filter_results
    pattern, entry = (E.INVALID_REQUEST, "Unknown patternFilter."), (E.INVALID_REQUEST, "Unknown entryFilter.")
    expected = [pattern, pattern, entry, entry, (0, None)]
    t.equal([(each.error_code, each.error_message) for each in results], expected, "errors and messages")
