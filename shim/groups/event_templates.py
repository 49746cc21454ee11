"""Trace events that come again and again and differ in a few numbers only.

Decides how such an event is kept until it is written: as the line it will be, but for its numbers. So what nearly all
events of a trace have in common is rendered once, and an event costs the rendering of its numbers. What follows the
first number is mostly the same for all members of a group, and is kept once for all of them: else a line of every
member would go through the processor's caches for every one written. It does not know what an event says: whoever makes
one puts a `HOLE` where a number belongs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias

import orjson

Template: TypeAlias = tuple[bytes, bytes]
"""A line up to its first number, and what follows, with `%d` for each number."""

RepeatedEvent: TypeAlias = tuple[Template, tuple[int, ...], float | None]
"""`(template, numbers, arrived)`: what `template` made, the numbers that belong into its holes in their order, and the
time of arrival of an `exchange`, which other events do not have."""

Event: TypeAlias = dict[str, Any] | RepeatedEvent

HOLE: Final = orjson.Fragment(b"\0")
"""Stands in an event where a number will be. JSON has no such byte, so nothing else can be taken for it."""


def template(event: dict[str, Any]) -> Template:
    """The line of an event with holes; whoever writes it adds the sequence number and the `ending`."""
    head, hole, rest = orjson.dumps(event)[:-1].partition(b"\0")
    return head, _the_same((hole + rest).replace(b"%", b"%%").replace(b"\0", b"%d") + b',"seq":%d%b')


@lru_cache(maxsize=256)
def _the_same(tail: bytes) -> bytes:
    return tail


def ending(arrived: float | None, mono: float, wall: float) -> bytes:
    """How the lines of events end that happened at these times."""
    if arrived is None:
        return b',"mono":%b,"wall":%b}\n' % (orjson.dumps(mono), orjson.dumps(wall))
    return b',"arrived":%b,"mono":%b,"wall":%b}\n' % (orjson.dumps(arrived), orjson.dumps(mono), orjson.dumps(wall))


def as_dict(event: RepeatedEvent) -> dict[str, Any]:
    """The event as any other, without sequence number and times of its own."""
    (head, tail), numbers, arrived = event
    whole: dict[str, Any] = orjson.loads(head + tail % (*numbers, 0, b"}"))
    del whole["seq"]
    if arrived is not None:
        whole["arrived"] = arrived
    return whole
