"""A user of a cell: a client of a listener with SASL, and the ACLs of its principal.

Each cell has users of its own, by unsecured tokens of OAUTHBEARER, so that cells run side by side.
"""

from __future__ import annotations

from typing import Any, Final, cast

from kafka_shim.apis.create_acls import AclCreation, CreateAclsRequest
from kafka_shim.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kafka_shim.apis.describe_acls import DescribeAclsRequest
from kafka_shim.apis.wire import Message
from kafka_shim.conformance import sasl
from kafka_shim.conformance.targets.secured import LOGIN
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.wire import Connection

OPERATIONS: Final = {
    "ALL": 2,
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
    "CREATE_TOKENS": 13,
    "DESCRIBE_TOKENS": 14,
    "TWO_PHASE_COMMIT": 15,
}
RESOURCES: Final = {"topic": 2, "group": 3, "cluster": 4, "transactional_id": 5, "delegation_token": 6, "user": 7}
CLUSTER: Final = "kafka-cluster"
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
DENY, ALLOW = 2, 3
_SECONDS: Final = 25.0
"""The limit for the first ACLs of a broker that has just started."""


class _View:
    def __init__(self, user: User) -> None:
        self._user = user

    def __getattr__(self, name: str) -> Any:
        return getattr(self._user.real_trial, name)

    def call(self, request: Message, version: int | None = None) -> Any:
        return self._user.call(request, version)

    def connect(self, *arguments: Any, **options: Any) -> Connection:
        return self._user.connect()


class User:
    """A user of a cell, with `principal`. Its connection is opened at its first request. `is_shared`: the name is not
    one of the cell alone."""

    def __init__(self, trial: Trial, name: str = "alice", *, is_shared: bool = False) -> None:
        self.name = name if is_shared else f"{name}-{trial.group}"
        self.principal = f"User:{self.name}"
        self.real_trial = trial
        self._wire: Connection | None = None

    @property
    def wire(self) -> Connection:
        """The connection of the user."""
        if self._wire is None:
            self._wire = self.connect()
        return self._wire

    def connect(self) -> Connection:
        """Open one more connection, and authenticate."""
        wire = self.real_trial.connect_securely(LOGIN, self.name)
        self.real_trial.expect(sasl.log_in(wire, "OAUTHBEARER", self.name, ""), error_code=0)
        return wire

    @property
    def trial(self) -> Trial:
        """The trial, with its requests and connections as those of the user."""
        return cast(Trial, _View(self))

    def call(self, request: Message, version: int | None = None) -> Any:
        """Send a request and wait for the answer."""
        return self.wire.call(request, self.real_trial.version_of(request) if version is None else version)

    def allow(self, *operations: str, **resource: Any) -> None:
        """Create ACLs that allow operations; see `acls`."""
        self._create(ALLOW, operations, resource)

    def deny(self, *operations: str, **resource: Any) -> None:
        """Create ACLs that deny operations; see `acls`."""
        self._create(DENY, operations, resource)

    def revoke(self) -> None:
        """Delete every ACL of the user."""
        every = DeleteAclsFilter(ANY, None, ANY, self.principal, None, ANY, ANY)
        self.real_trial.call(DeleteAclsRequest([every]))
        self.real_trial.until(self.acls, lambda acls: not acls, "the ACLs never went", _SECONDS)

    def acls(self) -> list[tuple[int, str, int, str, int, int]]:
        """Return the ACLs of the user: type, name and pattern of the resource, host, operation, permission."""
        answer = self.real_trial.call(DescribeAclsRequest(ANY, None, ANY, self.principal, None, ANY, ANY))
        return [
            (each.resource_type, each.resource_name, each.pattern_type, acl.host, acl.operation, acl.permission_type)
            for each in answer.resources
            for acl in each.acls
        ]

    def _create(self, permission: int, operations: tuple[str, ...], resource: dict[str, Any]) -> None:
        """`resource` has one key of `RESOURCES` with a name, else the cluster is meant; `prefixed` makes the name a
        prefix, `host` is an address."""
        pattern = PREFIXED if resource.pop("prefixed", False) else LITERAL
        host = resource.pop("host", "*")
        ((kind, name),) = resource.items() or [("cluster", CLUSTER)]
        created = [
            AclCreation(RESOURCES[kind], name, pattern, self.principal, host, OPERATIONS[operation], permission)
            for operation in operations
        ]
        for result in self.real_trial.call(CreateAclsRequest(created)).results:
            self.real_trial.expect(result, error_code=0)
        expected = {(RESOURCES[kind], name, pattern, host, OPERATIONS[each], permission) for each in operations}
        self.real_trial.until(self.acls, lambda acls: expected <= {*acls}, "the ACLs never showed", _SECONDS)
