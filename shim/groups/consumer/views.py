"""Topics of patterns that a member may see, on a server with ACLs: those that its principal may describe.

Decides nothing: `TopicRights` does. A resolved pattern has one list of topics for the whole group, as Kafka's record
has. In Kafka these are the topics of one principal, of the member that sent the last due heartbeat; the others get them
too, or lose their own. `Views` give each member its part of the list instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafka_shim.groups.interface import Client, TopicRights


class Reader(NamedTuple):
    """A principal at an address."""

    principal: str
    host: str


def reader_of(client: Client) -> Reader:
    """Return the principal of a client, with its address."""
    return Reader(client.principal, client.client_host)


class Views:
    """The view of each member of a group.

    `readers` are the members that have sent a heartbeat since the group was loaded; another member keeps the topics of
    its assignment, until it sends one.
    """

    __slots__ = ("_rights", "_topics", "readers")

    def __init__(self, rights: TopicRights) -> None:
        self._rights = rights
        self._topics: dict[tuple[Reader, str], frozenset[str]] = {}
        self.readers: dict[str, Reader] = {}

    def knows(self, member_id: str, reader: Reader, pattern: str) -> bool:
        """Return True if the sender of the member's heartbeats is this one, and its topics of the pattern are known."""
        return self.readers.get(member_id) == reader and (reader, pattern) in self._topics

    def note(self, member_id: str, reader: Reader, pattern: str, resolved: frozenset[str]) -> bool:
        """Note the sender of a member's heartbeats. Return True if the sender has the pattern for the first time."""
        self.readers[member_id] = reader
        if (reader, pattern) in self._topics:
            return False
        self._topics[reader, pattern] = self._rights.described(*reader, resolved)
        return True

    def of(self, member_id: str, pattern: str | None) -> frozenset[str] | None:
        """Return the topics of a pattern for a member; None if it has sent no heartbeat."""
        reader = self.readers.get(member_id)
        return None if reader is None or pattern is None else self._topics.get((reader, pattern), frozenset())

    def resolve(self, pattern: str, subscribers: Iterable[str], matched: frozenset[str]) -> tuple[frozenset[str], bool]:
        """Give each subscriber of a pattern its part of the topics that match. Return all of these parts, and True if
        one differs from the part before."""
        readers = {self.readers[member_id] for member_id in subscribers if member_id in self.readers}
        before = {key[0]: self._topics.pop(key) for key in [key for key in self._topics if key[1] == pattern]}
        for reader in readers:
            self._topics[reader, pattern] = self._rights.described(*reader, matched)
        seen = frozenset[str]().union(*(self._topics[reader, pattern] for reader in readers))
        return seen, any(before.get(reader) != self._topics[reader, pattern] for reader in readers)
