"""The first elements of a long message and the ends of a long text, for the trace and its history.

Decides how much of a message an event shows: JSON of all elements of the longest requests would keep other clients
waiting for half a second. A journal has all bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Final, TypeVar

from kafka_shim.apis.wire import Message, Struct
from kafka_shim.apis.wire.source import Source
from kafka_shim.apis.wire.types import Array, Nested

M = TypeVar("M", bound=Message | Struct)

MOST: Final = 10_000
"""Elements of a message that is shown as a whole."""
FIRST: Final = 1_000
"""Elements of a longer one that are shown."""
TEXT_BEGIN, TEXT_END = 1000, 100
"""Characters of the begin and of the end of a long text that are shown. A member id is unique by its end."""


def excerpt(message: M) -> tuple[M, int]:
    """Return a message, or a copy with the first of its elements if it has very many, and the number of others."""
    count = elements_of(message)
    if count <= MOST:
        return message, 0
    begin, room = _begin(message, FIRST)
    return begin, count - (FIRST - room)


def elements_of(message: Message | Struct) -> int:
    """Return the number of elements of all arrays of a message."""
    kind = type(message)
    count = _COUNTS.get(kind)
    if count is None:
        source = Source(f"elements of {kind.__name__}")
        with source.block("def count(o):"):
            source.line("n = 0")
            _add(source, kind, "o")
            source.line("return n")
        count = _COUNTS[kind] = source.compile("count")["count"]
    return count(message)


_COUNTS: Final[dict[type, Callable[[Any], int]]] = {}


def _add(source: Source, kind: type[Message | Struct], of: str) -> None:
    """Write the lines that add the number of elements in a struct to `n`."""
    for field in kind.fields:
        value = f"{of}.{field.name}"
        if isinstance(field.type, Nested) and _has_arrays(field.type.struct):
            with source.block(f"if {value} is not None:"):
                _add(source, field.type.struct, value)
        elif isinstance(field.type, Array):
            with source.block(f"if {value}:"):
                source.line(f"n += len({value})")
                if isinstance(field.type.element, Nested) and _has_arrays(field.type.element.struct):
                    each = source.name("e")
                    with source.block(f"for {each} in {value}:"):
                        _add(source, field.type.element.struct, each)


def _has_arrays(kind: type[Message | Struct]) -> bool:
    return any(
        isinstance(field.type, Array) or (isinstance(field.type, Nested) and _has_arrays(field.type.struct))
        for field in kind.fields
    )


def _begin(message: M, room: int) -> tuple[M, int]:
    """Return a copy with at most `room` elements, and the room that is left."""
    begin = copy(message)
    for field in type(message).fields:
        value = getattr(message, field.name)
        if isinstance(value, Message | Struct):
            value, room = _begin(value, room)
        elif isinstance(field.type, Array) and value:
            value, room = _first(value, room)
        setattr(begin, field.name, value)
    return begin, room


def _first(elements: list[Any], room: int) -> tuple[list[Any], int]:
    if not isinstance(elements[0], Struct):
        return elements[:room], max(0, room - len(elements))
    first = []
    for element in elements:
        if not room:
            break
        begin, room = _begin(element, room - 1)
        first.append(begin)
    return first, room


def shortened(text: str) -> str:
    """Return a text, with its middle left out if it is long."""
    if len(text) <= TEXT_BEGIN + TEXT_END:
        return text
    return f"{text[:TEXT_BEGIN]}\N{HORIZONTAL ELLIPSIS}{text[-TEXT_END:]}"


def with_short_texts(value: Any) -> Any:
    """Return JSON with each text in it shortened, however deep."""
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, dict):
        return {shortened(name): with_short_texts(each) for name, each in value.items()}
    # The elements of an array have one type, and a member may have 100,000 partitions.
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int):
        return [with_short_texts(each) for each in value]
    return value
