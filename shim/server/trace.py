"""What the trace says of requests and answers; see `docs/trace.md`.

Decides how a request and its answer look in an `exchange` event. It is called only while somebody listens. It does not
know where events go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, Protocol

from kafka_shim.apis.keys import ApiKey, ExperimentalKey
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
)
from kafka_shim.apis.wire import Message, Struct, uuid_text
from kafka_shim.apis.wire.source import Source
from kafka_shim.apis.wire.types import Array, Nested, Type
from kafka_shim.groups.event_templates import HOLE, Template, template
from kafka_shim.groups.interface import Client
from kafka_shim.groups.outbox import Outbox
from kafka_shim.server.table import Endpoint

GROUP_KEYS: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_HEARTBEAT,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        *ExperimentalKey,
    }
)
"""The APIs whose exchanges are traced: those about groups and their offsets."""
TERSE: Final = frozenset({OffsetCommitRequest, OffsetCommitResponse})
"""Messages that show only what their version has, and the names of topics: half of most traces is commits, and they are
long."""
BY_FIELD: Final = frozenset({OffsetCommitRequestPartition, OffsetCommitResponsePartition})
"""Structs of which an array shows as one object with an array for each field, since most of it would be the names of
the fields."""


class Connection(Protocol):
    """The connection of a traced exchange; `session.py` has it."""

    number: int

    @property
    def node(self) -> Node: ...


class Node(Protocol):
    """The node it is to; `node.py` has it."""

    id: int


class TracedExchange(Protocol):
    """An exchange as far as the trace shows it; `exchange.py` has it."""

    endpoint: Endpoint
    client: Client
    correlation_id: bytes
    arrived: float
    response: Message | None

    @property
    def request(self) -> Any: ...

    @property
    def session(self) -> Connection: ...


class Exchanges:
    """Puts `exchange` and `parked` events of a process into its outbox."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def parked(self, exchange: TracedExchange) -> None:
        """The request was parked."""
        endpoint, request = exchange.endpoint, exchange.request
        if endpoint.key in GROUP_KEYS:
            self._outbox.event(
                "parked",
                conn=exchange.session.number,
                node=exchange.session.node.id,
                api=endpoint.api.name,
                correlation_id=int.from_bytes(exchange.correlation_id, signed=True),
                group=next(iter(endpoint.row.groups_of(request)), ""),
                member=endpoint.row.sender(request).member_id,
            )

    def answered(self, exchange: TracedExchange) -> None:
        """The request is being answered."""
        if exchange.endpoint.key in GROUP_KEYS:
            event = exchange_event(exchange)
            event["correlation_id"] = int.from_bytes(exchange.correlation_id, signed=True)
            event["arrived"] = exchange.arrived
            self._outbox.events.append(event)


def exchange_event(exchange: TracedExchange) -> dict[str, Any]:
    """An `exchange` event, all but correlation id and time of arrival."""
    assert exchange.response is not None
    endpoint = exchange.endpoint
    request, answer, error = shown(exchange.request, exchange.response, endpoint.version)
    return {
        "event": "exchange",
        "conn": exchange.session.number,
        "node": exchange.session.node.id,
        "api": endpoint.api.name,
        "version": endpoint.version,
        "client_id": exchange.client.client_id,
        "group": request.get("group_id"),
        "member": request.get("member_id") or answer.get("member_id"),
        "request": request,
        "answer": answer,
        "error": error,
    }


def template_of(exchange: TracedExchange) -> Template:
    """The template of an `exchange` event that differs from others in its correlation id alone."""
    return template(exchange_event(exchange) | {"correlation_id": HOLE})


def end_offsets(ends: Iterable[tuple[str, int, int]]) -> dict[str, Any]:
    """An `end_offsets` event of topic, partition and offset."""
    return {
        "event": "end_offsets",
        "offsets": [{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in ends],
    }


# Messages as JSON has them


def shown(request: Message, response: Message, version: int) -> tuple[dict[str, Any], dict[str, Any], int]:
    """How a request and its answer look in an `exchange` event, and the error code of it."""
    request_fields, error = plain(request, version), error_in(response)
    if not error and isinstance(request, OffsetCommitRequest):
        # The `commit` event before has them.
        for topic in request_fields["topics"]:
            del topic["partitions"]["committed_offset"]
    return request_fields, plain(response, version), error


def plain(message: Message, version: int) -> dict[str, Any]:
    """A message of this version as JSON has it: objects, arrays, ids as text, and the length of bytes."""
    kind = type(message)
    found = _PLAIN.get((kind, version))
    if found is None:
        found = _PLAIN[kind, version] = _plain_of(kind, version if kind in TERSE else None)
    return found(message)


_PLAIN: Final[dict[tuple[type, int], Callable[[Any], dict[str, Any]]]] = {}


def _plain_of(kind: type[Message | Struct], only: int | None) -> Callable[[Any], dict[str, Any]]:
    """`only` the fields of this version, or all."""
    source = Source(f"{kind.__name__} in a trace")
    with source.block("def plain(o):"):
        source.line(f"return {{{_fields(source, kind, only, '{}', 'o')}}}")
    made: Callable[[Any], dict[str, Any]] = source.compile("plain")["plain"]
    return made


def _fields(source: Source, kind: type[Message | Struct], only: int | None, shape: str, of: str) -> str:
    """What is between the braces of a dictionary of the fields of `of`, each in this `shape`."""
    values = (
        (field.name, _expression(source, field.type, only, f"{of}.{field.name}"))
        for field in kind.fields
        if only is None or only in field.versions or field.name == "name"
    )
    return ", ".join(f"{name!r}: {shape.format(value)}" for name, value in values)


def _expression(source: Source, type_: Type[Any], only: int | None, value: str) -> str:
    """What makes JSON of a value that may be null."""
    if isinstance(type_, Nested):
        made = f"{source.constant(type_.struct.__name__, _plain_of(type_.struct, only))}({value})"
    elif isinstance(type_, Array) and isinstance(type_.element, Nested) and type_.element.struct in BY_FIELD:
        made = f"{{{_fields(source, type_.element.struct, only, f'[{{}} for e in {value}]', 'e')}}}"
    elif isinstance(type_, Array):
        of_each = _expression(source, type_.element, only, "e")
        made = value if of_each == "e" else f"[{of_each} for e in {value}]"
    elif type_.name == "uuid":
        made = f"{source.constant('uuid_text', _uuid_text)}({value})"
    elif type_.name in ("bytes", "records"):
        made = f"len({value})"
    else:
        made = value
    return made if made == value or value == "e" else f"None if {value} is None else {made}"


_uuid_text: Final = lru_cache(maxsize=1024)(uuid_text)


def error_in(response: Any) -> int:
    """The error code of an answer: its own, or the first that anything in it has; 0 for none."""
    if code := getattr(response, "error_code", 0):
        return int(code)
    kind = type(response)
    names = _ARRAYS.get(kind)
    if names is None:
        names = _ARRAYS[kind] = _arrays_in(kind)
    for name in names:
        for each in getattr(response, name) or ():
            if code := error_in(each):
                return code
    return 0


_ARRAYS: Final[dict[type, tuple[str, ...]]] = {}


def _arrays_in(kind: type[Message | Struct]) -> tuple[str, ...]:
    """The fields that are arrays of structs."""
    return tuple(
        field.name for field in kind.fields if isinstance(field.type, Array) and isinstance(field.type.element, Nested)
    )
