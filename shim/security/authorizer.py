"""ACLs, and the decisions that follow from them, as Kafka's StandardAuthorizer takes them.

A denial stands over an allowance. A principal of `super.users` may do everything. An allowance to read, write, delete
or alter a resource includes DESCRIBE, and one to alter configurations includes DESCRIBE_CONFIGS; a denial includes
nothing else. Without any ACL for a resource, `allow.everyone.if.no.acl.found` decides.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from kafka_shim.security.operations import CLUSTER_NAME, Operation, Resource

LITERAL: Final = 3
PREFIXED: Final = 4
DENY: Final = 2
ALLOW: Final = 3
ANY_NAME: Final = "*"
EVERYBODY: Final = "User:*"
ANY_HOST: Final = "*"

_ALL: Final = int(Operation.ALL)
_INCLUDED: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
_NONE: Final[frozenset[Operation]] = frozenset()


class Acl(NamedTuple):
    """One rule: a principal on a host may, or may not, do an operation on resources."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def covers(self, name: str) -> bool:
        """Return True if the pattern matches a resource of this name."""
        if self.pattern_type == PREFIXED:
            return name.startswith(self.resource_name)
        return self.resource_name in (name, ANY_NAME)


def acl_of(permission: int, user: str, operation: str, resource: Mapping[str, str]) -> Acl:
    """Build an ACL from names: the key of `resource` is a type, such as `topic`, and its value the name; `prefix` makes
    it a prefix. Raises ValueError, in one sentence."""
    if operation.upper() not in Operation.__members__:
        raise ValueError(f"operation must be one of {', '.join(Operation.__members__)}, not {operation!r}.")
    rest = dict(resource)
    pattern = PREFIXED if rest.pop("prefix", "").lower() == "true" else LITERAL
    types = {
        "topic": Resource.TOPIC,
        "group": Resource.GROUP,
        "transactional_id": Resource.TRANSACTIONAL_ID,
        "delegation_token": Resource.DELEGATION_TOKEN,
        "user": Resource.USER,
    }
    if len(rest) > 1 or not rest.keys() <= types.keys():
        raise ValueError(f"A resource is one of {', '.join(types)}, or the cluster without any, not {sorted(rest)}.")
    ((kind, name),) = [(types[key], value) for key, value in rest.items()] or [(Resource.CLUSTER, CLUSTER_NAME)]
    principal = user if ":" in user else f"User:{user}"
    return Acl(kind, name, pattern, principal, ANY_HOST, Operation[operation.upper()], permission)


class Acls(Protocol):
    """The place of the ACLs: each change puts another tuple there. `tell` announces a change."""

    acls: tuple[tuple[Any, ...], ...]

    def tell(self) -> None: ...


class Authorizer:
    """The decisions on the ACLs in `place`."""

    def __init__(self, place: Acls, super_users: Iterable[str] = (), *, allows_without_acl: bool = False) -> None:
        self.place = place
        self.super_users = frozenset(super_users)
        self.allows_without_acl = allows_without_acl
        self._loaded: tuple[tuple[Any, ...], ...] = ()
        self._by_type: dict[int, list[Acl]] = {}

    def at(self, place: Acls) -> Authorizer:
        """Return the same authorizer on the ACLs in another place."""
        return Authorizer(place, self.super_users, allows_without_acl=self.allows_without_acl)

    def all(self) -> list[Acl]:
        """Return every ACL, in the order of creation."""
        return [Acl(*each) for each in self.place.acls]

    def add(self, acls: Iterable[Acl]) -> None:
        """Add ACLs; one that exists stays."""
        self._change(dict.fromkeys([*self.all(), *acls]))

    def remove(self, acls: Container[Acl]) -> None:
        """Remove ACLs."""
        self._change(acl for acl in self.all() if acl not in acls)

    def _change(self, acls: Iterable[Acl]) -> None:
        self.place.acls = tuple(acls)
        self.place.tell()

    def _of_type(self, resource_type: int) -> list[Acl]:
        if self.place.acls is not self._loaded:
            self._loaded = self.place.acls
            self._by_type = {}
            for acl in self.all():
                self._by_type.setdefault(acl.resource_type, []).append(acl)
        return self._by_type.get(resource_type, [])

    def allows(self, principal: str, host: str, operation: Operation, resource_type: Resource, name: str) -> bool:
        """Return True if a principal on a host, an address without a slash, may do the operation."""
        if principal in self.super_users:
            return True
        candidates = [acl for acl in self._of_type(resource_type) if acl.covers(name)]
        if not candidates:
            return self.allows_without_acl
        is_allowed = False
        including = _INCLUDED.get(operation, _NONE)
        for _, _, _, whose, where, what, permission in candidates:
            if whose not in (principal, EVERYBODY) or where not in (host, ANY_HOST):
                continue
            if permission == DENY:
                if what in (_ALL, operation):
                    return False
            elif what in (_ALL, operation) or what in including:
                is_allowed = True
        return is_allowed

    def allows_on_any_topic(self, principal: str, host: str, operation: Operation) -> bool:
        """Return True if a principal may do the operation on some topic, as Kafka's `authorizeByResourceType` says."""
        if principal in self.super_users:
            return True
        mine = [
            acl
            for acl in self._of_type(Resource.TOPIC)
            if acl.principal in (principal, EVERYBODY)
            and acl.host in (host, ANY_HOST)
            and acl.operation in (_ALL, operation)
        ]
        denials = [acl for acl in mine if acl.permission_type == DENY]
        if any(acl.pattern_type == LITERAL and acl.resource_name == ANY_NAME for acl in denials):
            return False
        if self.allows_without_acl:
            return True
        return any(acl.permission_type == ALLOW and not _is_lost(acl, denials) for acl in mine)


def _is_lost(allowance: Acl, denials: list[Acl]) -> bool:
    name = allowance.resource_name
    for denial in denials:
        if denial.pattern_type == PREFIXED and name.startswith(denial.resource_name) and name != ANY_NAME:
            return True
        if denial.pattern_type == allowance.pattern_type == LITERAL and denial.resource_name == name:
            return True
    return False
