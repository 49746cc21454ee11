"""The encoder of one message class in one version, as straight-line Python source.

Decides how objects become bytes: the encoder collects pieces and joins them once. Runs of fixed-width fields are packed
by one `struct` call; what never changes is a constant; long arrays of flat structs are written by `columns.py`. A value
that the version cannot say raises EncodeError, as Kafka's writers do: a field it does not have and that is not
ignorable must have its default.
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
    """The encoder of `cls` in `version`: `(message) -> bytes`."""
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


def _explain(error: Exception, message: str, version: int) -> EncodeError:
    return EncodeError(f"{message} v{version}: {error}")


def _refuse(field: str, value: object) -> NoReturn:
    raise EncodeError(f"no field {field} in this version, but it is {value!r:.100}")


def sixteen(value: bytes) -> bytes:
    """The uuid itself; `struct` would cut or fill what has not 16 bytes."""
    if len(value) != 16:
        raise EncodeError(f"a uuid has 16 bytes, not {len(value)}")
    return value


class EncoderWriter:
    """Writes the body of one encoder.

    `_run` holds the fixed-width values that are not yet a piece, `_ready` the pieces that are not yet written out to
    the list `pieces`, which is made when it is first needed.
    """

    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.source = Source(title)
        self.version = version
        self.flexible = flexible
        self.pieces = self.source.name("pieces")
        self._made = False
        self._run: list[tuple[str, str]] = []
        self._ready: list[str] = []
        for taken in ("message", "error"):
            self.source.name(taken)

    def packed(self, run: list[tuple[str, str]]) -> str:
        """The expression that packs a run of `(format, expression)`."""
        codes = "".join(code for code, _ in run)
        values = [value for _, value in run]
        if all(value.isdecimal() for value in values):
            return repr(struct.pack(">" + codes, *map(int, values)))
        pack = self.source.constant(f"pack_{codes.replace('?', 'z')}", primitives.packer(codes))
        return f"{pack}({', '.join(values)})"

    def end_run(self) -> None:
        """Make one piece of the pending fixed-width values."""
        run, self._run = self._run, []
        if run:
            self._ready.append(self.packed(run))

    def flush(self) -> None:
        """Write all that is pending out. To be called before anything that is written conditionally or repeatedly."""
        self.end_run()
        ready, self._ready = self._ready, []
        if not self._made:
            self._made = True
            self.source.line(f"{self.pieces} = [{', '.join(ready)}]")
        elif len(ready) == 1:
            self.source.line(f"{self.pieces}.append({ready[0]})")
        elif ready:
            self.source.line(f"{self.pieces} += ({', '.join(ready)})")

    def finish(self) -> None:
        """Write the return of all pieces as one."""
        self.end_run()
        if self._made:
            self.flush()
            self.source.line(f"return b''.join({self.pieces})")
        elif len(self._ready) == 1:
            self.source.line(f"return {self._ready[0]}")
        else:
            self.source.line(f"return b''.join(({', '.join(self._ready)}))")

    def struct(self, cls: type[Declarable], value: str) -> None:
        """Write the writing of a struct's fields."""
        tagged = []
        for each in cls.fields:
            target = f"{value}.{each.name}"
            if self.version not in each.versions:
                if not each.ignorable:
                    with self.source.block(f"if {self.differs(each, target)}:"):
                        self.source.line(f"{self.source.helper(_refuse)}({f'{cls.__name__}.{each.name}'!r}, {target})")
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
        """Write the writing of one value."""
        if isinstance(type, Fixed):
            self._run.append((type.code, self.fixed(type, value)))
        elif isinstance(type, Blob):
            self.blob(type, value, nullable)
        elif isinstance(type, Array):
            self.array(type.element, value, nullable)
        elif isinstance(type, Nested):
            self.nested(type.struct, value, nullable)

    def fixed(self, type: Fixed[Any], value: str) -> str:
        """The expression to be packed for a fixed-width value."""
        return f"{self.source.helper(sixteen)}({value})" if type.code == "16s" else value

    def nested(self, cls: type[Struct], value: str, nullable: bool, null: bytes = b"\xff") -> None:
        """A nullable one is led by a byte; in a tagged field it is a varint of which 0 is null (KIP-893)."""
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
        self.length(length, type.code)
        self._ready.append(local)

    def length(self, length: str, code: str) -> None:
        """Add a length or count; -1 stands for null."""
        if self.flexible:
            self.end_run()
            table = self.source.constant("lengths", primitives.COMPACT_LENGTHS_OR_NULL)
            slow = self.source.helper(primitives.compact_length)
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

    def elements(self, element: Type[Any], items: str, count: str) -> None:
        self.source.line(f"{count} = len({items})")
        self.length(count, "i")
        if isinstance(element, Fixed) and len(element.code) == 1:
            pack = self.source.helper(struct.pack)
            self._ready.append(f'{pack}(f">{{{count}}}{element.code}", *{items})')
            return
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
        """Write the writing of a section of tagged fields: those of `fields` that have not their default."""
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
        """Collect the pieces of what is written within the context in a list of their own."""
        outer, self.pieces = self.pieces, pieces
        self._made = False
        yield
        self.flush()
        self.pieces = outer
        self._made = True
