"""Encoder compiler: straight-line Python source that encodes one message class in one version.

The encoder collects pieces and joins them once. One `struct` call packs a run of fixed-width fields; parts that never
change are constants; `columns.py` writes long arrays of flat structs. A value that the version cannot hold raises
EncodeError, as in Kafka's writers: a field that the version lacks must have its default, unless it is ignorable.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from kafka_shim.apis.wire import primitives
from kafka_shim.apis.wire.columns import write_columns
from kafka_shim.apis.wire.declared import Declarable, Field, Struct
from kafka_shim.apis.wire.exceptions import EncodeError
from kafka_shim.apis.wire.source import Source
from kafka_shim.apis.wire.types import Array, Blob, Fixed, Nested, Type

_FAILURES: Final = (EncodeError, struct.error, AttributeError, TypeError, ValueError, OverflowError)


def compile_encoder(cls: type[Declarable], version: int, flexible: bool) -> Callable[[Any], bytes]:
    """Compile the encoder of `cls` in `version`: `(message) -> bytes`."""
    writer = EncoderWriter(f"{cls.__name__} v{version} encoder", version, flexible)
    source = writer.source
    with source.block("def encode(message):"):
        with source.block("try:"):
            writer.struct(cls, "message")
            writer.finish()
        with source.block(f"except {source.constant('failures', _FAILURES)} as error:"):
            source.line(f"raise {source.helper(_explain)}(error, {cls.__name__!r}, {version}) from error")
    encoder: Callable[[Any], bytes] = source.compile("encode")["encode"]
    return encoder


def compile_part_encoder(
    cls: type[Declarable], version: int, flexible: bool, array: str
) -> Callable[[Any], tuple[bytes, bytes, bytes]]:
    """Compile the encoder of a message whose field `array` is long and written in parts: what is before the count of
    its elements, these elements, and what is after them."""
    writer = EncoderWriter(f"{cls.__name__} v{version} encoder in parts", version, flexible, array)
    source = writer.source
    with source.block("def encode(message):"):
        with source.block("try:"):
            writer.struct(cls, "message")
            writer.cut("tail")
            source.line("return head, elements, tail")
        with source.block(f"except {source.constant('failures', _FAILURES)} as error:"):
            source.line(f"raise {source.helper(_explain)}(error, {cls.__name__!r}, {version}) from error")
    encoder: Callable[[Any], tuple[bytes, bytes, bytes]] = source.compile("encode")["encode"]
    return encoder


def encoded_count(count: int, flexible: bool) -> bytes:
    """Encode the count that leads the elements of an array."""
    return primitives.compact_length(count) if flexible else struct.pack(">i", count)


def _explain(error: Exception, message: str, version: int) -> EncodeError:
    return EncodeError(f"{message} v{version}: {error}")


def _refuse(field: str, value: object) -> NoReturn:
    raise EncodeError(f"no field {field} in this version, but it is {value!r:.100}")


def refuse_uuid(value: bytes) -> NoReturn:
    """Refuse a uuid of another length than 16 bytes; `struct` would silently cut or pad it."""
    raise EncodeError(f"a uuid has 16 bytes, not {len(value)}")


class EncoderWriter:
    """Writes the body of one encoder.

    `_run` holds the fixed-width values that are not yet a piece, `_ready` the pieces that are not yet written out to
    the list `pieces`, which is created on first need.
    """

    def __init__(self, title: str, version: int, flexible: bool, apart: str | None = None) -> None:
        self.source = Source(title)
        self.apart = apart
        self.version = version
        self.flexible = flexible
        self.pieces = self.source.name("pieces")
        self._has_list = False
        self._run: list[tuple[str, str]] = []
        self._ready: list[str] = []
        for name in ("message", "error", "head", "elements", "tail"):
            self.source.name(name)

    def packed(self, run: list[tuple[str, str]]) -> str:
        """Return the expression that packs a run of `(format, expression)`."""
        codes = "".join(code for code, _ in run)
        values = [value for _, value in run]
        if all(value.isdecimal() for value in values):
            return repr(struct.pack(">" + codes, *map(int, values)))
        pack = self.source.constant(f"pack_{codes.replace('?', 'z')}", primitives.packer(codes))
        return f"{pack}({', '.join(values)})"

    def end_run(self) -> None:
        """Turn the pending fixed-width values into one piece."""
        run, self._run = self._run, []
        if run:
            self._ready.append(self.packed(run))

    def flush(self) -> None:
        """Write out all pending values. Call it before code that is written inside a condition or a loop."""
        self.end_run()
        ready, self._ready = self._ready, []
        if not self._has_list:
            self._has_list = True
            self.source.line(f"{self.pieces} = [{', '.join(ready)}]")
        elif len(ready) == 1:
            self.source.line(f"{self.pieces}.append({ready[0]})")
        elif ready:
            self.source.line(f"{self.pieces} += ({', '.join(ready)})")

    def finish(self) -> None:
        """Write the return of all pieces as one."""
        self.end_run()
        if self._has_list:
            self.flush()
            self.source.line(f"return b''.join({self.pieces})")
        elif len(self._ready) == 1:
            self.source.line(f"return {self._ready[0]}")
        else:
            self.source.line(f"return b''.join(({', '.join(self._ready)}))")

    def struct(self, cls: type[Declarable], value: str) -> None:
        """Write the code that encodes a struct's fields."""
        tagged = []
        for each in cls.fields:
            target = f"{value}.{each.name}"
            if self.version not in each.versions:
                if not each.ignorable:
                    with self.source.block(f"if {self.differs(each, target)}:"):
                        self.source.line(f"{self.source.helper(_refuse)}({f'{cls.__name__}.{each.name}'!r}, {target})")
            elif self.version in each.tagged:
                tagged.append(each)
            elif each.name == self.apart and value == "message" and isinstance(each.type, Array):
                self.elements_apart(each.type.element, target)
            else:
                self.value(each.type, target, self.version in each.nullable)
        if self.flexible:
            self.tagged(sorted(tagged, key=lambda each: each.tag or 0), value)

    def differs(self, field: Field, value: str) -> str:
        """Return the condition under which `value` is not the field's default."""
        default = field.default_value()
        if default is None:
            return f"{value} is not None"
        if isinstance(field.type, Array):
            return f"{value} is None or len({value})"
        return f"{value} != {self.source.literal(default)}"

    def value(self, type: Type[Any], value: str, nullable: bool) -> None:
        """Write the code that encodes one value."""
        if isinstance(type, Fixed):
            self._run.append((type.code, self.fixed(type, value)))
        elif isinstance(type, Blob):
            self.blob(type, value, nullable)
        elif isinstance(type, Array):
            self.array(type.element, value, nullable)
        elif isinstance(type, Nested):
            self.nested(type.struct, value, nullable)

    def fixed(self, type: Fixed[Any], value: str) -> str:
        """Return the expression to pack for a fixed-width value."""
        if type.code != "16s":
            return value
        return f"({value} if len({value}) == 16 else {self.source.helper(refuse_uuid)}({value}))"

    def nested(self, cls: type[Struct], value: str, nullable: bool, null: bytes = b"\xff") -> None:
        """Write the code for a struct. A nullable one begins with a byte; in a tagged field with a varint of which 0 is
        null (KIP-893).
        """
        local = self.source.name("o")
        if not nullable:
            self.source.line(f"{local} = {value}")
            self.struct(cls, local)
            return
        self.flush()
        self.source.line(f"{local} = {value}")
        with self.source.block(f"if {local} is None:"):
            self.source.line(f"{self.pieces}.append({null!r})")
        with self.source.block("else:"):
            self._run.append(("b", "1"))
            self.struct(cls, local)
            self.flush()

    def blob(self, type: Blob[Any], value: str, nullable: bool) -> None:
        local, length = self.source.name("b"), self.source.name("n")
        encoded = f"{value}.encode()" if type.is_text else value
        if nullable:
            with self.source.block(f"if {value} is None:"):
                self.source.line(f"{local} = b''")
                self.source.line(f"{length} = -1")
            with self.source.block("else:"):
                self.source.line(f"{local} = {encoded}")
                self.source.line(f"{length} = len({local})")
        else:
            self.source.line(f"{local} = {encoded}")
            self.source.line(f"{length} = len({local})")
        self.length(length, type.code, primitives.compact_text_length if type.is_text else primitives.compact_length)
        self._ready.append(local)

    def length(self, length: str, code: str, compact: Callable[[int], bytes] = primitives.compact_length) -> None:
        """Add a length or count; -1 stands for null."""
        if self.flexible:
            self.end_run()
            table = self.source.constant("lengths", primitives.COMPACT_LENGTHS_OR_NULL)
            slow = self.source.helper(compact)
            self._ready.append(f"{table}[{length}] if {length} < {primitives.SMALL} else {slow}({length})")
        else:
            self._run.append((code, length))
            self.end_run()

    def array(self, element: Type[Any], value: str, nullable: bool) -> None:
        items, count = self.source.name("items"), self.source.name("n")
        self.source.line(f"{items} = {value}")
        if not nullable:
            self.elements(element, items, count)
            return
        self.flush()
        with self.source.block(f"if {items} is None:"):
            self.source.line(f"{self.pieces}.append({primitives.null_blob('' if self.flexible else 'i')!r})")
        with self.source.block("else:"):
            self.elements(element, items, count)
            self.flush()

    def elements_apart(self, element: Type[Any], value: str) -> None:
        """Write the code for the elements of the array that is written in parts, which has no nulls."""
        self.cut("head")
        items, count = self.source.name("items"), self.source.name("n")
        self.source.line(f"{items} = {value}")
        self.source.line(f"{count} = len({items})")
        self.each(element, items, count)
        self.cut("elements")

    def cut(self, name: str) -> None:
        """Write the join of all pieces up to here, under a name of its own."""
        self.flush()
        self.source.line(f"{name} = b''.join({self.pieces})")
        self.source.line(f"{self.pieces} = []")

    def elements(self, element: Type[Any], items: str, count: str) -> None:
        self.source.line(f"{count} = len({items})")
        self.length(count, "i")
        if isinstance(element, Fixed) and len(element.code) == 1:
            pack = self.source.helper(struct.pack)
            self._ready.append(f'{pack}(f">{{{count}}}{element.code}", *{items})')
            return
        self.each(element, items, count)

    def each(self, element: Type[Any], items: str, count: str) -> None:
        self.flush()
        if isinstance(element, Nested):
            write_columns(self, element.struct, items, count)
        item = self.source.name("item")
        with self.source.block(f"for {item} in {items}:"):
            if isinstance(element, Nested):
                self.struct(element.struct, item)
            else:
                self.value(element, item, nullable=False)
            self.flush()

    def tagged(self, fields: list[Field], value: str) -> None:
        """Write the code that encodes a section of tagged fields: those of `fields` that differ from their default."""
        if not fields:
            self._run.append(("B", "0"))
            return
        self.flush()
        count, section = self.source.name("n"), self.source.name("section")
        write = self.source.helper(primitives.write_uvarint)
        self.source.line(f"{count} = 0")
        self.source.line(f"{section} = []")
        for each in fields:
            target = f"{value}.{each.name}"
            with self.source.block(f"if {self.differs(each, target)}:"):
                body = self.source.name("body")
                with self._into(body):
                    if isinstance(each.type, Nested):
                        self.nested(each.type.struct, target, self.version in each.nullable, b"\0")
                    else:
                        self.value(each.type, target, self.version in each.nullable)
                self.source.line(f"{body} = b''.join({body})")
                tag = primitives.write_uvarint(each.tag or 0)
                self.source.line(f"{section} += ({tag!r}, {write}(len({body})), {body})")
                self.source.line(f"{count} += 1")
        self._ready += (f"{write}({count})", f"*{section}")

    @contextmanager
    def _into(self, pieces: str) -> Iterator[None]:
        """Collect the pieces written within the context in a separate list."""
        outer, self.pieces = self.pieces, pieces
        self._has_list = False
        yield
        self.flush()
        self.pieces = outer
        self._has_list = True
