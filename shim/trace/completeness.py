"""Parts of a trace that are not there: its events are numbered without gaps, and each line ends with a newline. And
the oldest events of a server, which keeps only the newest, and the oldest rebalances of a group with very many.

A filter by group, a deleted line and a lost file all leave gaps in the numbers, so a sentence gives no reason for one.
A trace may end in the middle of a line while its server still writes it, or if its server was killed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import orjson

_SEQ: Final = b'"seq":'
_NUMBER: Final = re.compile(rb" ?(\d{1,18})[,}]")
_BEGIN: Final = re.compile(rb'\{\s*"event"\s*:\s*"trace"')
_ENDS: Final = (b"}\n", b"}", b"}\r\n")


@dataclass
class Missing:
    """The missing parts of all traces that were read, or of a server's memory."""

    gaps: list[str] = field(default_factory=list)
    """Sentences about events that are not there, without a full stop."""
    ends: list[str] = field(default_factory=list)
    """Sentences about a trace that is empty, or ends in the middle of a line."""
    oldest: int = 0
    """The number of the oldest rebalances of a group that are not kept."""

    @property
    def has_gaps(self) -> bool:
        """True if events or rebalances are not there, so that their absence shows nothing."""
        return bool(self.gaps or self.oldest)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences, without a full stop."""
        if not self.oldest:
            return (*self.gaps, *self.ends)
        rebalances = "rebalance is" if self.oldest == 1 else f"{self.oldest:,} rebalances are"
        return (*self.gaps, *self.ends, f"the group's oldest {rebalances} left out, as only the newest are kept")


def forgotten(server: str, count: int) -> str:
    """Return the sentence about the oldest events that a server no longer has, without a full stop."""
    return f"{server} has forgotten its oldest {'event' if count == 1 else f'{count:,} events'}"


class Numbers:
    """The sequence numbers of one trace, as they come."""

    def __init__(self) -> None:
        self.places = self.lost = 0
        """Number of gaps, and of the events that lack there."""
        self.lines = 0
        self._last = 0
        self._run: str | None = None
        self._first_gap = (0, 0)

    def take(self, line: bytes) -> bool:
        """Take a line of a trace; return False if it is no event, as far as that shows without parsing all lines."""
        self.lines += 1
        if _BEGIN.match(line):
            self._begin(line)
        number = _NUMBER.match(line, place + len(_SEQ)) if (place := line.rfind(_SEQ)) >= 0 else None
        if number is None or not line.startswith(b"{") or not line.endswith(_ENDS):
            return _is_object(line)
        seq = int(number[1])
        # Numbers that go back are those of another trace, put behind the first.
        if seq > self._last + 1:
            self._gap(self._last, seq)
        self._last = seq
        return True

    def _begin(self, line: bytes) -> None:
        """Each run of a server numbers its events from 1 on."""
        try:
            run = orjson.loads(line).get("run")
        except ValueError:
            return
        if run != self._run:
            self._run, self._last = run, 0

    def _gap(self, before: int, after: int) -> None:
        self._first_gap = self._first_gap if self.places else (before, after)
        self.places += 1
        self.lost += after - before - 1

    def sentence(self, name: str) -> str:
        """Return the sentence about the gaps of the trace of this name, without a full stop; empty without gaps."""
        if not self.places:
            return ""
        events = "1 event" if self.lost == 1 else f"{self.lost:,} events"
        are = "is" if self.lost == 1 else "are"
        begin, end = self._first_gap
        if self.places > 1:
            return f"{events} {are} not in {name}, in {self.places:,} places, the first after seq {begin}"
        if not begin:
            return f"the first {'event' if self.lost == 1 else events} {are} not in {name}, it begins with seq {end}"
        return f"{events} between seq {begin} and {end} {are} not in {name}"


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except ValueError:
        return False
