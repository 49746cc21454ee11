"""The guards of a server: the exceptions that they have caught, by border.

A border is a place where an exception of a rule, a timer, an encoder, a store or a socket ends: it costs one exchange,
one timer or one connection, and never the process. Decides how often a traceback is logged: at the first exception of
one line of code; each later one has one line in the log. It does not know the work that a guard does instead.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import StrEnum
from types import TracebackType
from typing import Final

log: Final = logging.getLogger("kafka_shim.server")


class Border(StrEnum):
    """The places that have a guard."""

    REQUEST = "request"
    """A rule that answers a request: the client gets UNKNOWN_SERVER_ERROR (-1)."""
    ANSWER = "answer"
    """The encoding of an answer: the client gets UNKNOWN_SERVER_ERROR (-1), or loses its connection."""
    CONNECTION = "connection"
    """The bytes of a connection, in or out: it is closed."""
    ACCEPT = "accept"
    """A new connection: it is not served."""
    TIMER = "timer"
    """A timer of groups or of a broker: the partition that it belongs to is loaded again. An alarm of a session or of a
    test: it has rung."""
    EFFECT = "effect"
    """The work that follows once records are durable: the partition is loaded again."""
    STORE = "store"
    """A store that raised another error than its own: the batch has failed, or the part of it that has no bytes."""
    LISTENER = "listener"
    """A listener of trace events: it misses the events of one tick."""
    COMPUTATION = "computation"
    """A computation in a worker thread, the thread itself, or the work that follows."""
    TICK = "tick"
    """The end of a tick, when records and answers are handed on."""
    PARTITION = "partition"
    """A partition of `__consumer_offsets` that is loaded or given up: it has failed, or is not here any more."""
    LOG = "log"
    """The log of a partition of `__consumer_offsets` for consumers: it begins again."""
    LEASES = "leases"
    """A turn of the leases of a process that shares its store: the next turn comes soon."""
    CATALOGUE = "catalogue"
    """A change of topics and settings that processes share: the client gets UNKNOWN_SERVER_ERROR (-1)."""
    PEER = "peer"
    """A request to another process: it has no answer."""
    SECURITY = "security"
    """A look at certificates or at keys of tokens: those before stay."""
    CONTROL = "control"
    """An answer or a connection of the control server: the client gets 500, or loses its connection."""
    LABORATORY = "laboratory"
    """An action of a puppet: the puppet acts no more until an answer or a test makes it. The delayed act of a fault:
    its client has no answer."""


class Failures:
    """The exceptions that the guards of a process have caught. `counts` has every border."""

    def __init__(self) -> None:
        self.counts: Counter[Border] = Counter(dict.fromkeys(Border, 0))
        self._places: set[tuple[Border, str, int]] = set()

    def note(self, border: Border, what: str, error: BaseException) -> None:
        """Count and log an exception; `what` is for people: the work that has failed."""
        self.counts[border] += 1
        place = (border, *_place_of(error.__traceback__))
        if place not in self._places:
            self._places.add(place)
            log.error("%s failed", what, exc_info=error)
        else:
            # One client can make the same rule fail again and again: its traceback is in the log already.
            log.error("%s failed: %r, as before at %s:%d", what, error, *place[1:])

    @property
    def by_border(self) -> dict[str, int]:
        """The counts that are not 0."""
        return {border.value: count for border, count in self.counts.items() if count}


def _place_of(trace: TracebackType | None) -> tuple[str, int]:
    """The file and line that raised."""
    if trace is None:
        return "", 0
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno
