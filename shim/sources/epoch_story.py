"""`GroupStory`: the story of one group of any protocol: it adds the epochs of KIP-848 to `ClassicStory`.

`Bumped group epoch` begins a rebalance and has no reason: the line before it, of the same request, has it. No line of
level INFO has its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kafka_shim.sources.classic_story import ClassicStory, Event
from kafka_shim.sources.reasons import bare, refined
from kafka_shim.sources.signs import Sign, SignName
from kafka_shim.trace.causes import Cause

NOBODY: Final = "0"
"""The hash of the topics of a group without members."""
_SAME_REQUEST_MS: Final = 2_000
"""The lines of one request come within this time, on a busy machine too."""
_REFRESHED_MS: Final = 60_000
"""A coordinator sees a new partition within this time."""
_CAUSES: Final[Mapping[SignName, Cause]] = {
    SignName.JOINED: Cause.NEW_MEMBER,
    SignName.STATIC_JOINED: Cause.NEW_MEMBER,
    SignName.STATIC_REPLACED: Cause.STATIC_REPLACED,
    SignName.LEFT: Cause.MEMBER_LEFT,
    SignName.EXPIRED: Cause.SESSION_EXPIRED,
    SignName.NOT_REVOKED: Cause.REBALANCE_TIMEOUT,
    SignName.NOT_REJOINED: Cause.REBALANCE_TIMEOUT,
    SignName.NOT_SYNCED: Cause.PENDING_SYNC_EXPIRED,
    SignName.SUBSCRIBED: Cause.SUBSCRIPTION_CHANGED,
    SignName.TOPICS_CHANGED: Cause.TOPIC_METADATA_CHANGED,
    SignName.REGEX_SCANNED: Cause.TOPIC_METADATA_CHANGED,
    SignName.CONVERTED: Cause.PROTOCOL_CHANGED,
}


_CONSEQUENCES: Final = frozenset({SignName.SUBSCRIBED, SignName.TOPICS_CHANGED, SignName.REGEX_SCANNED})
"""Lines that follow from a member that joins, or that changes its subscription."""


class GroupStory(ClassicStory):
    """Turns the signs of one group into events."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self._cause_line: Sign | None = None
        self._hash: str | None = None
        self._kind = "consumer"

    def take(self, sign: Sign) -> Iterator[Event]:
        """Yield the events of the next sign of the group."""
        self._kind = sign.fields.get("kind", self._kind)
        yield from super().take(sign)
        if sign.name in _CAUSES and not (sign.name in _CONSEQUENCES and self._is_recent(sign)):
            self._cause_line = sign

    def _is_recent(self, sign: Sign) -> bool:
        line = self._cause_line
        return line is not None and (sign.time or 0) - (line.time or 0) <= max(_SAME_REQUEST_MS, sign.line.resolution)

    def _epoch(self, sign: Sign) -> Iterator[Event]:
        cause, trigger = self._cause_of_epoch(sign)
        self.generation = int(sign.fields["generation"])
        self._hash = sign.fields.get("hash")
        self._cause_line = None
        yield self.event("epoch", sign, generation=self.generation, cause=cause, trigger=trigger)
        if self._hash == NOBODY and not self.members:
            yield self._state("Empty", sign)
        elif self._kind != "consumer":
            before, self.state = self.state, "Assigning"
            yield self.event(
                "state",
                sign,
                **{"from": before},
                to="Assigning",
                generation=self.generation,
                cause=cause,
                trigger=trigger,
                rule=self._kind,
            )

    def _cause_of_epoch(self, sign: Sign) -> tuple[str, str]:
        line = self._cause_line
        if line is not None and self._is_recent(sign):
            cause = refined(_CAUSES[line.name], bare(line.fields.get("reason", "")))
            return cause, line.fields.get("new", line.member)
        if self._hash is None or sign.fields.get("hash") in (None, self._hash):
            return "", ""
        created = self.topic_created
        is_near = created is not None and (sign.time or 0) - created <= _REFRESHED_MS
        return (Cause.TOPIC_METADATA_CHANGED if is_near else Cause.SUBSCRIPTION_CHANGED), ""

    def _target(self, sign: Sign) -> Iterator[Event]:
        assignor = sign.fields["assignor"]
        yield self.event("target", sign, generation=int(sign.fields["generation"]), assignor=assignor, assignments={})

    def _not_revoked(self, sign: Sign) -> Iterator[Event]:
        yield from self._goes(sign.member, "removed", sign)

    def _departure(self, sign: Sign) -> Iterator[Event]:
        # A static member that leaves for a while keeps its place until its session ends.
        if "away" not in sign.fields:
            yield from super()._departure(sign)
