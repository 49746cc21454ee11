"""The encoder of one message class in one version, as straight-line Python source.

Decides how objects become bytes: the encoder collects pieces and joins them once. Runs of fixed-width fields, and the
lengths that follow them, are packed by one `struct` call; what never changes is a constant. A value that the version
cannot say raises EncodeError, as Kafka's writers do: a field it does not have and that is not ignorable must have its
default.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from apis.wire import primitives
from apis.wire.exceptions import EncodeError
from apis.wire.source import Source
from apis.wire.types import Array, Blob, Fixed, Nested, Type

if TYPE_CHECKING:
    from apis.wire.message import Field, Message, Struct


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any], bytes]:
    """The encoder of `cls` in `version`: `(message) -> bytes`."""
    writer = _Writer(cls, version)
    source = writer.source
    with source.block("def encode(message):"):
        with source.block("try:"):
            source.line(f"{writer.pieces} = []")
            writer.struct(cls, "message")
            writer.flush()
            source.line(f"return b''.join({writer.pieces})")
        source.line(f"except {source.constant('failures', _FAILURES)} as error:")
        source.line(f"    raise {source.constant('blame', _blame)}(error, message, {version}) from error")
    encoder: Callable[[Any], bytes] = source.compile("encode")["encode"]
    return encoder


_FAILURES = (EncodeError, struct.error, AttributeError, TypeError, ValueError, OverflowError)


def _blame(error: Exception, message: Message, version: int) -> EncodeError:
    return EncodeError(f"{type(message).__name__} v{version}: {error}")


def _refuse(field: str, value: object) -> None:
    raise EncodeError(f"no field {field} in this version, but it is {value!r:.100}")


class _Writer:
    """Writes the body of one encoder. `_run` holds the fixed-width values, `_ready` the pieces, not yet written out."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self.source = Source(f"{cls.__name__} v{version} encoder")
        self.version = version
        self.flexible = version in cls.flexible
        self.pieces = "pieces"
        self._run: list[tuple[str, str]] = []
        self._ready: list[str] = []

    def end_run(self) -> None:
        """Make one piece of the pending fixed-width values."""
        run, self._run = self._run, []
        if not run:
            return
        format = ">" + "".join(code for code, _ in run)
        values = [value for _, value in run]
        if all(value.isdecimal() for value in values):
            self._ready.append(repr(struct.pack(format, *map(int, values))))
        else:
            pack = self.source.constant("pack", struct.Struct(format).pack)
            self._ready.append(f"{pack}({', '.join(values)})")

    def flush(self) -> None:
        """Write all that is pending out."""
        self.end_run()
        ready, self._ready = self._ready, []
        if ready:
            self.source.line(f"{self.pieces} += ({', '.join(ready)},)")

    def struct(self, cls: type[Struct] | type[Message], value: str) -> None:
        tagged = []
        for each in cls.fields:
            target = f"{value}.{each.name}"
            if self.version not in each.versions:
                if not each.ignorable:
                    with self.source.block(f"if {self.differs(each, target)}:"):
                        self.source.line(f"{self.source.helper(_refuse)}({cls.__name__ + '.' + each.name!r}, {target})")
            elif self.version in each.tagged:
                tagged.append(each)
            else:
                self.value(each.type, target, self.version in each.nullable)
        if self.flexible:
            self.tagged(sorted(tagged, key=lambda each: each.tag or 0), value)

    def differs(self, field: Field, value: str) -> str:
        """The condition under which `value` is not the field's default."""
        default = field.default_value()
        if default is None:
            return f"{value} is not None"
        if isinstance(field.type, Array):
            return f"{value} is None or len({value})"
        return f"{value} != {self.source.literal(default)}"

    def value(self, type: Type[Any], value: str, nullable: bool) -> None:
        if isinstance(type, Fixed):
            self.fixed(type, value)
        elif isinstance(type, Blob):
            self.blob(type, value, nullable)
        elif isinstance(type, Array):
            self.array(type.element, value, nullable)
        elif isinstance(type, Nested):
            local = self.source.name("o")
            self.source.line(f"{local} = {value}")
            if nullable:
                self.nullable_struct(type, local)
            else:
                self.struct(type.struct, local)

    def fixed(self, type: Fixed[Any], value: str) -> None:
        if type.code == "16s":
            value = f"{self.source.helper(_sixteen)}({value})"
        self._run.append((type.code, value))

    def nullable_struct(self, type: Nested[Any], value: str) -> None:
        self.flush()
        with self.source.block(f"if {value} is None:"):
            self.source.line(f"{self.pieces}.append(b'\\xff')")
        with self.source.block("else:"):
            self._run.append(("b", "1"))
            self.struct(type.struct, value)
            self.flush()

    def length(self, length: str) -> None:
        """Add a compact length."""
        self.end_run()
        table = self.source.constant("lengths", primitives.COMPACT_LENGTHS)
        slow = self.source.helper(primitives.compact_length)
        self._ready.append(f"{table}[{length}] if {length} < {len(primitives.COMPACT_LENGTHS)} else {slow}({length})")

    def blob(self, type: Blob[Any], value: str, nullable: bool) -> None:
        local, length = self.source.name("b"), self.source.name("n")
        self.source.line(f"{local} = {value}{'' if nullable or not type.is_text else '.encode()'}")
        if not nullable:
            self.source.line(f"{length} = len({local})")
        else:
            with self.source.block(f"if {local} is None:"):
                self.source.line(f"{local} = b''")
                self.source.line(f"{length} = -1")
            with self.source.block("else:"):
                if type.is_text:
                    self.source.line(f"{local} = {local}.encode()")
                self.source.line(f"{length} = len({local})")
        if not self.flexible:
            self._run.append((type.code, length))
            self.end_run()
        elif nullable:
            self.end_run()
            table = self.source.constant("nullable_lengths", primitives.NULLABLE_COMPACT_LENGTHS)
            slow = self.source.helper(primitives.compact_length)
            limit = len(primitives.COMPACT_LENGTHS)
            self._ready.append(f"{table}[{length}] if {length} < {limit} else {slow}({length})")
        else:
            self.length(length)
        self._ready.append(local)

    def array(self, element: Type[Any], value: str, nullable: bool) -> None:
        local, count = self.source.name("items"), self.source.name("n")
        self.source.line(f"{local} = {value}")
        if nullable:
            self.flush()
            with self.source.block(f"if {local} is None:"):
                self.source.line(f"{self.pieces}.append({(bytes(1) if self.flexible else bytes([255] * 4))!r})")
            with self.source.block("else:"):
                self.elements(element, local, count)
                self.flush()
        else:
            self.elements(element, local, count)

    def elements(self, element: Type[Any], items: str, count: str) -> None:
        self.source.line(f"{count} = len({items})")
        if self.flexible:
            self.length(count)
        else:
            self._run.append(("i", count))
            self.end_run()
        if isinstance(element, Fixed) and len(element.code) == 1:
            self._ready.append(f'{self.source.helper(struct.pack)}(f">{{{count}}}{element.code}", *{items})')
            return
        self.flush()
        item = self.source.name("item")
        with self.source.block(f"for {item} in {items}:"):
            self.value(element, item, nullable=False)
            self.flush()

    def tagged(self, fields: list[Field], value: str) -> None:
        if not fields:
            self._run.append(("B", "0"))
            return
        self.flush()
        count, section = self.source.name("n"), self.source.name("section")
        self.source.line(f"{count} = 0")
        self.source.line(f"{section} = []")
        for each in fields:
            with self.source.block(f"if {self.differs(each, f'{value}.{each.name}')}:"):
                body = self.source.name("body")
                self.source.line(f"{count} += 1")
                with self.into(body):
                    self.value(each.type, f"{value}.{each.name}", self.version in each.nullable)
                self.source.line(f"{body} = b''.join({body})")
                write = self.source.helper(primitives.write_uvarint)
                tag = primitives.write_uvarint(each.tag or 0)
                self.source.line(f"{section} += ({tag!r}, {write}(len({body})), {body})")
        self._ready.append(f"{self.source.helper(primitives.write_uvarint)}({count})")
        self._ready.append(f"*{section}")

    @contextmanager
    def into(self, pieces: str) -> Iterator[None]:
        """Collect the pieces of what is written within the context in a list of its own."""
        outer, self.pieces = self.pieces, pieces
        self.source.line(f"{pieces} = []")
        yield
        self.flush()
        self.pieces = outer


def _sixteen(value: bytes) -> bytes:
    if len(value) != 16:
        raise EncodeError(f"a uuid has 16 bytes, not {len(value)}")
    return value
