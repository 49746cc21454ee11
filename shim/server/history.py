"""The newest events of a process, kept for whoever asks later, and handed on to whoever follows them.

Decides how many are kept. It does not know what an event says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from kafka_shim.server.events import EventFeed

KEPT: Final = 100_000
"""How much is kept: each event counts as one, and each member in it as one more; the oldest go first."""


class Entry(NamedTuple):
    """An event as it was heard. `number` counts from 1; `now` is seconds of the coordinator's clock."""

    number: int
    now: float
    event: dict[str, Any]


Follower = Callable[[int, float, dict[str, Any]], None]
"""Gets the number, the time and the event."""


class EventHistory:
    """The newest events of a feed, from the first `start` on. `seen` counts all that were heard."""

    def __init__(self, feed: EventFeed, kept: int = KEPT) -> None:
        self.seen = 0
        self.on_change: list[Callable[[], None]] = []
        """Called after the events of a tick."""
        self._feed = feed
        self._kept = kept
        self._entries: deque[Entry] = deque()
        self._size = 0
        self._followers: list[Follower] = []
        self._starts = {True: 0, False: 0}

    def start(self, *, requests: bool = True) -> None:
        """Listen from now on, until there was a `stop` for every `start`; see `EventFeed.listen` for `requests`."""
        self._starts[requests] += 1
        self._listen()

    def stop(self, *, requests: bool = True) -> None:
        """Whoever called `start` needs to hear no more."""
        self._starts[requests] -= 1
        self._listen()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to everything during a block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def follow(self, follower: Follower) -> Callable[[], None]:
        """Let a follower have every event from now on; call what is returned to end that, once or more often."""
        self._followers.append(follower)

        def end() -> None:
            self._followers = [each for each in self._followers if each != follower]

        return end

    def since(self, number: int, group: str | None = None) -> Iterator[Entry]:
        """The events after `number`, of one group or of all."""
        newer: list[Entry] = []
        for entry in reversed(self._entries):
            if entry.number <= number:
                break
            if group is None or entry.event.get("group") == group:
                newer.append(entry)
        return iter(newer[::-1])

    def _listen(self) -> None:
        self._feed.unlisten(self._hear)
        if self._starts[True] or self._starts[False]:
            self._feed.listen(self._hear, requests=self._starts[True] > 0)

    def _hear(self, events: list[dict[str, Any]], now: float) -> None:
        for event in events:
            self.seen += 1
            self._entries.append(Entry(self.seen, now, event))
            self._size += _size(event)
            for follower in self._followers:
                follower(self.seen, now, event)
        while self._size > self._kept:
            self._size -= _size(self._entries.popleft().event)
        for call in self.on_change:
            call()


def _size(event: dict[str, Any]) -> int:
    return 1 + len(event.get("assignments") or ()) + len(event.get("waited_for") or ())
