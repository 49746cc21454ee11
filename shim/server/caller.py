"""Clients as permissions see them: that of one request, and those that a pattern of a consumer group shows topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafka_shim.apis.wire import Message
from kafka_shim.security.authorizer import Authorizer
from kafka_shim.security.operations import Operation, Resource
from kafka_shim.server.exchange import Exchange


class Caller:
    """The client of one request, with the decisions of the authorizer. `denied` is true after a refusal."""

    __slots__ = ("_host", "_principal", "_topics", "authorizer", "denied")

    def __init__(self, authorizer: Authorizer, exchange: Exchange) -> None:
        self.authorizer = authorizer
        self.denied = False
        self._principal = exchange.client.principal
        self._host = exchange.client.client_host.removeprefix("/")
        self._topics = exchange.broker.topics

    def may(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Return True if the client may do this."""
        return self.authorizer.allows(self._principal, self._host, operation, resource, name)

    def may_on_any_topic(self, operation: Operation) -> bool:
        """Return True if the client may do this on some topic."""
        return self.authorizer.allows_on_any_topic(self._principal, self._host, operation)

    def bits(self, bits: int, resource: Resource, name: str) -> int:
        """Return those of the operations in a bit field that the client may do."""
        return sum(
            1 << operation for operation in Operation if bits >> operation & 1 and self.may(operation, resource, name)
        )

    def refusal(self, request: Any, exchange: Exchange, code: int) -> Message:
        """Return the answer that says this error in each place where the API has errors."""
        self.denied = True
        response: Message = exchange.endpoint.api.error(request, code)
        return response

    def topic(self, element: Any) -> str | None:
        """Return the name of a topic in a request, which may have only its id; None for an unknown id."""
        name = getattr(element, "name", None) or getattr(element, "topic", None)
        if name:
            return str(name)
        topic_id = getattr(element, "topic_id", b"")
        if not any(topic_id):
            # An empty name, where names count.
            return None if name is None and topic_id else ""
        return self._topics.topic_name(topic_id) or None

    def exists(self, topic: str) -> bool:
        """Return True if there is a topic of this name."""
        return self._topics.named(topic) is not None

    @property
    def creates_topics(self) -> bool:
        """Return True if the server creates topics that clients ask for."""
        return self._topics.settings.flag("auto.create.topics.enable")

    def amend(self, exchange: Exchange, change: Callable[[Any], Any]) -> None:
        """Change the answer of the rule, before the changes that were asked for earlier."""
        later = exchange.amend
        exchange.amend = change if later is None else lambda response: later(change(response))


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
