"""The evidence of a cell: every frame in hex beside what it says, in the order they happened."""

from __future__ import annotations

from pathlib import Path

from kafka_shim.conformance.runner import Result, Run
from kafka_shim.conformance.verdict import Verdict

_WORTH_KEEPING = frozenset(Verdict) - {Verdict.PASS, Verdict.SKIP, Verdict.UNIMPLEMENTED}


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


def annotated(result: Result) -> str:
    """The text of one cell's evidence."""
    case = result.cell.case
    lines = [
        f"{result.cell.name}: {result.verdict}",
        f"must hold: {case.title}",
        f"source:    {case.source}",
        f"verdict:   {result.reason or 'it holds'}",
        "",
    ]
    for frame in result.tape.frames:
        lines.append(f"{frame.seconds * 1000:10.3f} ms  {frame.connection:<8} {frame.direction} {frame.note}")
        lines += hex_lines(frame.data)
    return "\n".join(lines) + "\n"


def write(run: Run, folder: Path, *, passes_too: bool = False) -> int:
    """Write one file per failed cell; how many."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [each for each in run.results if passes_too or each.verdict in _WORTH_KEEPING]
    for result in chosen:
        name = f"{result.cell.name.replace('/', '-').replace('@', '-v')}-{result.cell.turn}.txt"
        (folder / name).write_text(annotated(result))
    return len(chosen)
