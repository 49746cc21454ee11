"""Group instance ids that a consumer asked for in vain (UNRELEASED_INSTANCE_ID), since another member held them.

The answer does not tell whether the holder runs, or died without leaving, so that its session has to end first. A later
request of the holder does, and the end of its session. All times are seconds of Unix time.

Source: KIP-848; semantics 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_shim.trace.clients import Library

MOST: Final = 1_000
"""Largest number of holders of a group that are kept."""


@dataclass(slots=True)
class Unreleased:
    """`count` requests to join with the group instance id of `holder`, a member id, from `first` to `last`.

    `partitions` is the number of its partitions. `seen` is the time of its newest request after `first`, None without
    one. `heir` is the member that had the instance id at `accepted`; both are empty until then.
    """

    instance_id: str
    holder: str
    partitions: int
    library: Library
    first: float
    last: float
    first_seq: int
    last_seq: int
    count: int = 0
    clients: dict[str, None] = field(default_factory=dict)
    """The client ids of the refused requests."""
    has_asked_itself: bool = False
    """True if the holder was refused its own instance id: it asked for it again as a new member."""
    seen: float | None = None
    accepted: float | None = None
    heir: str = ""

    @property
    def seconds(self) -> float:
        """Its duration so far, from the first refused request."""
        return (self.last if self.accepted is None else self.accepted) - self.first


class Holders:
    """The holders of group instance ids that others asked for in vain, by member id."""

    def __init__(self) -> None:
        self.of: dict[str, Unreleased] = {}
        self._open: dict[str, Unreleased] = {}
        """By group instance id, the newest one, until another member has the instance id."""

    def refuse(self, event: Mapping[str, Any], at: float, holder: str, library: Library, partitions: int) -> None:
        """Handle a refused request to join; `holder` is empty if the trace does not show it."""
        instance_id, seq = event["request"].get("instance_id") or "", event.get("seq", 0)
        each = self.of.get(holder or instance_id)
        if each is None:
            if len(self.of) >= MOST:
                return
            each = Unreleased(instance_id, holder, partitions, library, at, at, seq, seq)
            self.of[holder or instance_id] = each
        self._open[instance_id] = each
        # Not all listeners hear of every repetition.
        each.count = max(each.count + 1, event.get("nth", 0))
        each.last, each.last_seq = at, seq
        each.clients[str(event["client_id"] or "")] = None
        each.has_asked_itself = each.has_asked_itself or event["member"] == holder

    def accept(self, member_id: str, instance_id: str | None, at: float) -> None:
        """Handle a member that has come with a group instance id, or with none."""
        each = None if instance_id is None else self._open.pop(instance_id, None)
        if each is not None:
            each.accepted, each.heir = at, member_id

    def hear(self, member_id: str, at: float) -> None:
        """Handle a request of a member that is no request to join."""
        each = self.of.get(member_id)
        if each is not None and each.accepted is None:
            each.seen = at
