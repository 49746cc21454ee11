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

    def events(self, signs: Iterable[Sign]) -> Iterator[Event]:
        """Yield the events of signs, without numbers."""
        is_first = True
        for sign in signs:
            if is_first:
                yield head((sign.time or 0) / 1000, sign.where)
                is_first = False
            yield from self._take(sign)
        for name in list(self._held):
            yield from self._stories[name].flush()

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


def numbered(events: Iterable[Event]) -> Iterator[Event]:
    """Yield events with numbers from 1 on, in place of those that they may have."""
    for seq, event in enumerate(events, 1):
        yield {"event": event["event"], "seq": 0, **event} | {"seq": seq}


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
        "limits": {},
    }
