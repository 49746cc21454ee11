"""Reader of traces: their events in order of time.

It finds the files of a trace, decompresses them, and skips lines that are not needed. Format: `docs/trace.md`.
"""

from __future__ import annotations

import gzip
import heapq
import json
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BufferedReader, BytesIO
from mmap import mmap
from pathlib import Path
from typing import Any, BinaryIO, Final

import cramjam
import orjson

from kafka_shim.trace.completeness import Missing, Numbers

Event = dict[str, Any]
"""An event of `docs/trace.md`, as parsed JSON."""

STDIN: Final = Path("-")
MIB: Final = 1024 * 1024
LONGEST_LINE: Final = 256 * MIB
"""Bytes of a line that a packed file may have: a frame has 100 MiB, and a journal writes it in base64."""
LONGEST_ZSTD: Final = 1024 * MIB
"""Bytes that a zstd file may have unpacked."""
_WITHOUT_GROUP: Final = re.compile(rb'\{\s*"event"\s*:\s*"(?:trace|end_offsets)"')


class UnreadableTrace(Exception):
    """An unreadable trace; the message is one sentence."""


def read(
    traces: Sequence[Path],
    *,
    group: str | None = None,
    since: float | None = None,
    until: float | None = None,
    missing: Missing | None = None,
) -> Iterator[Event]:
    """Yield the events of traces, merged by wall-clock time. `-` is standard input.

    With a `group`, yield only its events and those without a group; other lines are not even parsed. `since` and
    `until` are seconds of Unix time. `missing` receives the parts that are not there, as far as the traces were read.
    Raises UnreadableTrace.
    """
    keep = _everything if group is None else _of_group(group)
    absent = Missing() if missing is None else missing
    streams = [_events(trace, keep, absent) for trace in traces]
    events = streams[0] if len(streams) == 1 else heapq.merge(*streams, key=_wall)
    for event in events:
        wall = event.get("wall", 0.0)
        if until is not None and wall > until:
            return
        if since is None or wall >= since:
            yield event


def _wall(event: Event) -> float:
    return float(event.get("wall", 0.0))


def _everything(line: bytes) -> bool:
    return True


def _of_group(group: str) -> Callable[[bytes], bool]:
    """Return a test of lines for events of this group, or without a group. Other programs may have written them again,
    with spaces, or with escapes in place of letters.
    """
    name, escaped = orjson.dumps(group), json.dumps(group).encode()
    field = b'"group":' + name
    hint = name if name == escaped else b'"group"'
    rewritten = re.compile(rb'"group"\s*:\s*(?:' + re.escape(name) + b"|" + re.escape(escaped) + b")")

    def keep(line: bytes) -> bool:
        # The expression is slow: most lines are as a server writes them, or of another group.
        if field in line or (hint in line and rewritten.search(line)):
            return True
        return _WITHOUT_GROUP.match(line) is not None

    return keep


def _events(trace: Path, keep: Callable[[bytes], bool], missing: Missing) -> Iterator[Event]:
    numbers = Numbers()
    for path in files_of(trace):
        for number, line in enumerate(lines_of(path), 1):
            is_event = numbers.take(line)
            if is_event and not keep(line):
                continue
            try:
                event = orjson.loads(line)
                event["event"]
            except (ValueError, KeyError, TypeError):
                # The last line of a trace that is still being written may be incomplete.
                if not line.endswith(b"\n"):
                    end = f"{_name(path)} ends in the middle of line {number}"
                    missing.ends.append(f"{end}, and what came after is not there")
                    break
                if line.startswith(b'{"journal":'):
                    command = f"kafka-shim replay {path} --trace trace.jsonl"
                    raise UnreadableTrace(f"{path} is a journal; {command} writes its trace.") from None
                rest = "; without that line, the rest can be read" if numbers.lines > 1 else ""
                raise UnreadableTrace(f"Line {number} of {_name(path)} is not an event of a trace{rest}.") from None
            yield event
    if gap := numbers.sentence(_name(trace)):
        missing.gaps.append(gap)
    if not numbers.lines:
        missing.ends.append(f"{_name(trace)} is empty")


def files_of(trace: Path) -> list[Path]:
    """Return the files of a trace, the oldest first: `trace.jsonl.1`, `trace.jsonl.2`, ..., `trace.jsonl`."""
    if trace == STDIN:
        return [trace]
    if trace.is_dir():
        raise UnreadableTrace(f"{trace} is a folder; name the trace in it.")
    older = [path for path in trace.parent.glob(f"{trace.name}.*") if path.suffix[1:].isdigit()]
    older.sort(key=lambda path: int(path.suffix[1:]))
    if not trace.exists() and not older:
        raise UnreadableTrace(f"There is no {trace}.")
    return [*older, trace] if trace.exists() else older


def lines_of(path: Path) -> Iterable[bytes]:
    """Return the lines of one file, decompressed if necessary. Raises UnreadableTrace."""
    try:
        file = sys.stdin.buffer if path == STDIN else path.open("rb")
    except OSError as error:
        raise UnreadableTrace(f"{path} cannot be read: {error.strerror}.") from None
    magic = file.peek(4)[:4] if isinstance(file, BufferedReader) else b""
    if magic[:2] == b"\x1f\x8b":
        return _unpacked(gzip.open(file), path)
    if magic == b"\x28\xb5\x2f\xfd":
        return zstd_file(file, path)
    return file


def zstd_file(file: BinaryIO, path: Path) -> BytesIO:
    """Return the content of an open zstd file. Raises UnreadableTrace."""
    try:
        # Pages of it that nothing is written to take no memory.
        with mmap(-1, LONGEST_ZSTD) as unpacked:
            size = cramjam.zstd.decompress_into(file.read(), unpacked)
            return BytesIO(unpacked[:size])
    except cramjam.DecompressionError:
        reason = f"is not a complete zstd file, or has more than {LONGEST_ZSTD // MIB} MiB unpacked"
        raise UnreadableTrace(f"{_name(path)} {reason}.") from None


def _unpacked(lines: gzip.GzipFile, path: Path) -> Iterator[bytes]:
    try:
        while line := lines.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise UnreadableTrace(f"{_name(path)} has a line of more than {LONGEST_LINE // MIB} MiB.")
            yield line
    except (EOFError, OSError, zlib.error):
        raise UnreadableTrace(f"{_name(path)} is not a complete gzip file.") from None


def _name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)
