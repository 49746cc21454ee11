"""The evidence of a cell: what must hold, by which source, the difference to Kafka, and every frame by its fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kafka_shim.apis.annotated import Piece, RequestHeader, answer_pieces, request_pieces
from kafka_shim.apis.annotated import lines as hex_of
from kafka_shim.conformance.report.judged import Judged
from kafka_shim.conformance.runner import Result
from kafka_shim.conformance.sources import public_source
from kafka_shim.conformance.story import Difference, Step
from kafka_shim.conformance.verdict import Verdict

_WORTH_KEEPING: Final = frozenset(Verdict) - {Verdict.PASS, Verdict.SKIP, Verdict.UNIMPLEMENTED}
_WIDTH: Final = 62
_DIFFERENCES_SHOWN: Final = 8


def hex_lines(data: bytes, limit: int = 4096) -> list[str]:
    """Sixteen bytes a line with offset and printable text."""
    lines = []
    for start in range(0, min(len(data), limit), 16):
        row = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"    {start:04x}  {row.hex(' '):<47}  {text}")
    if len(data) > limit:
        lines.append(f"    ... {len(data) - limit} more bytes")
    return lines


def annotated(result: Result, judged: Judged | None = None) -> str:
    """The text of one cell's evidence."""
    case = result.cell.case
    first, *more = public_source(case).splitlines()
    lines = [
        f"{result.cell.name}: {result.verdict}",
        f"must hold: {case.title}",
        f"source:    {first}",
        *[f"           {line}" for line in more],
        f"verdict:   {result.reason or 'it holds'}",
    ]
    if judged is not None:
        lines += [f"again:     {judged.again(result)}", *beside_kafka(result, judged)]
    lines.append("")
    sent: dict[str, dict[int, RequestHeader]] = {}
    for frame in result.tape.frames:
        lines.append(f"{frame.seconds * 1000:10.3f} ms  {frame.connection:<8} {frame.direction} {frame.note}")
        lines += hex_of(frame.data, pieces_of(frame.direction, frame.data, sent.setdefault(frame.connection, {})))
    return "\n".join(lines) + "\n"


def pieces_of(direction: str, data: bytes, sent: dict[int, RequestHeader]) -> list[Piece]:
    """The fields of a frame; what was sent on its connection is noted in `sent`, by correlation id."""
    if not data:
        return []
    if direction == "<":
        request = sent.get(int.from_bytes(data[:4], signed=True), RequestHeader(-1, 0, 0))
        return answer_pieces(data, request.key, request.version, with_size=False)
    pieces, header = request_pieces(data)
    if header is not None:
        sent[header.correlation_id] = header
    return pieces


def beside_kafka(result: Result, judged: Judged) -> Iterator[str]:
    """Where the target's answers differ from Kafka's, and the first such answer of both side by side."""
    found = judged.differences.of(result)
    blamed = judged.differences.blamed(result)
    if blamed is None:
        return
    yield f"cause:     {blamed.text}"
    for each in [each for each in found if each is not blamed][:_DIFFERENCES_SHOWN]:
        yield f"           also {each.text}"
    yield ""
    yield f"    {'this target':<{_WIDTH}} {judged.record.description}"
    yield from side_by_side(result.story, judged.record.stories[result.cell.name], blamed)


def side_by_side(story: list[Step], other: list[Step], difference: Difference) -> Iterator[str]:
    """The fields of one answer of two stories; a `!` marks those that differ."""
    connection = story[difference.place][0]
    number = sum(step[0] == connection for step in story[: difference.place])
    theirs = [step for step in other if step[0] == connection][number]
    left, right = _fields(story[difference.place][3]), _fields(theirs[3])
    yield f"    {difference.api} v{theirs[2]}, answer {number + 1} on connection {connection}"
    for name in dict.fromkeys([*left, *right]):
        one, two = left.get(name, ""), right.get(name, "")
        mark = "!" if one != two else " "
        columns = [_cut(f"{name} {value}") if value else "" for value in (one, two)]
        yield f"  {mark} {columns[0]:<{_WIDTH}} {columns[1]}".rstrip()


def _fields(value: Any, path: str = "") -> dict[str, str]:
    """The leaves of an answer by their paths."""
    if isinstance(value, dict):
        found: dict[str, str] = {}
        for name, each in value.items():
            found |= _fields(each, f"{path}.{name}" if path else name)
        return found
    if isinstance(value, list) and value:
        found = {}
        for index, each in enumerate(value):
            found |= _fields(each, f"{path}[{index}]")
        return found
    return {path or "answer": json.dumps(value)}


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def write(judged: Judged, folder: Path, *, passes_too: bool = False) -> int:
    """Write one file per failed cell; how many."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [each for each in judged.run.results if passes_too or each.verdict in _WORTH_KEEPING]
    for result in chosen:
        name = f"{result.cell.name.replace('/', '-').replace('@', '-v')}-{result.cell.turn}.txt"
        (folder / name).write_text(annotated(result, judged))
    return len(chosen)
