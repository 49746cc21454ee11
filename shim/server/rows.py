"""Row of the table of requests: the rule of an API, its resources, and the operations on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from kafka_shim.apis.wire import Message
from kafka_shim.groups.interface import NoReply, Parked
from kafka_shim.security.operations import Operation, Resource
from kafka_shim.server.division import Divided

Names = Callable[[Any], Iterable[str | bytes]]
"""The resources of one type in a request: names, or a topic's id where the request has no name."""


class Concern(NamedTuple):
    """Resources of a request, and the operation on them. The cluster has no name."""

    resource: Resource
    operation: Operation
    names: Names


class Sender(NamedTuple):
    """The member that sends a request, as the request says. `generation` is its member epoch where it has one."""

    member_id: str = ""
    instance_id: str | None = None
    generation: int | None = None


NOBODY: Final = Sender()


Rule = Callable[[Any, Any], Message | Parked | NoReply]
"""A rule with the flags of the version: a request and its `Exchange` give the answer."""


class Row(NamedTuple):
    """One API. `divided` splits long requests into parts. `sender` returns the member that sends a request.
    From version `names_topics_since` on its topics come by id, and decoding adds their names. Where the feature is off,
    the answer is UNSUPPORTED_VERSION (35)."""

    rule: Rule
    concerns: tuple[Concern, ...] = ()
    sender: Callable[[Any], Sender] = lambda r: NOBODY
    names_topics_since: int = 1 << 15
    divided: Divided | None = None
    feature: str | None = None

    def groups_of(self, request: Message) -> list[str]:
        """Return the groups of a request."""
        return self._names(request, Resource.GROUP)

    def transactional_ids_of(self, request: Message) -> list[str]:
        """Return the transactional ids of a request."""
        return self._names(request, Resource.TRANSACTIONAL_ID)

    def _names(self, request: Message, resource: Resource) -> list[str]:
        return [
            str(name) for concern in self.concerns if concern.resource is resource for name in concern.names(request)
        ]
