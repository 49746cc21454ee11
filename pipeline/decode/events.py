"""Lines of a trace as Arrow, many at a time.

Decides how events become rows of `EVENTS` in `schemas.py`. Nearly all events are heartbeats and commits answered
(`exchange`), and accepted commits: `steady` parses of these lines what stands in columns. All others are parsed whole,
and so is a line that is not what it looks like; one that is no event becomes a row with a reason in `unreadable`.
Fields and events not known here are ignored, as `docs/trace.md` asks. It does not know files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from kafka_shim.pipeline.decode import steady
from kafka_shim.pipeline.schemas import STEADY_APIS

_OFFSET: Final = pa.struct(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("error", pa.int32())]
)
_ASSIGNED: Final = pa.struct([("member_id", pa.string()), ("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])
_WAITED: Final = pa.struct([("member_id", pa.string()), ("ms", pa.float64())])

SCHEMA: Final = pa.schema(
    [
        ("trace", pa.string()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("seq", pa.int64()),
        ("event", pa.string()),
        ("wall", pa.float64()),
        ("mono", pa.float64()),
        ("group", pa.string()),
        ("member_id", pa.string()),
        ("instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("node", pa.int32()),
        ("conn", pa.int64()),
        ("api", pa.string()),
        ("version", pa.int32()),
        ("correlation_id", pa.int32()),
        ("arrived", pa.float64()),
        ("error", pa.int32()),
        ("generation", pa.int32()),
        ("offsets_partition", pa.int32()),
        ("change", pa.string()),
        ("from", pa.string()),
        ("to", pa.string()),
        ("cause", pa.string()),
        ("trigger", pa.string()),
        ("rule", pa.string()),
        ("started", pa.float64()),
        ("ended", pa.float64()),
        ("waited_for", pa.list_(_WAITED)),
        ("dropped", pa.list_(pa.string())),
        ("leader", pa.string()),
        ("leader_ms", pa.float64()),
        ("protocol", pa.string()),
        ("members", pa.list_(pa.string())),
        ("assignments", pa.list_(_ASSIGNED)),
        ("offsets", pa.list_(_OFFSET)),
        ("inferred", pa.bool_()),
        ("session_timeout_ms", pa.int32()),
        ("rebalance_timeout_ms", pa.int32()),
        ("reason", pa.string()),
        ("request", pa.string()),
        ("answer", pa.string()),
        ("unreadable", pa.string()),
    ]
)

_EXCHANGE: Final = b'"event":"exchange"'
_FAST: Final = re.compile(b'"api":"(?:%s)"' % "|".join(STEADY_APIS).encode())
_COMMIT: Final = b'"event":"commit"'
# Field of the event -> column, where the names differ and nothing has to be done.
_RENAMED: Final = {"member": "member_id", "partition": "offsets_partition"}
_PLAIN: Final = frozenset(
    {
        *("seq", "event", "wall", "mono", "group", "member_id", "instance_id", "client_id", "client_host", "node"),
        *("conn", "api", "version", "correlation_id", "arrived", "error", "generation", "change", "from", "to"),
        *("cause", "trigger", "rule", "started", "ended", "waited_for", "dropped", "leader", "leader_ms", "protocol"),
        "inferred",
    }
)


class Lines(NamedTuple):
    """Lines sorted by what they hold, by their index: answered heartbeats and commits, accepted commits, the rest."""

    renewals: list[int]
    commits: list[int]
    others: list[int]


def sort_out(lines: Sequence[bytes], kinds: Collection[str] = Lines._fields) -> Lines:
    """The kinds of these lines, by their looks, or those that are of `kinds`. Empty lines are left out."""
    found = Lines([], [], [])
    if set(kinds) == {"commits"}:
        # Few lines need the second look.
        likely = [index for index, line in enumerate(lines) if _COMMIT in line]
    else:
        likely = list(range(len(lines)))
    for index in likely:
        line = lines[index]
        if _EXCHANGE in line and _FAST.search(line):
            found.renewals.append(index)
        elif _COMMIT in line:
            found.commits.append(index)
        elif line:
            found.others.append(index)
    return found


def decode(
    lines: Sequence[bytes],
    positions: Sequence[int],
    trace: str,
    file: str,
    *,
    bodies: bool = False,
    kinds: Collection[str] = Lines._fields,
) -> Iterator[pa.RecordBatch]:
    """These lines as rows, or those of `kinds` of `Lines`; `positions` says where each begins in the file. Empty lines
    are left out."""
    sorted_out = sort_out(lines, kinds)
    others = list(sorted_out.others) if "others" in kinds else []
    for name, parse in (("renewals", steady.renewals), ("commits", steady.commits)):
        chosen = getattr(sorted_out, name) if name in kinds else []
        if bodies:
            others += chosen
        elif chosen:
            found, indices, rest = parse(lines, chosen, SCHEMA)
            others += rest
            yield _batch(found, [positions[index] for index in indices], trace, file)
    rows = [_row(lines[index], bodies) for index in others]
    if rows:
        try:
            found = _columns(rows)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            found = _columns([_judged(row) for row in rows])
        yield _batch(found, [positions[index] for index in others], trace, file)


def _batch(found: dict[str, Any], positions: list[int], trace: str, file: str) -> pa.RecordBatch:
    count = len(positions)
    found["trace"] = pa.repeat(trace, count)
    found["file"] = pa.repeat(file, count)
    found["position"] = pa.array(np.array(positions, np.int64))
    columns = [found[name] if name in found else pa.nulls(count, field.type) for name, field in _FIELDS]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


_FIELDS: Final = [(field.name, field) for field in SCHEMA]


def _columns(rows: list[dict[str, Any]]) -> dict[str, Any]:
    present = set().union(*rows)
    return {name: pa.array([row.get(name) for row in rows], SCHEMA.field(name).type) for name in present}


def _judged(row: dict[str, Any]) -> dict[str, Any]:
    """The row, or what is wrong with it if it does not fit the columns: one such line must not fail its whole chunk."""
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
    """A kind whose plain fields are all."""


def _round(event: dict[str, Any], row: dict[str, Any]) -> None:
    row["members"] = event["members"]
    row["waited_for"] = [{"member_id": each["member_id"], "ms": float(each["ms"])} for each in event["waited_for"]]


def _assignment(event: dict[str, Any], row: dict[str, Any]) -> None:
    row["members"] = list(event["assignments"])
    row["assignments"] = _assigned(event["assignments"])
    row["protocol"] = event.get("assignor")


def _reconciliation(event: dict[str, Any], row: dict[str, Any]) -> None:
    row["to"] = event["state"]
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
    """A request whose body says nothing the tables need."""


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
        # From version 8 on an answer is by group; ours and all clients but admin clients ask for one.
        row["group"] = groups[0]["group_id"]
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
}
