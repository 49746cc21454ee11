"""The topics that principals may describe, for patterns of consumer groups. Decides by the ACLs alone."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.security.authorizer import Authorizer
from kafka_shim.security.operations import Operation, Resource


class DescribedTopics:
    """The topics that the ACLs let a principal describe. Implements `TopicRights`."""

    def __init__(self, authorizer: Authorizer, *, of_members: bool) -> None:
        self._authorizer = authorizer
        self.of_members = of_members

    def described(self, principal: str, host: str, topics: Iterable[str]) -> frozenset[str]:
        """See `TopicRights.described`."""
        allows, address = self._authorizer.allows, host.removeprefix("/")
        return frozenset(
            topic for topic in topics if allows(principal, address, Operation.DESCRIBE, Resource.TOPIC, topic)
        )
