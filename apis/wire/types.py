"""Field types: the `struct` code, zero value and Python type of each, and the notation of version ranges.

Source: Kafka's protocol guide, "Protocol Primitive Types", and KIP-482 for the compact forms.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from typing import Any, Final, Generic, TypeVar, overload

T = TypeVar("T")
S = TypeVar("S")

NEWEST: Final = 0x7FFF
"""The highest possible version: `api_version` is an int16."""


class Type(Generic[T]):
    """A type of the protocol; `T` is its Python type. `name` is Kafka's."""

    __slots__ = ("name", "zero")

    def __init__(self, name: str, zero: Callable[[], T]) -> None:
        self.name = name
        self.zero = zero

    def __repr__(self) -> str:
        return self.name


class Fixed(Type[T]):
    """A type that always takes `size` bytes; `code` is its `struct` format, big-endian."""

    __slots__ = ("code", "size")

    def __init__(self, name: str, zero: Callable[[], T], code: str, size: int) -> None:
        super().__init__(name, zero)
        self.code = code
        self.size = size


class Blob(Type[T]):
    """A length and as many bytes. `code` is the `struct` format of the length in versions that are not flexible."""

    __slots__ = ("code", "is_text")

    def __init__(self, name: str, zero: Callable[[], T], code: str, is_text: bool) -> None:
        super().__init__(name, zero)
        self.code = code
        self.is_text = is_text


class Nested(Type[S]):
    """A struct in place."""

    __slots__ = ("struct",)

    def __init__(self, struct: type[S]) -> None:
        super().__init__(struct.__name__, struct)
        self.struct = struct


class Array(Type[list[T]]):
    """A count and as many elements."""

    __slots__ = ("element",)

    def __init__(self, element: Type[T]) -> None:
        super().__init__(f"[]{element.name}", list)
        self.element = element


boolean: Final = Fixed("bool", bool, "?", 1)
int8: Final = Fixed("int8", int, "b", 1)
int16: Final = Fixed("int16", int, "h", 2)
uint16: Final = Fixed("uint16", int, "H", 2)
int32: Final = Fixed("int32", int, "i", 4)
uint32: Final = Fixed("uint32", int, "I", 4)
int64: Final = Fixed("int64", int, "q", 8)
float64: Final = Fixed("float64", float, "d", 8)
uuid: Final = Fixed("uuid", lambda: bytes(16), "16s", 16)
string: Final = Blob("string", str, "h", is_text=True)
bytes_: Final = Blob("bytes", bytes, "i", is_text=False)
records: Final = Blob("records", bytes, "i", is_text=False)


@overload
def array(element: Type[T]) -> Array[T]: ...
@overload
def array(element: type[S]) -> Array[S]: ...
def array(element: Any) -> Array[Any]:
    """Return the type of an array of `element`: one of the types above, or a `Struct` class."""
    return Array(as_type(element))


def as_type(type_or_struct: Any) -> Type[Any]:
    """Return a type as it is, and for a `Struct` class the type of such a struct in place."""
    return type_or_struct if isinstance(type_or_struct, Type) else Nested(type_or_struct)


@cache
def parse_versions(text: str) -> range:
    """Return the versions of Kafka's notation: `"0-4"`, `"3+"`, `"2"`; `""` and `"none"` mean no version."""
    if text in ("", "none"):
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), NEWEST + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def uuid_text(value: bytes) -> str:
    """Format a uuid as Kafka does: URL-safe base64 of the 16 bytes without padding, 22 characters."""
    return base64.urlsafe_b64encode(value)[:22].decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """Parse a uuid as Kafka prints it into its 16 bytes. Raises ValueError for any other text."""
    if len(text) != 22 or "+" in text or "/" in text:
        raise ValueError(f"not a uuid: {text!r}")
    return base64.b64decode(text + "==", altchars=b"-_", validate=True)
