"""ACLs, and the decisions that follow from them, as Kafka's StandardAuthorizer takes them.

A denial stands over an allowance. A principal of `super.users` may do everything. An allowance to read, write, delete
or alter a resource includes DESCRIBE, and one to alter configurations includes DESCRIBE_CONFIGS; a denial includes
nothing else. Without any ACL for a resource, `allow.everyone.if.no.acl.found` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from kafka_shim.security.operations import CLUSTER_NAME, Operation, Resource

LITERAL: Final = 3
PREFIXED: Final = 4
DENY: Final = 2
ALLOW: Final = 3
ANY_NAME: Final = "*"
EVERYBODY: Final = "User:*"
ANY_HOST: Final = "*"

MAX_BYTES: Final = 1 << 20
"""The limit for all ACLs together, at `BYTES_OF_ACL` each and the length of its texts."""
BYTES_OF_ACL: Final = 100

_DENIED: Final = 32
"""The distance in a bit field from the bit of an operation that is allowed to its bit if it is denied."""
_INCLUDED: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_ALLOWING: Final = {
    operation: sum(1 << each for each in {Operation.ALL, operation, *_INCLUDED.get(operation, ())})
    for operation in Operation
}
_NAMING: Final = {operation: 1 << Operation.ALL | 1 << operation for operation in Operation}
"""The bits of the operation itself, by operation."""


class Acl(NamedTuple):
    """One rule: a principal on a host may, or may not, do an operation on resources."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @property
    def size(self) -> int:
        """The bytes that count for the limit of all ACLs."""
        return BYTES_OF_ACL + len(self.resource_name) + len(self.principal) + len(self.host)

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


class _Rules:
    """The ACLs of some principals on resources of one type, by name: a bit field for each pattern."""

    __slots__ = ("_lengths", "literals", "prefixes")

    def __init__(self) -> None:
        self.literals: dict[str, int] = {}
        self.prefixes: dict[str, int] = {}
        self._lengths: list[int] | None = None
        """The lengths of the prefixes, shortest first; None after a new prefix."""

    def add(self, acl: Acl) -> None:
        bit = 1 << acl.operation + (_DENIED if acl.permission_type == DENY else 0)
        patterns = self.prefixes if acl.pattern_type == PREFIXED else self.literals
        patterns[acl.resource_name] = patterns.get(acl.resource_name, 0) | bit
        self._lengths = None

    def of_prefixes(self, name: str) -> int:
        """Return the bits of all prefixes that this name begins with."""
        if self._lengths is None:
            self._lengths = sorted({len(prefix) for prefix in self.prefixes})
        bits = 0
        for length in self._lengths:
            if length > len(name):
                break
            bits |= self.prefixes.get(name[:length], 0)
        return bits

    def of(self, name: str) -> int:
        """Return the bits of all patterns that match a resource of this name."""
        literals = self.literals
        return literals.get(name, 0) | literals.get(ANY_NAME, 0) | self.of_prefixes(name)


_NOBODY: Final = _Rules()


class Authorizer:
    """The decisions on the ACLs in `place`."""

    def __init__(self, place: Acls, super_users: Iterable[str] = (), *, allows_without_acl: bool = False) -> None:
        self.place = place
        self.super_users = frozenset(super_users)
        self.allows_without_acl = allows_without_acl
        self._loaded: tuple[tuple[Any, ...], ...] = ()
        self._rules: dict[tuple[int, str, str], _Rules] = {}
        """By type of resource, principal and host; by empty texts those of all."""

    def at(self, place: Acls) -> Authorizer:
        """Return the same authorizer on the ACLs in another place."""
        return Authorizer(place, self.super_users, allows_without_acl=self.allows_without_acl)

    def all(self) -> list[Acl]:
        """Return every ACL, in the order of creation."""
        return [Acl(*each) for each in self.place.acls]

    def add(self, acls: Iterable[Acl]) -> set[Acl]:
        """Add ACLs; one that exists stays. Return those without room."""
        after = dict.fromkeys(self.all())
        size = sum(acl.size for acl in after)
        refused = set()
        for acl in acls:
            if acl in after:
                continue
            if size + acl.size > MAX_BYTES:
                refused.add(acl)
            else:
                size += acl.size
                after[acl] = None
        self._change(after)
        return refused

    def remove(self, acls: Container[Acl]) -> None:
        """Remove ACLs."""
        self._change([acl for acl in self.all() if acl not in acls])

    def _change(self, acls: Collection[Acl]) -> None:
        if len(acls) != len(self.place.acls):
            self.place.acls = tuple(acls)
            self.place.tell()

    def _of(self, resource_type: int, principal: str, host: str) -> list[_Rules]:
        """Return the rules for this principal on this host."""
        rules = self._rules
        if self.place.acls is not self._loaded:
            rules.clear()
            for acl in self.all():
                for owner in ((acl.principal, acl.host), ("", "")):
                    rules.setdefault((acl.resource_type, *owner), _Rules()).add(acl)
            self._loaded = self.place.acls
        get = rules.get
        candidates = (
            get((resource_type, principal, host)),
            get((resource_type, principal, ANY_HOST)),
            get((resource_type, EVERYBODY, host)),
            get((resource_type, EVERYBODY, ANY_HOST)),
        )
        return [each for each in candidates if each is not None]

    def allows(self, principal: str, host: str, operation: Operation, resource_type: Resource, name: str) -> bool:
        """Return True if a principal on a host, an address without a slash, may do the operation. The cost does not
        depend on the ACLs of others, or on those of other names."""
        if principal in self.super_users:
            return True
        bits = 0
        for rules in self._of(resource_type, principal, host):
            bits |= rules.of(name)
        if bits >> _DENIED & _NAMING[operation]:
            return False
        if bits & _ALLOWING[operation]:
            return True
        return self.allows_without_acl and not self._rules.get((resource_type, "", ""), _NOBODY).of(name)

    def allows_on_any_topic(self, principal: str, host: str, operation: Operation) -> bool:
        """Return True if a principal may do the operation on some topic, as Kafka's `authorizeByResourceType` says."""
        if principal in self.super_users:
            return True
        mine = self._of(Resource.TOPIC, principal, host)
        naming = _NAMING[operation]
        denying = naming << _DENIED
        if any(rules.literals.get(ANY_NAME, 0) & denying for rules in mine):
            return False
        if self.allows_without_acl:
            return True

        def is_lost(name: str) -> bool:
            return name != ANY_NAME and any(rules.of_prefixes(name) & denying for rules in mine)

        return any(
            bits & naming and not is_lost(name) for rules in mine for name, bits in rules.prefixes.items()
        ) or any(
            bits & naming and not is_lost(name) and not any(each.literals.get(name, 0) & denying for each in mine)
            for rules in mine
            for name, bits in rules.literals.items()
        )
