"""Lines of groups at rest as Arrow: answered heartbeats and commits, and accepted commits.

Nearly all lines of a trace are of these two kinds, and most of what they hold stands in no column. So only those
fields are parsed that do, by name and type, and all else is skipped. A line that is not of its kind is left to whoever
parses lines whole. It does not know files, nor which lines look like which kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

_Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)] | None
_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | None


class _Request(msgspec.Struct, gc=False):
    """Of a heartbeat or a commit."""

    generation_id: _Int32 = None
    generation_id_or_member_epoch: _Int32 = None
    member_epoch: _Int32 = None
    group_instance_id: str | None = None
    instance_id: str | None = None

    @property
    def generation(self) -> int | None:
        if self.generation_id is not None:
            return self.generation_id
        found = self.generation_id_or_member_epoch
        return self.member_epoch if found is None else found


class Renewal(msgspec.Struct, gc=False, rename={"member_id": "member"}):
    """An answered heartbeat or commit. Its fields are columns, but for `request`."""

    event: Literal["exchange"]
    request: _Request
    seq: _Int64 = None
    wall: float | None = None
    mono: float | None = None
    group: str | None = None
    error: _Int32 = None
    member_id: str | None = None
    client_id: str | None = None
    node: _Int32 = None
    conn: _Int64 = None
    api: str | None = None
    version: _Int32 = None
    correlation_id: _Int32 = None
    arrived: float | None = None


class _Offset(msgspec.Struct, gc=False):
    """Of an accepted commit."""

    topic: str
    partition: _Int32
    offset: _Int64 = None


class Commit(msgspec.Struct, gc=False, rename={"offsets_partition": "partition"}):
    """An accepted commit. Its fields are columns."""

    event: Literal["commit"]
    offsets: list[_Offset]
    seq: _Int64 = None
    wall: float | None = None
    mono: float | None = None
    group: str | None = None
    error: _Int32 = None
    member_id: str | None = None
    generation: _Int32 = None
    offsets_partition: _Int32 = None
    inferred: bool | None = None


_Event = TypeVar("_Event", Renewal, Commit)
_RENEWALS: Final = msgspec.json.Decoder(Renewal)
_COMMITS: Final = msgspec.json.Decoder(Commit)


class Parsed(NamedTuple):
    """Columns by name, of the lines at `indices`; the lines at `others` are not of this kind."""

    columns: dict[str, pa.Array]
    indices: list[int]
    others: list[int]


def renewals(lines: Sequence[bytes], indices: Iterable[int], schema: pa.Schema) -> Parsed:
    """Those lines that look like answered heartbeats and commits."""
    events, there, others = _parsed(_RENEWALS, lines, indices)
    fields = _fields(Renewal, events)
    requests = fields.pop("request")
    fields["instance_id"] = [
        each.instance_id if each.group_instance_id is None else each.group_instance_id for each in requests
    ]
    fields["generation"] = [each.generation for each in requests]
    return Parsed(_arrays(fields, schema), there, others)


def commits(lines: Sequence[bytes], indices: Iterable[int], schema: pa.Schema) -> Parsed:
    """Those lines that look like accepted commits."""
    events, there, others = _parsed(_COMMITS, lines, indices)
    fields = _fields(Commit, events)
    offsets = fields.pop("offsets")
    ends = list(accumulate(map(len, offsets), initial=0))
    kind = schema.field("offsets").type.value_type
    each = _fields(_Offset, list(chain.from_iterable(offsets)))
    within = [
        pa.array(each[field.name], field.type) if field.name in each else pa.nulls(ends[-1], field.type)
        for field in kind.fields
    ]
    found = _arrays(fields, schema)
    found["offsets"] = pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pa.StructArray.from_arrays(within, fields=kind.fields)
    )
    return Parsed(found, there, others)


def _parsed(
    decoder: msgspec.json.Decoder[_Event], lines: Sequence[bytes], indices: Iterable[int]
) -> tuple[list[_Event], list[int], list[int]]:
    """The events, where they stand, and where others do."""
    events: list[_Event] = []
    there: list[int] = []
    others: list[int] = []
    for index in indices:
        try:
            events.append(decoder.decode(lines[index]))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            others.append(index)
        else:
            there.append(index)
    return events, there, others


def _fields(kind: type[msgspec.Struct], events: Sequence[msgspec.Struct]) -> dict[str, Sequence[Any]]:
    """What these have, field by field."""
    return {name: list(map(attrgetter(name), events)) for name in kind.__struct_fields__}


def _arrays(fields: dict[str, Sequence[Any]], schema: pa.Schema) -> dict[str, pa.Array]:
    return {name: pa.array(values, schema.field(name).type) for name, values in fields.items()}
