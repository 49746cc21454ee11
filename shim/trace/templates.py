"""Templates of frequent trace events that differ only in a few numbers.

A template holds the line of the event without its numbers, so that the common part is rendered once. The part after the
first number is mostly equal for all members of a group, and is stored once for all of them, to keep it in the
processor's caches. An event for a template has a `HOLE` in place of each number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias

import orjson

Template: TypeAlias = tuple[bytes, bytes]
"""Line up to its first number, and the rest of it with `%d` for each number."""

RepeatedEvent: TypeAlias = tuple[Template, tuple[int, ...], float | None]
"""`(template, numbers, arrived)`: a result of `template`, the numbers for its holes in order, and the time of
arrival of an `exchange`, None for other events."""

Event: TypeAlias = dict[str, Any] | RepeatedEvent

HOLE: Final = orjson.Fragment(b"\0")
"""Placeholder for a number in an event. JSON has no such byte, so no other content is mistaken for it."""


def template(event: dict[str, Any]) -> Template:
    """Return the line of an event with holes; the writer adds the sequence number and the `ending`."""
    head, hole, rest = orjson.dumps(event)[:-1].partition(b"\0")
    return head, _shared((hole + rest).replace(b"%", b"%%").replace(b"\0", b"%d") + b',"seq":%d%b')


@lru_cache(maxsize=256)
def _shared(tail: bytes) -> bytes:
    return tail


def ending(arrived: float | None, mono: float, wall: float) -> bytes:
    """Return the end of the line of an event at these times."""
    if arrived is None:
        return b',"mono":%b,"wall":%b}\n' % (orjson.dumps(mono), orjson.dumps(wall))
    return b',"arrived":%b,"mono":%b,"wall":%b}\n' % (orjson.dumps(arrived), orjson.dumps(mono), orjson.dumps(wall))


def as_dict(event: RepeatedEvent) -> dict[str, Any]:
    """Return the event as a dictionary, without sequence number and times."""
    (head, tail), numbers, arrived = event
    whole: dict[str, Any] = orjson.loads(head + tail % (*numbers, 0, b"}"))
    del whole["seq"]
    if arrived is not None:
        whole["arrived"] = arrived
    return whole
