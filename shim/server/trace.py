"""What the trace says of requests and answers; see `docs/trace.md`.

Decides how a request and its answer look in an `exchange` event. It is asked only while somebody listens. Where events
go is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from apis.wire import Message, Struct, uuid_text
from apis.wire.types import Array, Nested, Type
from shim.groups.outbox import Outbox
from shim.groups.repeated import HOLE, template

if TYPE_CHECKING:
    from shim.server.session import Session
    from shim.server.table import Served

GROUP_KEYS: Final = frozenset({8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47})
"""The APIs whose exchanges are traced: those about groups and their offsets."""


class Exchanges:
    """Puts `exchange` and `parked` events of a process into its outbox."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def parked(self, session: Session) -> None:
        """The session's request was parked."""
        served, request = session.served, session.request
        assert served is not None
        if served.key in GROUP_KEYS:
            self._outbox.event(
                "parked",
                conn=session.number,
                node=session.node.id,
                api=served.api.name,
                correlation_id=int.from_bytes(session.correlation_id, signed=True),
                group=getattr(request, "group_id", ""),
                member=getattr(request, "member_id", ""),
            )

    def answered(self, session: Session, response: Message) -> None:
        """The session's request is being answered."""
        served, request = session.served, session.request
        assert served is not None
        assert request is not None
        if served.key in GROUP_KEYS:
            self._outbox.events.append(
                exchange(session, served, request, response)
                | {
                    "correlation_id": int.from_bytes(session.correlation_id, signed=True),
                    "arrived": session.arrived,
                }
            )


def exchange(session: Session, served: Served, request: Message, response: Message) -> dict[str, Any]:
    """An `exchange` event, all but correlation id and time of arrival."""
    asked, answered = plain(request), plain(response)
    return {
        "event": "exchange",
        "conn": session.number,
        "node": session.node.id,
        "api": served.api.name,
        "version": served.version,
        "client_id": session.client_id,
        "group": asked.get("group_id"),
        "member": asked.get("member_id") or answered.get("member_id"),
        "request": asked,
        "answer": answered,
        "error": error_in(response),
    }


def template_of(session: Session, served: Served, request: Message, response: Message, hole: str = "") -> bytes:
    """The template of an `exchange` event whose correlation id is the last hole.

    If a `hole` is named, those before it are this field of each partition of each topic of the request.
    """
    event = exchange(session, served, request, response)
    if hole:
        for topic in event["request"]["topics"]:
            for partition in topic["partitions"]:
                partition[hole] = HOLE
    return template(event | {"correlation_id": HOLE})


def end_offsets(ends: Iterable[tuple[str, int, int]]) -> dict[str, Any]:
    """An `end_offsets` event of topic, partition and offset."""
    return {
        "event": "end_offsets",
        "offsets": [{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in ends],
    }


# Messages as JSON has them


def plain(message: Message | Struct) -> dict[str, Any]:
    """A message as JSON has it: objects, arrays, ids as text, and the length of bytes."""
    kind = type(message)
    found = _PLAIN.get(kind)
    if found is None:
        found = _PLAIN[kind] = _make_plain(kind)
    return found(message)


_Plain = Callable[[Any], Any]
_PLAIN: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {}


def _make_plain(kind: type[Message | Struct]) -> Callable[[Any], dict[str, Any]]:
    names = [field.name for field in kind.fields]
    get = attrgetter(*names) if len(names) > 1 else _getter_of(names)
    converted = [(field.name, convert) for field in kind.fields if (convert := _conversion(field.type)) is not None]

    def make(message: Any) -> dict[str, Any]:
        values = dict(zip(names, get(message), strict=True))
        for name, convert in converted:
            if values[name] is not None:
                values[name] = convert(values[name])
        return values

    return make


def _getter_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda message: tuple(getattr(message, name) for name in names)


def _conversion(type_: Type[Any]) -> _Plain | None:
    if isinstance(type_, Nested):
        return plain
    if isinstance(type_, Array):
        of_each = _conversion(type_.element)
        return None if of_each is None else lambda values: [of_each(value) for value in values]
    if type_.name == "uuid":
        return uuid_text
    return len if type_.name in ("bytes", "records") else None


def error_in(response: Any) -> int:
    """The error code of an answer: its own, or the first that anything in it has; 0 for none."""
    if code := getattr(response, "error_code", 0):
        return int(code)
    for field in response.fields:
        if isinstance(field.type, Array) and isinstance(field.type.element, Nested):
            for each in getattr(response, field.name) or ():
                if code := error_in(each):
                    return code
    return 0
