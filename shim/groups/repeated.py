"""Trace events that come again and again and differ in a few numbers only.

Decides how such an event is kept until it is written: as the line it will be, but for its numbers. So what nearly all
events of a trace have in common is rendered once, and an event costs the rendering of its numbers. It does not know
what an event says: whoever makes one puts a `HOLE` where a number belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import orjson

Repeated: TypeAlias = tuple[bytes, Sequence[int], float | None]
"""`(template, numbers, arrived)`: what `template` made, the numbers that belong into its holes in their order, and the
time of arrival of an `exchange`, which other events do not have."""

HOLE: Final = orjson.Fragment(b"\0")
"""Stands in an event where a number will be. JSON has no such byte, so nothing else can be taken for it."""


def template(event: dict[str, Any]) -> bytes:
    """The line of an event with holes, as `line` takes it."""
    return orjson.dumps(event)[:-1].replace(b"%", b"%%").replace(b"\0", b"%d") + b',"seq":%d%b'


def ending(arrived: float | None, mono: float, wall: float) -> bytes:
    """How the lines of events end that happened at these times; `line` takes it."""
    if arrived is None:
        return b',"mono":%b,"wall":%b}\n' % (orjson.dumps(mono), orjson.dumps(wall))
    return b',"arrived":%b,"mono":%b,"wall":%b}\n' % (orjson.dumps(arrived), orjson.dumps(mono), orjson.dumps(wall))


def as_dict(event: Repeated) -> dict[str, Any]:
    """The event as any other, without sequence number and times of its own."""
    line, numbers, arrived = event
    whole: dict[str, Any] = orjson.loads(line % (*numbers, 0, b"}"))
    del whole["seq"]
    if arrived is not None:
        whole["arrived"] = arrived
    return whole
