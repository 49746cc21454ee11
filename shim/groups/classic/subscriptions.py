"""Topics that the members of a classic group subscribe to, decoded once from the metadata of their protocols.

A member's metadata is decoded in its own JoinGroup, so that the end of a round, for which all members wait, decodes
nothing. Equal metadata is decoded once, and equal sets of topics are kept once.

Source: semantics 3.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from kafka_shim.apis.consumer_protocol import ConsumerProtocolSubscription
from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.primitives import MAX_ELEMENTS
from kafka_shim.groups.classic.member import Member, Protocols

Topics: TypeAlias = frozenset[str]

CONSUMER: Final = "consumer"
MAX_NAMES: Final = 300_000
"""Names that a group keeps; a subscription beyond counts as unreadable. A record of 1 MiB has no room for so many."""
NO_TOPICS: Final[Topics] = frozenset()
_SHORTEST_NAME: Final = 2
_ENTRY_BYTES: Final = 64
_SPARE_BYTES: Final = 1024
_decode: Final = ConsumerProtocolSubscription.decoder(0)


class Subscriptions:
    """Subscriptions of a group's members, by metadata."""

    __slots__ = ("_distinct", "_members", "_most", "_names", "_read", "_size")

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = members
        self._read: dict[bytes, Topics | None] = {}
        """Topics by metadata, some of which no member offers any more; None: unreadable."""
        self._distinct: dict[Topics, Topics] = {}
        self._names = 0
        """Number of names in `_distinct`."""
        self._size = 0
        """Bytes of all metadata in `_read`."""
        self._most = _SPARE_BYTES
        """Size beyond which metadata that no member offers is forgotten."""

    def read(self, protocols: Protocols) -> None:
        """Decode a member's metadata unless it was. All together may have `MAX_ELEMENTS` names; more are
        unreadable."""
        remaining = MAX_ELEMENTS
        for _, metadata in protocols:
            if metadata in self._read:
                continue
            self._read[metadata] = None
            self._size += len(metadata) + _ENTRY_BYTES
            try:
                # Every version of a subscription begins like version 0.
                names = _decode(metadata, 2, remaining)[0].topics
            except DecodeError:
                remaining = max(remaining - len(metadata) // _SHORTEST_NAME, 0)
                continue
            remaining -= len(names)
            topics = frozenset(names)
            if topics not in self._distinct:
                self._names += len(topics)
            self._read[metadata] = self._distinct.setdefault(topics, topics)
        if self._size > self._most or self._names > MAX_NAMES:
            self._forget()

    def topics(self, metadata: bytes) -> Topics | None:
        """Return the topics in a member's metadata; None if they cannot be read."""
        self.read((("", metadata),))
        return self._read.get(metadata)

    def union(self, protocol_type: str | None, protocol: str | None) -> Topics | None:
        """Return all topics in the members' metadata for the selected protocol; None if some cannot be read. Metadata
        of other types than "consumer" has none."""
        if not self._members and self._read:
            self._forget()
        if protocol_type != CONSUMER or protocol is None:
            return NO_TOPICS
        offered = {member.metadata_for(protocol) for member in self._members.values()}
        distinct = {self._read[each] if each in self._read else self.topics(each) for each in offered}
        if None in distinct:
            return None
        return distinct.pop() if len(distinct) == 1 else NO_TOPICS.union(*filter(None, distinct))

    def _forget(self) -> None:
        """Forget metadata that no member offers, and topics beyond `MAX_NAMES`."""
        read, self._read, self._distinct = self._read, {}, {}
        self._names = self._size = 0
        for metadata in [each for member in self._members.values() for _, each in member.protocols if each in read]:
            topics = read[metadata]
            if topics is not None and topics not in self._distinct:
                if self._names + len(topics) > MAX_NAMES:
                    topics = None
                else:
                    self._distinct[topics] = topics
                    self._names += len(topics)
            if metadata not in self._read:
                self._size += len(metadata) + _ENTRY_BYTES
            self._read[metadata] = topics
        self._most = 2 * self._size + _SPARE_BYTES


def newest(protocols: Protocols) -> bytes:
    """Return the metadata of the newest version, b"" without any; all protocols of a consumer have the same topics."""
    return max((metadata for _, metadata in protocols), key=lambda metadata: metadata[:2], default=b"")
