"""`Reading`: the signs of several files, merged by time, and counts of understood lines.

Rotated files of one log are read one after the other, and logs of several brokers side by side: no file is in memory as
a whole. Lines with one stamp keep their order.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Final

from kafka_shim.sources.client_program import PROGRAM
from kafka_shim.sources.layouts import Layouts, Line
from kafka_shim.sources.lines import STDIN, names_of, pieces_of
from kafka_shim.sources.patterns import Program, Scanner
from kafka_shim.sources.signs import Sign, SignName

_SHUFFLED: Final = 256
"""A collector may mix up so many lines of one log."""
_HEAD: Final = 50
"""Lines at the start of a file that are searched for its first stamp."""
_ROTATION: Final = re.compile(r"(?:[.-](?:\d{4}-\d\d-\d\d(?:-\d\d)?|\d+|gz|zst))+$")
_COORDINATES: Final = frozenset({SignName.PREPARING, SignName.STABILIZED, SignName.EPOCH, SignName.LOADED})


def log_of(name: str) -> str:
    """Return the name of the log that a rotated file belongs to: `server.log` for `server.log.2026-11-27-09`."""
    return _ROTATION.sub("", name) or name


class Reading:
    """Reader of logs of these programs, perhaps of one group. Stamps without a zone are read in `zone`.

    After `signs` is exhausted, `understood` and `unknown` count its lines, `example` is the first of the unknown,
    `groups` are the groups that were seen, with the brokers that coordinated them, and `brokers` all brokers.
    """

    def __init__(self, programs: Sequence[Program], *, group: str | None = None, zone: tzinfo = UTC) -> None:
        self._programs = programs
        self._group = group
        self._layouts: Final = Layouts(zone)
        self._scanner: Final = Scanner(anchor for program in programs for anchor in program.anchors)
        self.understood = self.unknown = 0
        self.example = ""
        self.groups: dict[str, set[str]] = {}
        self.brokers: set[str] = set()

    def signs(self, files: Sequence[Path]) -> Iterator[Sign]:
        """Yield the signs of files, by time; doubled lines once. Raises UnreadableLog."""
        names = names_of(files)
        logs = (self._sorted(self._log(each, names)) for each in self._rotated(files))
        for sign in undoubled(sign for _, sign in heapq.merge(*logs, key=lambda each: each[0])):
            self._count(sign)
            yield sign

    def _count(self, sign: Sign) -> None:
        broker = sign.fields.get("broker", "")
        if broker:
            self.brokers.add(broker)
        if sign.group:
            coordinators = self.groups.setdefault(sign.group, set())
            if broker and sign.name in _COORDINATES:
                coordinators.add(broker)
        if self._group is None or sign.group == self._group:
            self.understood += 1

    def _rotated(self, files: Sequence[Path]) -> Iterator[list[Path]]:
        """Yield the files of each log, the oldest first."""
        logs: dict[Path, list[Path]] = {}
        for file in files:
            logs.setdefault(file.with_name(log_of(file.name)), []).append(file)
        for log in logs.values():
            yield log if len(log) == 1 else sorted(log, key=self._first)

    def _first(self, file: Path) -> int:
        """Return the first stamp of a file, 0 if its first lines have none."""
        if file == STDIN:
            return 0
        head = next(pieces_of(file), b"").split(b"\n", _HEAD)[:_HEAD]
        times = (self._layouts.line("", number, raw).time for number, raw in enumerate(head))
        return next((time for time in times if time is not None), 0)

    def _log(self, files: Iterable[Path], names: dict[Path, str]) -> Iterator[Sign]:
        for file in files:
            last: int | None = None
            for number, raw, before in self._scanner.select(pieces_of(file)):
                line = self._layouts.line(names[file], number, raw, before)
                line = line._replace(time=last) if line.time is None else line
                last = line.time
                sign = sign_of(line, raw, self._programs)
                if sign.name is SignName.UNKNOWN:
                    self._miss(raw, line.where)
                elif sign.name is not SignName.NOTHING:
                    yield sign

    def _miss(self, raw: bytes, where: str) -> None:
        """Count a line about groups that has no pattern, or no time."""
        if self._group is not None and self._group.encode() not in raw:
            return
        self.unknown += 1
        self.example = self.example or f"{where}: {raw[:200].decode('utf-8', 'replace')}"

    def _sorted(self, signs: Iterable[Sign]) -> Iterator[tuple[int, Sign]]:
        """Yield signs with their times, sorted as far as a collector mixes them up."""
        heap: list[tuple[int, int, Sign]] = []
        for number, sign in enumerate(signs):
            heapq.heappush(heap, (sign.time or 0, number, sign))
            if len(heap) > _SHUFFLED:
                time, _, first = heapq.heappop(heap)
                yield time, first
        while heap:
            time, _, first = heapq.heappop(heap)
            yield time, first


def sign_of(line: Line, raw: bytes, programs: Sequence[Program]) -> Sign:
    """Return the sign of a line, by the first program with a pattern for it; `raw` is the line as it is in the file."""
    sign = next(filter(None, (program.sign(line) for program in programs)), None)
    if sign is not None and (line.time is not None or PROGRAM in sign.fields):
        return sign
    is_unknown = line.time is None or any(program.has_mark(raw) for program in programs)
    return Sign(SignName.UNKNOWN if is_unknown else SignName.NOTHING, line)


def undoubled(signs: Iterable[Sign]) -> Iterator[Sign]:
    """Yield signs in order of time without those that a collector doubled."""
    at: int | None = None
    texts: set[tuple[str, str]] = set()
    for sign in signs:
        if sign.time != at:
            at, texts = sign.time, set()
        # Two clients may say the same at once.
        text = sign.line.file if PROGRAM in sign.fields else sign.fields.get("broker", ""), sign.line.text
        if text not in texts:
            texts.add(text)
            yield sign
