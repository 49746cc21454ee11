"""Decoder compiler: straight-line Python source that decodes one message class in one version.

One `struct` call reads a run of fixed-width fields, including the length or count that follows them and structs in
place. Rare cases (long varints, nulls, tagged fields) are left to `primitives.py`, arrays of elements that look alike
to `strides.py`.

Bounds: an index past the end raises IndexError, and a short `struct` read raises `struct.error`. A slice that is too
short moves `pos` past the end, where the next read or the last check detects it. An array is built only if its elements
at their smallest fit into the rest of the data, and if the caller allows so many elements in the whole message. So for
any bytes, the caller gets a message or a DecodeError, and memory stays in proportion to the input.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, Final, Protocol

from kafka_shim.apis.wire import primitives
from kafka_shim.apis.wire.declared import Declarable, Field
from kafka_shim.apis.wire.exceptions import DecodeError, explain
from kafka_shim.apis.wire.source import Source
from kafka_shim.apis.wire.strides import read_alike
from kafka_shim.apis.wire.types import Array, Blob, Fixed, Nested, Type


class Decoder(Protocol):
    """Compiled code: reads a message at `pos` that has at most `remaining` elements in all its arrays, counting unknown
    tagged fields. Returns the message and the offset after it; raises DecodeError."""

    def __call__(self, data: bytes, pos: int, remaining: int = ..., /) -> tuple[Any, int]: ...


TEXT: Final = f'.decode("utf-8", "{primitives.TEXT_ERRORS}")'
"""How bytes become a string; see `TEXT_ERRORS`."""


def compile_decoder(cls: type[Declarable], version: int, flexible: bool) -> Decoder:
    """Compile the decoder of `cls` in `version`."""
    writer = DecoderWriter(f"{cls.__name__} v{version} decoder", version, flexible)
    source = writer.source
    failures = source.constant("failures", (DecodeError, IndexError, struct.error))
    with source.block(f"def decode(data, pos, remaining={sys.maxsize}):"):
        with source.block("try:"):
            message = writer.struct(cls)
            writer.flush()
            if not writer.flexible:
                with source.block("if pos > len(data):"):
                    source.line("raise IndexError")
            source.line(f"return {message}, pos")
        with source.block(f"except {failures} as error:"):
            source.line(f"raise {source.helper(explain)}(error, data, pos, {cls.__name__!r}) from None")
    decoder: Decoder = source.compile("decode")["decode"]
    return decoder


def minimum_size(type: Type[Any], version: int, flexible: bool, nullable: bool = False) -> int:
    """Return the smallest number of bytes that a value of `type` takes in `version`."""
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


class DecoderWriter:
    """Writes the body of one decoder. `_run` holds the fixed-width reads that are not yet written out."""

    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.source = Source(title)
        self.version = version
        self.flexible = flexible
        self._run: list[tuple[str, str]] = []
        for name in ("data", "pos", "remaining", "error"):
            self.source.name(name)

    def flush(self) -> None:
        """Write out the pending reads and move `pos` past them."""
        if self._run:
            size = self._unpack()
            self.source.line(f"pos += {size}")

    def flush_with(self, code: str, stem: str = "n") -> tuple[str, int]:
        """Write out the pending reads and one more of format `code`; the caller moves `pos`.

        Returns the variable of that last read and the size of the run.
        """
        last = self.source.name(stem)
        self._run.append((code, last))
        return last, self._unpack()

    def _unpack(self) -> int:
        run, self._run = self._run, []
        codes = "".join(code for code, _ in run)
        targets = ", ".join(target for _, target in run)
        if codes == "B":
            self.source.line(f"{targets} = data[pos]")
            return 1
        if len(run) == 1:
            targets += ","
        unpack = self.source.constant(f"unpack_{codes.replace('?', 'z')}", primitives.unpacker(codes))
        self.source.line(f"{targets} = {unpack}(data, pos)")
        return struct.calcsize(">" + codes)

    def struct(self, cls: type[Declarable]) -> str:
        """Write the code that reads a struct's fields; return the expression of the object, complete once flushed."""
        present = [each for each in cls.fields if self.version in each.versions]
        tagged = [each for each in present if self.version in each.tagged]
        if tagged and not self.flexible:
            raise TypeError(
                f"{cls.__name__}.{tagged[0].name} is tagged in a version that is not flexible, {self.version}"
            )
        constructor = self.source.constant(cls.__name__, cls)
        if cls.frozen:
            targets = {each.name: self.source.name(each.name) for each in cls.fields}
            created = f"{constructor}({', '.join(targets.values())})"
        else:
            created = self.source.name("o")
            targets = {each.name: f"{created}.{each.name}" for each in cls.fields}
            self.source.line(f"{created} = {self.source.constant('new', object.__new__)}({constructor})")
        for each in cls.fields:
            if each in present and each not in tagged:
                self.value(each.type, targets[each.name], self.version in each.nullable)
            else:
                self.source.line(f"{targets[each.name]} = {self.default(each)}")
        if self.flexible:
            self.tagged(tagged, targets)
        return created

    def default(self, field: Field) -> str:
        """Return the expression of a field's default value."""
        if not field.is_mutable:
            return self.source.literal(field.default_value())
        return "[]" if isinstance(field.type, Array) else f"{self.source.constant('zero', field.type.zero)}()"

    def value(self, type: Type[Any], target: str, nullable: bool) -> None:
        """Write the code that reads one value into `target`."""
        if isinstance(type, Fixed):
            self._run.append((type.code, target))
        elif isinstance(type, Blob):
            (self.compact_blob if self.flexible else self.blob)(type, target, nullable)
        elif isinstance(type, Array):
            self.array(type.element, target, nullable)
        elif isinstance(type, Nested):
            (self.nullable_struct if nullable else self.nested)(type, target)

    def nested(self, type: Nested[Any], target: str) -> None:
        created = self.struct(type.struct)
        if type.struct.frozen:
            self.flush()
        self.source.line(f"{target} = {created}")

    def nullable_struct(self, type: Nested[Any], target: str, null: str = "< 0") -> None:
        """Write the code for a nullable struct: a byte in front of it, or in a tagged field a varint of which 0 is null
        (KIP-893).
        """
        present, size = self.flush_with("b")
        self.source.line(f"pos += {size}")
        with self.source.block(f"if {present} {null}:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.nested(type, target)
            self.flush()

    def blob(self, type: Blob[Any], target: str, nullable: bool) -> None:
        length, size = self.flush_with(type.code)
        self.source.line(f"pos += {size}")
        with self.source.block(f"if {length} >= 0:"):
            self.source.line(f"{target} = data[pos : (pos := pos + {length})]{TEXT if type.is_text else ''}")
        with self.source.block("else:"):
            self.source.line(f"{target} = None" if nullable else f"{self.source.helper(primitives.null)}(pos)")

    def compact_blob(self, type: Blob[Any], target: str, nullable: bool) -> None:
        length, size = self.flush_with("B")
        text = TEXT if type.is_text else ""
        slow = self.source.helper(primitives.read_compact_text if type.is_text else primitives.read_compact_bytes)
        if nullable:
            with self.source.block(f"if not {length}:"):
                self.source.line(f"{target} = None")
                self.source.line(f"pos += {size}")
        with self.source.block(f"elif {length} < 128:" if nullable else f"if {length} and {length} < 128:"):
            after = f"{_plus('pos', size - 1)} + {length}"
            self.source.line(f"{target} = data[pos + {size} : (pos := {after})]{text}")
        with self.source.block("else:"):
            self.source.line(f"{target}, pos = {slow}(data, {_plus('pos', size - 1)})")

    def array(self, element: Type[Any], target: str, nullable: bool) -> None:
        smallest = max(1, minimum_size(element, self.version, self.flexible))
        count, size = self.flush_with("B" if self.flexible else "i")
        if self.flexible:
            read = self.source.helper(primitives.read_uvarint)
            with self.source.block(f"if {count} < 128:"):
                self.source.line(f"pos += {size}")
            with self.source.block("else:"):
                self.source.line(f"{count}, pos = {read}(data, {_plus('pos', size - 1)})")
            self.source.line(f"{count} -= 1")
        else:
            self.source.line(f"pos += {size}")
        with self.source.block(f"if {count} > 0:"):
            with self.source.block(f"if {count} * {smallest} > len(data) - pos:"):
                self.source.line(f"{self.source.helper(primitives.too_many)}({count}, data, pos)")
            self.spend(count)
            self.elements(element, target, count)
        with self.source.block(f"elif {count} == 0:"):
            self.source.line(f"{target} = []")
        with self.source.block("else:"):
            self.source.line(f"{target} = None" if nullable else f"{self.source.helper(primitives.null)}(pos)")

    def spend(self, count: str) -> None:
        """Write the check that so many elements are allowed still."""
        self.source.line(f"remaining -= {count}")
        with self.source.block("if remaining < 0:"):
            self.source.line(f"{self.source.helper(primitives.not_allowed)}(pos)")

    def elements(self, element: Type[Any], target: str, count: str) -> None:
        if isinstance(element, Fixed) and len(element.code) == 1:
            unpack = self.source.helper(struct.unpack_from)
            self.source.line(f'{target} = list({unpack}(f">{{{count}}}{element.code}", data, pos))')
            self.source.line(f"pos += {count} * {element.size}")
            return
        items, item = self.source.name("items"), self.source.name("item")
        self.source.line(f"{target} = {items} = []")
        if isinstance(element, Nested):
            read_alike(self, element.struct, items, count)
        with self.source.block(f"for _ in range({count}):"):
            if isinstance(element, Nested):
                item = self.struct(element.struct)
            else:
                self.value(element, item, nullable=False)
            self.flush()
            self.source.line(f"{items}.append({item})")

    def tagged(self, fields: list[Field], targets: dict[str, str]) -> None:
        """Write the code that reads a section of tagged fields, `fields` among them."""
        for each in fields:
            self.source.line(f"{targets[each.name]} = {self.default(each)}")
        count, size = self.flush_with("B")
        if not fields:
            with self.source.block(f"if {count}:"):
                skip = self.source.helper(primitives.skip_tagged)
                self.source.line(f"pos, remaining = {skip}(data, {_plus('pos', size - 1)}, remaining)")
            with self.source.block("else:"):
                self.source.line(f"pos += {size}")
            return
        read = self.source.helper(primitives.read_uvarint)
        tag, end = self.source.name("tag"), self.source.name("end")
        self.source.line(f"pos += {size}")
        with self.source.block(f"if {count}:"):
            self.source.line(f"{count}, pos = {read}(data, pos - 1)")
            self.spend(count)
            with self.source.block(f"if {count} > {primitives.MAX_TAGGED}:"):
                self.source.line(f"{self.source.helper(primitives.not_allowed)}(pos)")
            with self.source.block(f"for _ in range({count}):"):
                self.source.line(f"{tag}, pos = {read}(data, pos)")
                self.source.line(f"pos, {end} = {self.source.helper(primitives.tagged_span)}(data, pos)")
                for index, each in enumerate(fields):
                    with self.source.block(f"{'elif' if index else 'if'} {tag} == {each.tag}:"):
                        if isinstance(each.type, Nested) and self.version in each.nullable:
                            self.nullable_struct(each.type, targets[each.name], "<= 0")
                        else:
                            self.value(each.type, targets[each.name], self.version in each.nullable)
                        self.flush()
                        with self.source.block(f"if pos != {end}:"):
                            self.source.line(f"{self.source.helper(primitives.wrong_size)}({end})")
                with self.source.block("else:"):
                    self.source.line(f"pos = {end}")


def _plus(variable: str, number: int) -> str:
    return f"{variable} + {number}" if number else variable
