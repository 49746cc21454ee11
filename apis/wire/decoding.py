"""The decoder of one message class in one version, as straight-line Python source.

Decides how bytes become objects. Runs of fixed-width fields are read by one `struct` call, into which the length or
count that follows them is fused; structs in place are part of the run. What is rare (long varints, nulls, tagged
fields) is left to `primitives.py`.

Bounds: an index past the end raises IndexError and a short `struct` read raises `struct.error`; a slice that is too
short moves `pos` past the end, where the next read or the last check finds it. An array is built only if its elements
at their smallest fit into what is left. So whatever the bytes, the caller sees a message or a DecodeError, and memory
stays in proportion to the input.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from apis.wire import primitives
from apis.wire.exceptions import DecodeError
from apis.wire.source import Source
from apis.wire.types import Array, Blob, Fixed, Nested, Type

if TYPE_CHECKING:
    from apis.wire.message import Field, Message, Struct


def compile_decoder(cls: type[Message], version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    """The decoder of `cls` in `version`: `(data, offset) -> (message, offset after it)`."""
    writer = _Writer(cls, version)
    source = writer.source
    with source.block("def decode(data, pos):"):
        with source.block("try:"):
            message = writer.struct(cls)
            writer.flush()
        source.line(f"except {writer.failures} as error:")
        source.line(f"    raise {source.constant('blame', _blame)}(error, pos, data, {cls.__name__!r}) from None")
        with source.block("if pos > len(data):"):
            source.line(f"raise {source.constant('blame', _blame)}(IndexError(), pos, data, {cls.__name__!r})")
        source.line(f"return {message}, pos")
    decoder: Callable[[bytes, int], tuple[Any, int]] = source.compile("decode")["decode"]
    return decoder


def minimum_size(type: Type[Any], version: int, flexible: bool, nullable: bool = False) -> int:
    """The fewest bytes a value of `type` takes in `version`."""
    if isinstance(type, Fixed):
        return type.size
    if isinstance(type, Nested):
        if nullable:
            return 1
        sizes = (
            minimum_size(each.type, version, flexible, version in each.nullable)
            for each in type.struct.fields
            if version in each.versions and version not in each.tagged
        )
        return sum(sizes) + flexible
    if flexible:
        return 1
    return struct.calcsize(">" + type.code) if isinstance(type, Blob) else 4


def _blame(error: Exception, position: int, data: bytes, message: str) -> DecodeError:
    match error:
        case DecodeError():
            error.message = message
            return error
        case UnicodeDecodeError():
            return DecodeError(f"not UTF-8: {error.reason}", position - len(error.object) + error.start, message)
        case _:
            return DecodeError(f"the data ends, at {len(data)}, within a value", min(position, len(data)), message)


class _Writer:
    """Writes the body of one decoder. `_run` holds the fixed-width reads that are not yet written out."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self.source = Source(f"{cls.__name__} v{version} decoder")
        self.version = version
        self.flexible = version in cls.flexible
        failures = (DecodeError, IndexError, struct.error, UnicodeDecodeError)
        self.failures = self.source.constant("failures", failures)
        self._run: list[tuple[str, str]] = []

    def helper(self, function: Callable[..., Any]) -> str:
        return self.source.constant(function.__name__, function)

    def flush(self, then: str = "") -> tuple[str, int]:
        """Write the pending reads out, with one more of format `then` at their end.

        Returns the variable of that last read and the size of all. Without `then`, `pos` moves past the run; with it
        the caller's code has to.
        """
        run, self._run = self._run, []
        last = ""
        if then:
            last = self.source.name("n")
            run.append((then, last))
        if not run:
            return "", 0
        format = ">" + "".join(code for code, _ in run)
        size = struct.calcsize(format)
        targets = ", ".join(target for _, target in run if target)
        if format == ">B":
            self.source.line(f"{targets} = data[pos]")
        else:
            unpack = self.source.constant("unpack", struct.Struct(format).unpack_from)
            self.source.line(f"{targets}{',' if sum(1 for _, t in run if t) == 1 else ''} = {unpack}(data, pos)")
        if not then:
            self.source.line(f"pos += {size}")
        return last, size

    def struct(self, cls: type[Struct] | type[Message]) -> str:
        """Write the reading of a struct's fields; returns the expression of the object, complete once flushed."""
        present = [each for each in cls.fields if self.version in each.versions]
        tagged = [each for each in present if self.version in each.tagged]
        if tagged and not self.flexible:
            raise TypeError(
                f"{cls.__name__}.{tagged[0].name} is tagged in version {self.version}, which is not flexible"
            )
        created = "" if cls.frozen else self.source.name("o")
        values = {
            each.name: f"{created}.{each.name}" if created else self.source.name(each.name) for each in cls.fields
        }
        if created:
            self.source.line(
                f"{created} = {self.source.constant('new', object.__new__)}({self.source.constant(cls.__name__, cls)})"
            )
        for each in cls.fields:
            if each in present and each not in tagged:
                self.value(each.type, values[each.name], self.version in each.nullable)
            else:
                self.default(each, values[each.name])
        if self.flexible:
            self.tagged(tagged, values)
        if created:
            return created
        return f"{self.source.constant(cls.__name__, cls)}({', '.join(values.values())})"

    def default(self, field: Field, target: str) -> None:
        if not field.is_mutable:
            value = self.source.literal(field.default_value())
        elif isinstance(field.type, Array):
            value = "[]"
        else:
            value = f"{self.source.constant('zero', field.type.zero)}()"
        self.source.line(f"{target} = {value}")

    def value(self, type: Type[Any], target: str, nullable: bool) -> None:
        if isinstance(type, Fixed):
            self._run.append((type.code, target))
        elif isinstance(type, Blob):
            (self.compact_blob if self.flexible else self.blob)(type, target, nullable)
        elif isinstance(type, Array):
            self.array(type.element, target, nullable)
        elif isinstance(type, Nested):
            if nullable:
                self.nullable_struct(type, target)
            else:
                self.inner_struct(type.struct, target)

    def inner_struct(self, cls: type[Struct] | type[Message], target: str) -> None:
        created = self.struct(cls)
        if cls.frozen:
            self.flush()
        self.source.line(f"{target} = {created}")

    def nullable_struct(self, type: Nested[Any], target: str) -> None:
        present, size = self.flush(then="b")
        self.source.line(f"pos += {size}")
        with self.source.block(f"if {present} < 0:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.inner_struct(type.struct, target)
            self.flush()

    def blob(self, type: Blob[Any], target: str, nullable: bool) -> None:
        length, size = self.flush(then=type.code)
        self.source.line(f"pos += {size}")
        with self.source.block(f"if {length} >= 0:"):
            self.source.line(f"{target} = data[pos:(pos := pos + {length})]{'.decode()' if type.is_text else ''}")
        with self.source.block("else:"):
            self.source.line(f"{target} = None" if nullable else f"{self.helper(primitives.null)}(pos - {size})")

    def compact_blob(self, type: Blob[Any], target: str, nullable: bool) -> None:
        length, size = self.flush(then="B")
        text = ".decode()" if type.is_text else ""
        slow = self.helper(primitives.read_compact_text if type.is_text else primitives.read_compact_bytes)
        with self.source.block(f"if 0 < {length} < 128:"):
            after = f"pos + {size - 1} + {length}" if size > 1 else f"pos + {length}"
            self.source.line(f"{target} = data[pos + {size}:(pos := {after})]{text}")
        if nullable:
            with self.source.block(f"elif {length} == 0:"):
                self.source.line(f"{target} = None")
                self.source.line(f"pos += {size}")
        with self.source.block("else:"):
            self.source.line(f"{target}, pos = {slow}(data, pos + {size - 1})")

    def array(self, element: Type[Any], target: str, nullable: bool) -> None:
        smallest = max(1, minimum_size(element, self.version, self.flexible))
        count, size = self.flush(then="B" if self.flexible else "i")
        if self.flexible:
            with self.source.block(f"if {count} < 128:"):
                self.source.line(f"{count} -= 1")
                self.source.line(f"pos += {size}")
                with self.source.block(f"if {count} * {smallest} > len(data) - pos:"):
                    self.source.line(f"{self.helper(primitives.too_many)}({count}, data, pos)")
            with self.source.block("else:"):
                read = self.helper(primitives.read_compact_count)
                self.source.line(f"{count}, pos = {read}(data, pos + {size - 1}, {smallest})")
        else:
            self.source.line(f"pos += {size}")
            with self.source.block(f"if {count} * {smallest} > len(data) - pos:"):
                self.source.line(f"{self.helper(primitives.too_many)}({count}, data, pos)")
        with self.source.block(f"if {count} < 0:"):
            self.source.line(f"{target} = None" if nullable else f"{self.helper(primitives.null)}(pos)")
        with self.source.block("else:"):
            self.elements(element, target, count)

    def elements(self, element: Type[Any], target: str, count: str) -> None:
        if isinstance(element, Fixed) and len(element.code) == 1:
            unpack = self.helper(struct.unpack_from)
            self.source.line(f'{target} = list({unpack}(f">{{{count}}}{element.code}", data, pos))')
            self.source.line(f"pos += {count} * {element.size}")
            return
        items = self.source.name("items")
        item = self.source.name("item")
        self.source.line(f"{target} = {items} = []")
        with self.source.block(f"for _ in range({count}):"):
            self.value(element, item, nullable=False)
            self.flush()
            self.source.line(f"{items}.append({item})")

    def tagged(self, fields: list[Field], values: dict[str, str]) -> None:
        count, size = self.flush(then="B")
        if not fields:
            with self.source.block(f"if {count}:"):
                self.source.line(f"pos = {self.helper(primitives.skip_tagged)}(data, pos + {size - 1})")
            with self.source.block("else:"):
                self.source.line(f"pos += {size}")
            return
        read = self.helper(primitives.read_uvarint)
        tag, end = self.source.name("tag"), self.source.name("end")
        self.source.line(f"pos += {size}")
        with self.source.block(f"if {count}:"):
            self.source.line(f"{count}, pos = {read}(data, pos - 1)")
            with self.source.block(f"for _ in range({count}):"):
                self.source.line(f"{tag}, pos = {read}(data, pos)")
                self.source.line(f"pos, {end} = {self.helper(primitives.tagged_end)}(data, pos)")
                for index, each in enumerate(fields):
                    with self.source.block(f"{'elif' if index else 'if'} {tag} == {each.tag}:"):
                        self.value(each.type, values[each.name], self.version in each.nullable)
                        self.flush()
                        with self.source.block(f"if pos != {end}:"):
                            self.source.line(f"{self.helper(primitives.wrong_size)}({end})")
                with self.source.block("else:"):
                    self.source.line(f"pos = {end}")
