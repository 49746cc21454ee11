"""A decoder from lines of a trace to Arrow rows of `EVENTS` in `schemas.py`, many lines at a time.

Nearly all lines are answered heartbeats and commits (`exchange`) and accepted commits; of these, `steady` parses only
the fields that are columns. All other lines are parsed completely, as are lines that `steady` cannot parse. A line that
is not an event becomes a row with a reason in `unreadable`. Unknown fields and events are ignored, as `docs/trace.md`
requires.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from kafka_shim.pipeline.decode import steady
from kafka_shim.pipeline.schemas import EVENTS, STEADY_APIS, TRACE_FIELDS

_ARROW: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


def _arrow(ddl: str) -> pa.DataType:
    """Return the Arrow type of a Spark SQL type."""
    outer, bracket, inner = ddl.removesuffix(">").partition("<")
    if not bracket:
        return _ARROW[ddl]
    if outer == "array":
        return pa.list_(_arrow(inner))
    return pa.struct([(name, _arrow(each)) for name, each in (part.split(": ") for part in inner.split(", "))])


SCHEMA: Final = pa.schema([(column.name, _arrow(column.type)) for column in EVENTS.columns])

_EXCHANGE: Final = b'"event":"exchange"'
_FAST: Final = re.compile(b'"api":"(?:%s)"' % "|".join(STEADY_APIS).encode())
_COMMIT: Final = b'"event":"commit"'
# Field of the event -> column of another name with the same value.
_RENAMED: Final = {
    "group": "group_id",
    "member": "member_id",
    "partition": "offsets_partition",
    "from": "from_state",
    "to": "to_state",
}
# Columns that the functions below build; a field of the same name has another form.
_BUILT: Final = frozenset({"file", "members", "assignments", "offsets", "request", "answer"})
_PLAIN: Final = TRACE_FIELDS.keys() & set(EVENTS.names) - _BUILT


class Lines(NamedTuple):
    """Indices of lines by kind: answered heartbeats and commits, accepted commits, all others."""

    renewals: list[int]
    commits: list[int]
    others: list[int]


def sort_out(lines: Sequence[bytes], kinds: Collection[str] = Lines._fields) -> Lines:
    """Sort lines by kind, judged by their looks, optionally only those of `kinds`. Leaves out empty lines."""
    by_kind = Lines([], [], [])
    if set(kinds) == {"commits"}:
        # Test for the rare kind first: few lines need the second test.
        likely = [index for index, line in enumerate(lines) if _COMMIT in line]
    else:
        likely = list(range(len(lines)))
    for index in likely:
        line = lines[index]
        if _EXCHANGE in line and _FAST.search(line):
            by_kind.renewals.append(index)
        elif _COMMIT in line:
            by_kind.commits.append(index)
        elif line:
            by_kind.others.append(index)
    return by_kind


def decode(
    lines: Sequence[bytes],
    positions: Sequence[int],
    trace: str,
    file: str,
    *,
    bodies: bool = False,
    kinds: Collection[str] = Lines._fields,
) -> Iterator[pa.RecordBatch]:
    """Decode these lines, or those of `kinds` of `Lines`; `positions` are their positions in the file.

    Leaves out empty lines.
    """
    sorted_out = sort_out(lines, kinds)
    others = list(sorted_out.others) if "others" in kinds else []
    for name, parse in (("renewals", steady.renewals), ("commits", steady.commits)):
        chosen = getattr(sorted_out, name) if name in kinds else []
        if bodies:
            others += chosen
        elif chosen:
            columns, indices, rest = parse(lines, chosen, SCHEMA)
            others += rest
            yield _batch(columns, [positions[index] for index in indices], trace, file)
    rows = [_row(lines[index], bodies) for index in others]
    if rows:
        try:
            columns = _columns(rows)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            columns = _columns([_fit(row) for row in rows])
        yield _batch(columns, [positions[index] for index in others], trace, file)


def _batch(columns_by_name: dict[str, Any], positions: list[int], trace: str, file: str) -> pa.RecordBatch:
    count = len(positions)
    columns_by_name["trace"] = pa.repeat(trace, count)
    columns_by_name["file"] = pa.repeat(file, count)
    columns_by_name["position"] = pa.array(np.array(positions, np.int64))
    columns = [
        columns_by_name[name] if name in columns_by_name else pa.nulls(count, field.type) for name, field in _FIELDS
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


_FIELDS: Final = [(field.name, field) for field in SCHEMA]


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    present = set().union(*rows)
    return {name: pa.array([row.get(name) for row in rows], SCHEMA.field(name).type) for name in present}


def _fit(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row, or a row with a reason if it does not fit the columns: one bad line must not fail the whole
    chunk."""
    try:
        _columns([row])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        return {"unreadable": f"not of the schema: {error}"}
    return row


def _row(line: bytes, bodies: bool) -> dict[str, Any]:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return {"unreadable": f"no JSON: {error}"}
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return {"unreadable": "no event"}
    row = {name: value for name, value in event.items() if name in _PLAIN}
    row |= {column: event[name] for name, column in _RENAMED.items() if name in event}
    try:
        _DETAILS.get(event["event"], _nothing)(event, row)
        if bodies:
            for side in ("request", "answer"):
                if side in event:
                    row[side] = orjson.dumps(event[side]).decode()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return {"unreadable": f"not of the schema: {error!r}"}
    return row


def _nothing(event: dict[str, Any], row: dict[str, Any]) -> None:
    """Add nothing: the plain fields of this kind are enough."""


def _round(event: dict[str, Any], row: dict[str, Any]) -> None:
    row["members"] = event["members"]
    row["waited_for"] = [{"member_id": each["member_id"], "ms": float(each["ms"])} for each in event["waited_for"]]


def _assignment(event: dict[str, Any], row: dict[str, Any]) -> None:
    row["members"] = list(event["assignments"])
    row["assignments"] = _assigned(event["assignments"])
    row["protocol"] = event.get("assignor")


def _reconciliation(event: dict[str, Any], row: dict[str, Any]) -> None:
    row["to_state"] = event["state"]
    row["assignments"] = _assigned({event["member_id"]: event["assigned"]})
    row["waited_for"] = [{"member_id": member_id, "ms": None} for member_id in event["waits_for"]]


def _assigned(assignments: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"member_id": member_id, "topic": topic, "partitions": partitions}
        for member_id, topics in assignments.items()
        if isinstance(topics, dict)
        for topic, partitions in topics.items()
    ]


def _offsets(event: dict[str, Any], row: dict[str, Any]) -> None:
    row["offsets"] = [
        {"topic": each["topic"], "partition": each["partition"], "offset": each.get("offset")}
        for each in event["offsets"]
    ]


def _exchange(event: dict[str, Any], row: dict[str, Any]) -> None:
    request, answer = event["request"], event["answer"]
    epochs = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
    row["generation"] = next((request[name] for name in epochs if name in request), None)
    row["instance_id"] = request.get("group_instance_id", request.get("instance_id"))
    _BODIES.get(event["api"], _no_body)(request, answer, row)


def _no_body(request: dict[str, Any], answer: dict[str, Any], row: dict[str, Any]) -> None:
    """Add nothing: the tables need no field of this body."""


def _join_group(request: dict[str, Any], answer: dict[str, Any], row: dict[str, Any]) -> None:
    row["generation"] = answer.get("generation_id")
    row["leader"] = answer.get("leader")
    row["protocol"] = answer.get("protocol_name")
    row["members"] = [member["member_id"] for member in answer.get("members") or ()]
    row["session_timeout_ms"] = request.get("session_timeout_ms")
    row["rebalance_timeout_ms"] = request.get("rebalance_timeout_ms")
    row["reason"] = request.get("reason")


def _leave_group(request: dict[str, Any], answer: dict[str, Any], row: dict[str, Any]) -> None:
    members = request.get("members") or []
    row["members"] = [member["member_id"] for member in members]
    reasons = [member["reason"] for member in members if member.get("reason")]
    row["reason"] = reasons[0] if reasons else None
    if len(members) == 1 and not row.get("member_id"):
        row["member_id"] = members[0]["member_id"]


def _offset_fetch(request: dict[str, Any], answer: dict[str, Any], row: dict[str, Any]) -> None:
    topics = answer.get("topics") or []
    groups = answer.get("groups") or []
    if len(groups) == 1:
        # From version 8 on an answer is by group; all clients but admin clients ask for one group.
        row["group_id"] = groups[0]["group_id"]
        row["error"] = groups[0].get("error_code") or row.get("error")
        topics = groups[0]["topics"]
    row["offsets"] = [
        {
            "topic": topic["name"],
            "partition": partition["partition_index"],
            "offset": partition["committed_offset"],
            "error": partition["error_code"],
        }
        for topic in topics
        for partition in topic["partitions"]
    ]


def _list_offsets(request: dict[str, Any], answer: dict[str, Any], row: dict[str, Any]) -> None:
    asked_for_end = {
        (topic["name"], partition["partition_index"])
        for topic in request["topics"]
        for partition in topic["partitions"]
        if partition["timestamp"] == -1
    }
    row["offsets"] = [
        {
            "topic": topic["name"],
            "partition": partition["partition_index"],
            "offset": partition["offset"],
            "error": partition["error_code"],
        }
        for topic in answer["topics"]
        for partition in topic["partitions"]
        if (topic["name"], partition["partition_index"]) in asked_for_end
    ]


def _delete_topics(request: dict[str, Any], answer: dict[str, Any], row: dict[str, Any]) -> None:
    row["offsets"] = [
        {"topic": each.get("name"), "partition": None, "offset": None, "error": each["error_code"]}
        for each in answer.get("responses") or ()
    ]


def _offset_delete(request: dict[str, Any], answer: dict[str, Any], row: dict[str, Any]) -> None:
    row["offsets"] = [
        {
            "topic": topic["name"],
            "partition": partition["partition_index"],
            "offset": None,
            "error": partition["error_code"],
        }
        for topic in answer.get("topics") or ()
        for partition in topic["partitions"]
    ]


_DETAILS: Final[dict[str, Callable[[dict[str, Any], dict[str, Any]], None]]] = {
    "round": _round,
    "assignment": _assignment,
    "target": _assignment,
    "reconciliation": _reconciliation,
    "commit": _offsets,
    "offsets_expired": _offsets,
    "end_offsets": _offsets,
    "exchange": _exchange,
}
_BODIES: Final[dict[str, Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], None]]] = {
    "JoinGroup": _join_group,
    "LeaveGroup": _leave_group,
    "OffsetFetch": _offset_fetch,
    "ListOffsets": _list_offsets,
    "OffsetDelete": _offset_delete,
    "DeleteTopics": _delete_topics,
}
