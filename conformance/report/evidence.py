"""The evidence of a cell: requirement, source, difference from Kafka, and every frame field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kafka_shim.apis.annotated import Piece, RequestHeader, answer_pieces, request_pieces
from kafka_shim.apis.annotated import lines as hex_of
from kafka_shim.conformance.report.assessment import Assessment
from kafka_shim.conformance.runner import Result
from kafka_shim.conformance.sources import public_source
from kafka_shim.conformance.story import Difference, Step
from kafka_shim.conformance.verdict import Verdict

_WITH_EVIDENCE: Final = frozenset(Verdict) - {Verdict.PASS, Verdict.SKIP, Verdict.UNIMPLEMENTED}
_WIDTH: Final = 62
_MAX_DIFFERENCES: Final = 8


def hex_lines(data: bytes, limit: int = 4096) -> list[str]:
    """Format bytes, sixteen a line, with offset and printable text."""
    lines = []
    for start in range(0, min(len(data), limit), 16):
        row = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"    {start:04x}  {row.hex(' '):<47}  {text}")
    if len(data) > limit:
        lines.append(f"    ... {len(data) - limit} more bytes")
    return lines


def annotated(result: Result, assessment: Assessment | None = None) -> str:
    """Return the text of one cell's evidence."""
    case = result.cell.case
    first, *more = public_source(case).splitlines()
    lines = [
        f"{result.cell.name}: {result.verdict}",
        f"must hold: {case.title}",
        f"source:    {first}",
        *[f"           {line}" for line in more],
        f"verdict:   {result.reason or 'it holds'}",
    ]
    if assessment is not None:
        lines += [f"again:     {assessment.again(result)}", *beside_kafka(result, assessment)]
    lines.append("")
    sent: dict[str, dict[int, RequestHeader]] = {}
    for frame in result.tape.frames:
        lines.append(f"{frame.seconds * 1000:10.3f} ms  {frame.connection:<8} {frame.direction} {frame.note}")
        lines += hex_of(frame.data, pieces_of(frame.direction, frame.data, sent.setdefault(frame.connection, {})))
    return "\n".join(lines) + "\n"


def pieces_of(direction: str, data: bytes, sent: dict[int, RequestHeader]) -> list[Piece]:
    """Return the fields of a frame; adds each request header to `sent`, by correlation id."""
    if not data:
        return []
    if direction == "<":
        request = sent.get(int.from_bytes(data[:4], signed=True), RequestHeader(-1, 0, 0))
        return answer_pieces(data, request.key, request.version, with_size=False)
    pieces, header = request_pieces(data)
    if header is not None:
        sent[header.correlation_id] = header
    return pieces


def beside_kafka(result: Result, assessment: Assessment) -> Iterator[str]:
    """Yield the differences from Kafka's answers, and the first wrong answer of both side by side."""
    differences = assessment.differences.of(result)
    main = assessment.differences.main_difference(result)
    if main is None:
        return
    yield f"cause:     {main.text}"
    for each in [each for each in differences if each is not main][:_MAX_DIFFERENCES]:
        yield f"           also {each.text}"
    yield ""
    yield f"    {'this target':<{_WIDTH}} {assessment.record.description}"
    yield from side_by_side(result.story, assessment.record.stories[result.cell.name], main)


def side_by_side(story: list[Step], other: list[Step], difference: Difference) -> Iterator[str]:
    """Yield the fields of one answer from two stories; a `!` marks the different ones."""
    connection = story[difference.place][0]
    number = sum(step[0] == connection for step in story[: difference.place])
    reference = [step for step in other if step[0] == connection][number]
    ours, kafkas = _fields(story[difference.place][3]), _fields(reference[3])
    yield f"    {difference.api} v{reference[2]}, answer {number + 1} on connection {connection}"
    for name in dict.fromkeys([*ours, *kafkas]):
        one, two = ours.get(name, ""), kafkas.get(name, "")
        mark = "!" if one != two else " "
        columns = [_shortened(f"{name} {value}") if value else "" for value in (one, two)]
        yield f"  {mark} {columns[0]:<{_WIDTH}} {columns[1]}".rstrip()


def _fields(value: Any, path: str = "") -> dict[str, str]:
    """Return the leaves of an answer by path."""
    if isinstance(value, dict):
        leaves: dict[str, str] = {}
        for name, each in value.items():
            leaves |= _fields(each, f"{path}.{name}" if path else name)
        return leaves
    if isinstance(value, list) and value:
        leaves = {}
        for index, each in enumerate(value):
            leaves |= _fields(each, f"{path}[{index}]")
        return leaves
    return {path or "answer": json.dumps(value)}


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def write(assessment: Assessment, folder: Path, *, passes_too: bool = False) -> int:
    """Write one file per failed cell; return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [each for each in assessment.run.results if passes_too or each.verdict in _WITH_EVIDENCE]
    for result in chosen:
        name = f"{result.cell.name.replace('/', '-').replace('@', '-v')}-{result.cell.turn}.txt"
        (folder / name).write_text(annotated(result, assessment))
    return len(chosen)
