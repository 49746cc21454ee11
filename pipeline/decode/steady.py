"""A fast decoder for the lines of stable groups: answered heartbeats and commits, and accepted commits.

Nearly all lines of a trace are of these two kinds, and most of their fields are no columns. So the decoder parses only
the fields that are columns, by name and type, and skips the rest. It returns the lines that it cannot parse, for the
general decoder.
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


class _Line(msgspec.Struct, gc=False, kw_only=True, rename={"group_id": "group"}):
    """The common fields of both kinds; they are columns."""

    seq: _Int64 = None
    wall: float | None = None
    mono: float | None = None
    group_id: str | None = None
    error: _Int32 = None


class _Request(msgspec.Struct, gc=False):
    """The request of a heartbeat or a commit."""

    generation_id: _Int32 = None
    generation_id_or_member_epoch: _Int32 = None
    member_epoch: _Int32 = None
    group_instance_id: str | None = None
    instance_id: str | None = None

    @property
    def generation(self) -> int | None:
        if self.generation_id is not None:
            return self.generation_id
        epoch = self.generation_id_or_member_epoch
        return self.member_epoch if epoch is None else epoch


class _Renewal(_Line, gc=False, kw_only=True, rename={"group_id": "group", "member_id": "member"}):
    """An answered heartbeat or commit. All fields except `request` are columns."""

    event: Literal["exchange"]
    request: _Request
    member_id: str | None = None
    client_id: str | None = None
    node: _Int32 = None
    conn: _Int64 = None
    api: str | None = None
    version: _Int32 = None
    correlation_id: _Int32 = None
    arrived: float | None = None


class _Offset(msgspec.Struct, gc=False):
    """One offset of an accepted commit."""

    topic: str
    partition: _Int32
    offset: _Int64 = None


class _Commit(_Line, gc=False, kw_only=True, rename={"group_id": "group", "offsets_partition": "partition"}):
    """An accepted commit. Its fields are columns."""

    event: Literal["commit"]
    offsets: list[_Offset]
    member_id: str | None = None
    generation: _Int32 = None
    offsets_partition: _Int32 = None
    inferred: bool | None = None


_Event = TypeVar("_Event", _Renewal, _Commit)
_RENEWALS: Final = msgspec.json.Decoder(_Renewal)
_COMMITS: Final = msgspec.json.Decoder(_Commit)


class Parsed(NamedTuple):
    """The columns of the lines at `indices`, by name; the lines at `others` are of another kind."""

    columns: dict[str, pa.Array]
    indices: list[int]
    others: list[int]


def renewals(lines: Sequence[bytes], indices: Iterable[int], schema: pa.Schema) -> Parsed:
    """Parse lines that look like answered heartbeats and commits."""
    events, there, others = _parsed(_RENEWALS, lines, indices)
    fields = _fields(_Renewal, events)
    requests = fields.pop("request")
    fields["instance_id"] = [
        each.instance_id if each.group_instance_id is None else each.group_instance_id for each in requests
    ]
    fields["generation"] = [each.generation for each in requests]
    return Parsed(_arrays(fields, schema), there, others)


def commits(lines: Sequence[bytes], indices: Iterable[int], schema: pa.Schema) -> Parsed:
    """Parse lines that look like accepted commits."""
    events, there, others = _parsed(_COMMITS, lines, indices)
    fields = _fields(_Commit, events)
    offsets = fields.pop("offsets")
    ends = list(accumulate(map(len, offsets), initial=0))
    kind = schema.field("offsets").type.value_type
    each = _fields(_Offset, list(chain.from_iterable(offsets)))
    within = [
        pa.array(each[field.name], field.type) if field.name in each else pa.nulls(ends[-1], field.type)
        for field in kind.fields
    ]
    columns = _arrays(fields, schema)
    columns["offsets"] = pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), pa.StructArray.from_arrays(within, fields=kind.fields)
    )
    return Parsed(columns, there, others)


def _parsed(
    decoder: msgspec.json.Decoder[_Event], lines: Sequence[bytes], indices: Iterable[int]
) -> tuple[list[_Event], list[int], list[int]]:
    """Return the events, the indices of their lines, and the indices of lines that could not be parsed."""
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
    """Return the values of each field of these events."""
    return {name: list(map(attrgetter(name), events)) for name in kind.__struct_fields__}


def _arrays(fields: dict[str, Sequence[Any]], schema: pa.Schema) -> dict[str, pa.Array]:
    return {name: pa.array(values, schema.field(name).type) for name, values in fields.items()}
