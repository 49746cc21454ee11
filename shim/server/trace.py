"""Requests and answers as events of the trace (`docs/trace.md`). Called only while there is a listener.

`excerpts.py` decides how much of a long one an event shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
)
from kafka_shim.apis.private import FIRST_KEY
from kafka_shim.apis.wire import Message, Struct, uuid_text
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.apis.wire.source import Source
from kafka_shim.apis.wire.types import Array, Nested, Type
from kafka_shim.groups.outbox import Outbox
from kafka_shim.server.connection import Call
from kafka_shim.server.data_exchanges import DATA_KEYS, TopicName, data_as_json
from kafka_shim.server.excerpts import excerpt, with_short_texts
from kafka_shim.server.rare import RareExchange, RareExchanges
from kafka_shim.trace.templates import HOLE, Template, template

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
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
    }
)
"""The APIs of Kafka with exchanges in the trace: those about groups and offsets. All private ones have them too."""
TERSE: Final = frozenset({OffsetCommitRequest, OffsetCommitResponse})
"""The messages that show only the fields of their version, and topics by name: commits are half of most traces, and
long."""
BY_FIELD: Final = frozenset({OffsetCommitRequestPartition, OffsetCommitResponsePartition})
"""Structs in arrays that show as one object with an array for each field, which saves repeating the names of the
fields."""


_MOST_OF_SOFTWARE: Final = 200
"""Characters of it that each connection keeps."""


class Exchanges:
    """Puts `exchange` and `parked` events of a node into the outbox."""

    def __init__(self, outbox: Outbox, node_id: int) -> None:
        self._outbox = outbox
        self._node_id = node_id
        self.rare = RareExchanges()
        self.topic_name: TopicName | None = None
        """If it is set, Produce, Fetch and ListOffsets have events too."""

    def parked(self, exchange: Call) -> None:
        """Add an event for a request that was parked."""
        endpoint, request = exchange.endpoint, exchange.request
        if endpoint.key in GROUP_KEYS or endpoint.key >= FIRST_KEY:
            self._outbox.event(
                "parked",
                conn=exchange.session.number,
                node=self._node_id,
                api=endpoint.api.name,
                correlation_id=int.from_bytes(exchange.correlation_id, signed=True),
                group=next(iter(endpoint.row.groups_of(request)), ""),
                member=endpoint.row.sender(request).member_id,
            )

    def answered(self, exchange: Call) -> None:
        """Add an event for a request that is answered, if a listener wants it."""
        key = exchange.endpoint.key
        if key not in GROUP_KEYS and key < FIRST_KEY:
            if self.topic_name is not None and key in DATA_KEYS and self._outbox.tracing:
                self._add_data(exchange, self.topic_name)
            return
        number = self.rare.number(key, exchange.client.client_id, exchange.request, error_in(exchange.response))
        if number or self._outbox.tracing:
            self.add(exchange, number)

    def add(self, exchange: Call, number: int) -> None:
        """Add an event for a request that is answered; `number` is that of `RareExchanges`."""
        event = self._event_of_group(exchange)
        event["correlation_id"] = int.from_bytes(exchange.correlation_id, signed=True)
        event["arrived"] = exchange.arrived
        if number > 1:
            event["nth"] = number
        self._outbox.events.append(RareExchange(event) if number else event)

    def _add_data(self, exchange: Call, name_of: TopicName) -> None:
        messages = data_as_json(exchange.request, exchange.response, name_of)
        if messages is not None:
            request, answer = messages
            error = error_in(exchange.response)
            fields = {"group": None, "member": None, "request": request, "answer": answer, "error": error}
            event = self._event(exchange, fields)
            event["correlation_id"] = int.from_bytes(exchange.correlation_id, signed=True)
            event["arrived"] = exchange.arrived
            self._outbox.events.append(event)

    def template_of(self, exchange: Call) -> Template:
        """Return a template for `exchange` events that differ only in the correlation id."""
        return template(self._event_of_group(exchange) | {"correlation_id": HOLE})

    def _event_of_group(self, exchange: Call) -> dict[str, Any]:
        assert exchange.response is not None
        version = exchange.endpoint.version
        return self._event(exchange, as_json(exchange.request, exchange.response, version, is_long=exchange.is_long))

    def _event(self, exchange: Call, fields: dict[str, Any]) -> dict[str, Any]:
        """Return an `exchange` event with the fields of `as_json`, without correlation id and time of arrival."""
        endpoint = exchange.endpoint
        event = {
            "event": "exchange",
            "conn": exchange.session.number,
            "node": self._node_id,
            "api": endpoint.api.name,
            "version": endpoint.version,
            "client_id": exchange.client.client_id,
            **fields,
        }
        if exchange.session.software and is_join(endpoint.api.name, fields["request"]):
            event["software"] = exchange.session.software
        return event


def software_of(request: ApiVersionsRequest) -> str:
    """Return the name and version of a client's software, empty if the request has none."""
    return f"{request.client_software_name} {request.client_software_version}".strip()[:_MOST_OF_SOFTWARE]


def is_join(api: str, request: Mapping[str, Any]) -> bool:
    """True for a request to join; its event has the software of the client, if that is known."""
    return api == "JoinGroup" or request.get("member_epoch") == 0


def end_offsets(ends: Iterable[tuple[str, int, int]]) -> dict[str, Any]:
    """Return an `end_offsets` event from topics, partitions and offsets."""
    return {
        "event": "end_offsets",
        "offsets": [{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in ends],
    }


# Messages as JSON


def as_json(request: Any, response: Any, version: int, *, is_long: bool = False) -> dict[str, Any]:
    """Return the fields of an `exchange` event about its messages. `is_long` is true if one has very many bytes: then
    long texts are cut too."""
    error = error_in(response)
    group = group_in(request, error)
    request, left_out = excerpt(request)
    response, left_out_of_answer = excerpt(response)
    of_request, of_answer = plain(request, version), plain(response, version)
    if not error and isinstance(request, OffsetCommitRequest):
        # The `commit` event before shows them.
        for topic in of_request["topics"]:
            del topic["partitions"]["committed_offset"]
    member = of_request.get("member_id") or of_answer.get("member_id")
    fields = {"group": group, "member": member, "request": of_request, "answer": of_answer, "error": error}
    if is_long:
        fields = with_short_texts(fields)
    if left_out or left_out_of_answer:
        fields["left_out"] = left_out + left_out_of_answer
    return fields


def plain(message: Message, version: int) -> dict[str, Any]:
    """Return a message of this version as JSON: objects, arrays, ids as text, and the length of bytes."""
    kind = type(message)
    convert = _PLAIN.get((kind, version))
    if convert is None:
        convert = _PLAIN[kind, version] = _plain_of(kind, version if kind in TERSE else None)
    return convert(message)


_PLAIN: Final[dict[tuple[type, int], Callable[[Any], dict[str, Any]]]] = {}


def _plain_of(kind: type[Message | Struct], only: int | None) -> Callable[[Any], dict[str, Any]]:
    """Compile the conversion of a struct to JSON, with all fields or `only` those of this version."""
    source = Source(f"{kind.__name__} in a trace")
    with source.block("def plain(o):"):
        source.line(f"return {{{_fields(source, kind, only, '{}', 'o')}}}")
    convert: Callable[[Any], dict[str, Any]] = source.compile("plain")["plain"]
    return convert


def _fields(source: Source, kind: type[Message | Struct], only: int | None, shape: str, of: str) -> str:
    """Return the inside of the braces of a dictionary of the fields of `of`, each in this `shape`."""
    values = (
        (field.name, _expression(source, field.type, only, f"{of}.{field.name}"))
        for field in kind.fields
        if only is None or only in field.versions or field.name == "name"
    )
    return ", ".join(f"{name!r}: {shape.format(value)}" for name, value in values)


def _expression(source: Source, type_: Type[Any], only: int | None, value: str) -> str:
    """Return an expression that converts a value, possibly null, to JSON."""
    if isinstance(type_, Nested):
        expression = f"{source.constant(type_.struct.__name__, _plain_of(type_.struct, only))}({value})"
    elif isinstance(type_, Array) and isinstance(type_.element, Nested) and type_.element.struct in BY_FIELD:
        expression = f"{{{_fields(source, type_.element.struct, only, f'[{{}} for e in {value}]', 'e')}}}"
    elif isinstance(type_, Array):
        of_each = _expression(source, type_.element, only, "e")
        expression = value if of_each == "e" else f"[{of_each} for e in {value}]"
    elif type_.name == "uuid":
        expression = f"{source.constant('uuid_text', _uuid_text)}({value})"
    elif type_.name in ("bytes", "records"):
        expression = f"len({value})"
    else:
        expression = value
    return expression if expression == value or value == "e" else f"None if {value} is None else {expression}"


_uuid_text: Final = lru_cache(maxsize=1024)(uuid_text)


def group_in(request: Any, error: int) -> str | None:
    """Return the group of a request, from version 8 of OffsetFetch on the only one; of a client that may not find its
    coordinator, the group that it asks for."""
    groups: Sequence[Any] = getattr(request, "groups", None) or ()
    if len(groups) == 1 and not isinstance(groups[0], str):
        return str(groups[0].group_id)
    keys: Sequence[str] = getattr(request, "coordinator_keys", ())
    if error == ErrorCode.GROUP_AUTHORIZATION_FAILED and len(keys) == 1:
        return keys[0]
    return getattr(request, "group_id", None)


def error_in(response: Any) -> int:
    """Return the error code of an answer: its own, or the first one inside it; 0 for none."""
    kind = type(response)
    find = _ERRORS.get(kind)
    if find is None:
        source = Source(f"error in {kind.__name__}")
        with source.block("def error(o):"):
            _find_error(source, kind, "o")
            source.line("return 0")
        find = _ERRORS[kind] = source.compile("error")["error"]
    return int(find(response))


_ERRORS: Final[dict[type, Callable[[Any], int]]] = {}


def _find_error(source: Source, kind: type[Message | Struct], of: str) -> None:
    """Write the lines that return the error code of a struct, or the first one in its arrays."""
    if any(field.name == "error_code" for field in kind.fields):
        with source.block(f"if {of}.error_code:"):
            source.line(f"return {of}.error_code")
    for field in kind.fields:
        if isinstance(field.type, Array) and isinstance(field.type.element, Nested):
            struct = field.type.element.struct
            if _has_error(struct):
                each = source.name("e")
                with source.block(f"for {each} in {of}.{field.name} or ():"):
                    _find_error(source, struct, each)


def _has_error(kind: type[Struct]) -> bool:
    return any(
        field.name == "error_code"
        or (
            isinstance(field.type, Array)
            and isinstance(field.type.element, Nested)
            and _has_error(field.type.element.struct)
        )
        for field in kind.fields
    )
