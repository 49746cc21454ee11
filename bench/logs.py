"""A log of a broker as large as asked, and the time and memory of both readers: `why --log` and the pipeline.

The lines about groups are those of the recordings in `tests/sources/recorded`, each time with other names of groups and
members and with later stamps. The lines between, 999 for each, are other lines of the same recordings.
"""

from __future__ import annotations

import gzip
import re
import sys
import tomllib
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.questions import measured
from bench.runs import HOME
from kafka_shim.sources.mixture import PROGRAMS
from kafka_shim.sources.patterns import Scanner

RECORDED: Final = HOME / "tests" / "sources" / "recorded"
RELEASES: Final = ("3.9", "4.4")
BETWEEN: Final = 999
_STAMP: Final = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
_APART: Final = timedelta(seconds=30)


class _Recording(NamedTuple):
    """The lines of a recording about its groups, the others without their stamps, and the names to change."""

    about: list[bytes]
    others: list[bytes]
    group: bytes
    members: list[bytes]


def write(path: Path, size: int) -> int:
    """Write a log of at least `size` bytes; return how often a recording was repeated."""
    recordings = [_read(folder) for release in RELEASES for folder in sorted((RECORDED / release).iterdir())]
    others = cycle([line for each in recordings for line in each.others])
    now = datetime(2026, 11, 1)
    with path.open("wb") as log:
        for number, recording in zip(count(), cycle(recordings)):
            if log.tell() >= size:
                return number
            for at, line in _repeated(recording, number, now):
                stamp = b"[%s]" % at.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3].encode()
                log.write(b"".join(stamp + each + b"\n" for each in (line, *islice(others, BETWEEN))))
                now = at + _APART
    raise AssertionError("a cycle has no end")


def _repeated(recording: _Recording, number: int, start: datetime) -> Iterator[tuple[datetime, bytes]]:
    """Yield the time and the text of each line about groups, with other names and from another time on."""
    shift = start - _time(recording.about[0])
    for line in recording.about:
        text = _STAMP.sub(b"", line).replace(recording.group, b"%s-%d" % (recording.group, number))
        for member in recording.members:
            text = text.replace(member, member[:-6] + b"%06x" % number)
        yield _time(line) + shift, text


def _time(line: bytes) -> datetime:
    stamp = _STAMP.match(line)
    assert stamp is not None
    return datetime.strptime(stamp[1].decode(), "%Y-%m-%d %H:%M:%S,%f")


def _read(folder: Path) -> _Recording:
    data = gzip.decompress((folder / "server.log.gz").read_bytes())
    truth = tomllib.loads((folder / "truth.toml").read_text())
    scanner = Scanner(anchor for program in PROGRAMS for anchor in program.anchors)
    chosen = {each.number for each in scanner.select([data])}
    lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if _STAMP.match(line)]
    others = [_STAMP.sub(b"", line) for number, line in lines if number not in chosen]
    members = [member.encode() for ids in truth["member_ids"].values() for member in ids]
    return _Recording([line for number, line in lines if number in chosen], others, truth["group"].encode(), members)


def logs(size: int, folder: Path, memory: str, master: str) -> dict[str, Any]:
    """Return the processor seconds and the peak memory of both readers of a log of `size` bytes."""
    log = folder / "server.log"
    repeated = write(log, size)
    command = [sys.executable, "-m", "kafka_shim"]
    why, _ = measured([*command, "why", "--log", str(log), "--json"])
    run = ["pipeline", "run", str(log), "--out", str(folder / "out"), "--master", master, "--memory", memory]
    spark, _ = measured([*command, *run])
    return {"bytes": log.stat().st_size, "groups": repeated, "why": why, "pipeline": spark}
