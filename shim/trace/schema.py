"""The schema of the trace, derived from the classes of `events.py`, and the check of an event against it.

`docs/trace.md` shows it; the pipeline derives its columns from it.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from kafka_shim.trace.events import KINDS, Event

_JSON: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null", list: "array"}


class EventField(NamedTuple):
    """Field of an event: its JSON type, with `|null` if it may be null, its meaning, and its type in Python. Not every
    event of the kind has an `optional` one.
    """

    name: str
    type: str
    meaning: str
    python: Any
    optional: bool = False


class Described(NamedTuple):
    """Kind of event: its occasion, and its fields."""

    when: str
    fields: tuple[EventField, ...]


def _fields(event: type) -> dict[str, EventField]:
    return {name: _field(name, hint) for name, hint in get_type_hints(event, include_extras=True).items()}


def _field(name: str, hint: Any) -> EventField:
    optional = get_origin(hint) is NotRequired
    if optional:
        (hint,) = get_args(hint)
    meaning = ""
    if get_origin(hint) is Annotated:
        hint, meaning = get_args(hint)
    if get_origin(hint) is Literal:
        *first, last = get_args(hint)
        return EventField(name, "string", f"{', '.join(first)} or {last}", str, optional)
    return EventField(name, _json(hint), meaning, hint, optional)


def _json(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return "|".join(map(_json, get_args(hint)))
    return _JSON.get(get_origin(hint) or hint, "object")


_COMMON: Final = _fields(Event)
OF_A_RELAY: Final = (_COMMON["inferred"],)
"""Additional fields of events of `kafka-shim trace record`."""
OF_A_LOG: Final = (*OF_A_RELAY, _COMMON["where"])
"""Additional fields of events of `kafka-shim trace from-log`."""
EVERY_EVENT: Final = tuple(field for field in _COMMON.values() if field not in OF_A_LOG)
EVENTS: Final = {
    name: Described(
        " ".join((kind.event.__doc__ or "").split()),
        tuple(field for field in _fields(kind.event).values() if field.name not in _COMMON),
    )
    for name, kind in KINDS.items()
}
"""Kinds of events by name."""


def problems(event: dict[str, Any]) -> list[str]:
    """Return the errors of an event's fields against the schema; `seq`, `mono` and `wall` may be missing."""
    kind = EVENTS.get(event["event"])
    if kind is None:
        return [f"unknown event {event['event']!r}"]
    errors = []
    for name, type_, _, _, optional in kind.fields:
        if name not in event:
            errors += [] if optional else [f"{event['event']} lacks {name}"]
        elif not any(_IS[part](event[name]) for part in type_.split("|")):
            errors.append(f"{event['event']}.{name} is no {type_}: {event[name]!r}")
    names = {field.name for field in (*EVERY_EVENT, *OF_A_LOG, *kind.fields)}
    return errors + [f"{event['event']} has {name} too" for name in event if name not in names]


_IS: Final = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}
