"""CreateAcls, DescribeAcls and DeleteAcls on an authorizer. Sources: Kafka's `AclApis`, `AclControlManager`."""

from __future__ import annotations

from typing import Any, Final

from kafka_shim.apis.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kafka_shim.apis.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kafka_shim.apis.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kafka_shim.apis.wire.errors import ErrorCode, fitting
from kafka_shim.security.authorizer import ALLOW, DENY, LITERAL, MAX_BYTES, PREFIXED, Acl, Authorizer
from kafka_shim.security.operations import CLUSTER_NAME, Operation, Resource

_ANY: Final = 1
_MATCH: Final = 2
_RESOURCES: Final = frozenset(Resource)
_OPERATIONS: Final = frozenset(Operation)
_PATTERNS: Final = frozenset({_ANY, _MATCH, LITERAL, PREFIXED})
_PERMISSIONS: Final = frozenset({_ANY, DENY, ALLOW})

MAX_LOOKS: Final = 50_000
"""The filters of a DeleteAcls look at so many ACLs together, and the last one at all: other clients wait for them."""
_BYTES_OF_LOOK: Final = 25
"""Bytes of an ACL in the answer that take as long as a look."""
_NO_ROOM: Final = f"All ACLs together would need more than {MAX_BYTES} bytes."
_TOO_MANY_LOOKS: Final = f"The filters before this one have looked at more than {MAX_LOOKS} ACLs."


def create_acls(request: CreateAclsRequest, authorizer: Authorizer) -> CreateAclsResponse:
    """Create the valid ACLs of a request; the others are INVALID_REQUEST (42), or POLICY_VIOLATION (44) without room.

    As in Kafka, an ACL with a code that only filters have fails the whole request, each ACL with UNKNOWN_SERVER_ERROR
    (-1).
    """
    if any(_is_a_filter(creation) for creation in request.creations):
        return CreateAclsResponse(
            results=[AclCreationResult(ErrorCode.UNKNOWN_SERVER_ERROR) for _ in request.creations]
        )
    refusals = [_refusal(creation) for creation in request.creations]
    acls = [
        Acl(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        for creation in request.creations
    ]
    without_room = authorizer.add(acl for acl, refusal in zip(acls, refusals, strict=True) if refusal is None)
    results = []
    for acl, refusal in zip(acls, refusals, strict=True):
        if refusal is not None:
            results.append(AclCreationResult(ErrorCode.INVALID_REQUEST, fitting(refusal)))
        elif acl in without_room:
            results.append(AclCreationResult(ErrorCode.POLICY_VIOLATION, _NO_ROOM))
        else:
            results.append(AclCreationResult(0, ""))
    return CreateAclsResponse(results=results)


def _is_a_filter(creation: AclCreation) -> bool:
    codes = (creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type)
    return _ANY in codes or creation.resource_pattern_type == _MATCH


def _refusal(creation: AclCreation) -> str | None:
    if creation.resource_type == Resource.CLUSTER and creation.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not creation.resource_name:
        return "Invalid empty resource name"
    if creation.resource_type not in _RESOURCES:
        return "Invalid resourceType UNKNOWN"
    if creation.resource_pattern_type not in _PATTERNS:
        return "Invalid patternType UNKNOWN"
    if creation.operation not in _OPERATIONS:
        return "Invalid operation UNKNOWN"
    if creation.permission_type not in _PERMISSIONS:
        return "Invalid permissionType UNKNOWN"
    if ":" not in creation.principal:
        return (
            "Could not parse principal from `"
            + creation.principal
            + "` (no colon is present separating the "
            + ("principal type from the principal name)")
        )
    return None


def describe_acls(request: DescribeAclsRequest, authorizer: Authorizer) -> DescribeAclsResponse:
    """Return the ACLs that match the filter, by resource."""
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    for acl in authorizer.all():
        if _matches(request, acl):
            described = AclDescription(acl.principal, acl.host, acl.operation, acl.permission_type)
            resources.setdefault(acl[:3], []).append(described)
    return DescribeAclsResponse(
        error_message="", resources=[DescribeAclsResource(*resource, acls) for resource, acls in resources.items()]
    )


def delete_acls(request: DeleteAclsRequest, authorizer: Authorizer) -> DeleteAclsResponse:
    """Delete the ACLs that match any of the filters; each filter lists those that it matches. A filter with an unknown
    code is INVALID_REQUEST (42), one after too many looks POLICY_VIOLATION (44)."""
    results, matching = [], set()
    every = authorizer.all()
    existing = dict.fromkeys(every)
    looks = 0
    for each in request.filters:
        if (refusal := _refusal_of_filter(each)) is not None:
            results.append(DeleteAclsFilterResult(ErrorCode.INVALID_REQUEST, refusal))
            continue
        if looks > MAX_LOOKS:
            results.append(DeleteAclsFilterResult(ErrorCode.POLICY_VIOLATION, _TOO_MANY_LOOKS))
            continue
        if (exact := _exact(each)) is not None:
            acls = [exact] if exact in existing else []
        else:
            acls = [acl for acl in every if _matches(each, acl)]
            looks += len(every)
        looks += sum(acl.size for acl in acls) // _BYTES_OF_LOOK
        matching.update(acls)
        results.append(DeleteAclsFilterResult(matching_acls=[DeleteAclsMatchingAcl(0, None, *acl) for acl in acls]))
    if matching:
        authorizer.remove(matching)
    return DeleteAclsResponse(filter_results=results)


def _exact(each: DeleteAclsFilter) -> Acl | None:
    """Return the one ACL that a filter can match; None if it can match several."""
    acl = Acl(
        each.resource_type_filter,
        each.resource_name_filter or "",
        each.pattern_type_filter,
        each.principal_filter or "",
        each.host_filter or "",
        each.operation,
        each.permission_type,
    )
    is_open = (
        _ANY in (acl.resource_type, acl.pattern_type, acl.operation, acl.permission_type)
        or acl.pattern_type == _MATCH
        or None in (each.resource_name_filter, each.principal_filter, each.host_filter)
    )
    return None if is_open else acl


def _refusal_of_filter(each: DeleteAclsFilter) -> str | None:
    if each.resource_type_filter not in _RESOURCES or each.pattern_type_filter not in _PATTERNS:
        return "Unknown patternFilter."
    if each.operation not in _OPERATIONS or each.permission_type not in _PERMISSIONS:
        return "Unknown entryFilter."
    return None


def _matches(request: Any, acl: Acl) -> bool:
    if request.resource_type_filter not in (_ANY, acl.resource_type):
        return False
    name, pattern = request.resource_name_filter, request.pattern_type_filter
    if pattern == _MATCH:
        if name is not None and not acl.covers(name):
            return False
    elif pattern not in (_ANY, acl.pattern_type) or name not in (None, acl.resource_name):
        return False
    return (
        request.principal_filter in (None, acl.principal)
        and request.host_filter in (None, acl.host)
        and request.operation in (_ANY, acl.operation)
        and request.permission_type in (_ANY, acl.permission_type)
    )
