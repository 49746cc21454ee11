"""`Story`: the signs of brokers as events of the trace (`docs/trace.md`), `inferred`, with the places of their lines.

`classic_story.py` has rebalances of the classic protocol, `epoch_story.py` those of KIP-848.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kafka_shim.sources.epoch_story import GroupStory
from kafka_shim.sources.signs import Sign, SignName
from kafka_shim.trace.events import SCHEMA_VERSION

Event = dict[str, Any]

_HELD_MS: Final = 100
"""A line that belongs to the one before it comes within this time."""
_LISTS: Final = ", "


class Story:
    """Turns signs into events, in order of time; of one group if it is given."""

    def __init__(self, group: str | None = None) -> None:
        self._group = group
        self._stories: dict[str, GroupStory] = {}
        self._of_member: dict[str, str] = {}
        self._held: set[str] = set()
        self._topic_created: int | None = None
        self._seq = 0

    def events(self, signs: Iterable[Sign]) -> Iterator[Event]:
        """Yield the events of signs, numbered from 1 on."""
        for sign in signs:
            if self._seq == 0:
                at = (sign.time or 0) / 1000
                yield self._numbered(head(at, sign.where))
            for event in self._take(sign):
                yield self._numbered(event)
        for name in list(self._held):
            for event in self._stories[name].flush():
                yield self._numbered(event)

    def _numbered(self, event: Event) -> Event:
        self._seq += 1
        return {"event": event["event"], "seq": self._seq, **event}

    def _take(self, sign: Sign) -> Iterator[Event]:
        for name in list(self._held):
            if self._stories[name].held_until(_HELD_MS) < (sign.time or 0):
                yield from self._stories[name].flush()
                self._held.discard(name)
        if sign.name is SignName.TOPIC_CREATED:
            self._topic_created = sign.time
            return
        if sign.name is SignName.GROUPS_DELETED:
            for name in sign.fields.get("groups", "").split(_LISTS):
                if name in self._stories:
                    yield from self._of(name).take(sign)
            return
        group = sign.group or self._of_member.get(sign.member, "")
        if not group or (self._group is not None and group != self._group):
            return
        if sign.member:
            self._of_member[sign.member] = group
        story = self._of(group)
        story.topic_created = self._topic_created
        yield from story.take(sign)
        (self._held.add if story.is_held else self._held.discard)(group)

    def _of(self, group: str) -> GroupStory:
        story = self._stories.get(group)
        if story is None:
            story = self._stories[group] = GroupStory(group)
        return story


def head(at: float, where: str) -> Event:
    """Return the first line of a trace from logs: neither run, release nor addresses of brokers show."""
    return {
        "event": "trace",
        "mono": at,
        "wall": at,
        "inferred": True,
        "where": where,
        "schema": SCHEMA_VERSION,
        "run": "",
        "file": 1,
        "release": "",
        "nodes": [],
    }
