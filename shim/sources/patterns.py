"""`Pattern` and `Program`: the lines of a program by their fixed words; `Scanner`: one scan that selects its lines.

A pattern is matched from the front of a text, so that a line that was cut still matches. Names of groups, members and
instances may have any characters: patterns cut them by the fixed words around.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import re2

from kafka_shim.sources.layouts import Line
from kafka_shim.sources.signs import Sign, SignName


class Pattern(NamedTuple):
    """One kind of line: the sign it gives, its text as a regular expression with named groups (the syntax of RE2), and
    a fixed text that each such line has.

    The groups `group` and `member` are those of the sign, all others its fields.
    """

    sign: SignName
    text: str
    anchor: str


@dataclass(frozen=True)
class Program:
    """A program that writes logs. `prefix` may stand before the text of its lines, a regular expression with named
    groups as that of a pattern; the first pattern that matches decides. `marks` are fixed texts of lines that deserve a
    pattern, such as the names of loggers: those without one are counted, so that a reader learns of gaps.
    """

    name: str
    prefix: str
    patterns: tuple[Pattern, ...]
    marks: tuple[str, ...] = ()

    @property
    def anchors(self) -> set[str]:
        """Return the fixed texts that select its lines in a scan."""
        return {each.anchor for each in self.patterns if each.sign is not SignName.NOTHING} | set(self.marks)

    def has_mark(self, raw: bytes) -> bool:
        """True if a line has a mark of this program."""
        return any(mark.encode() in raw for mark in self.marks)

    @cached_property
    def _compiled(self) -> tuple[tuple[Pattern, Any], ...]:
        return tuple((each, re2.compile(f"(?s)^(?:{self.prefix})?{each.text}")) for each in self.patterns)

    def sign(self, line: Line) -> Sign | None:
        """Return the sign of a line; None if no pattern matches."""
        for pattern, compiled in self._compiled:
            if pattern.anchor not in line.text:
                continue
            match = compiled.match(line.text)
            if match is not None:
                fields = {name: value for name, value in match.groupdict().items() if value}
                return Sign(pattern.sign, line, fields.pop("group", ""), fields.pop("member", ""), fields)
        return None


class Selected(NamedTuple):
    """A selected line: its number in its file from 1 on, its bytes without the line end, and the line before it."""

    number: int
    raw: bytes
    before: bytes


class Scanner:
    """Selection of the lines that have one of the anchors, by one scan over each piece of a file. `pattern` is the
    regular expression that finds an anchor (the syntax of RE2).
    """

    def __init__(self, anchors: Iterable[str]) -> None:
        self.pattern: Final = "|".join(re2.escape(each) for each in sorted(set(anchors)))
        self._any: Final = re2.compile(self.pattern.encode())

    def select(self, pieces: Iterable[bytes]) -> Iterator[Selected]:
        """Yield the selected lines of a file; each piece of it ends with a line end."""
        number, last = 1, b""
        for piece in pieces:
            counted = at = 0
            while (match := self._any.search(piece, at)) is not None:
                begin = piece.rfind(b"\n", 0, match.start()) + 1
                end = piece.find(b"\n", match.end())
                end = len(piece) if end < 0 else end
                number += piece.count(b"\n", counted, begin)
                before = piece[piece.rfind(b"\n", 0, begin - 1) + 1 : begin - 1] if begin else last
                yield Selected(number, piece[begin:end], before)
                counted, at = begin, min(end + 1, len(piece))
            number += piece.count(b"\n", counted)
            last = piece[piece.rfind(b"\n", 0, len(piece) - 1) + 1 : -1]
