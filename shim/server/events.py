"""Who hears of the trace events of a process.

Decides whether the rules build events at all: only while somebody listens, and those of every request only for who
wants them. It does not know what an event says (`shim/groups/trace.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kafka_shim.groups.event_templates import Event, as_dict
from kafka_shim.groups.outbox import Outbox

Listener: TypeAlias = Callable[[list[dict[str, Any]], float], None]
"""Gets the events of a tick and its time, in monotonic seconds of the coordinator's clock."""
RawListener: TypeAlias = Callable[[Sequence[Event], float], None]
"""The same, but events made from a template come as they are (`shim/groups/event_templates.py`)."""


class EventFeed:
    """The trace events of a process, from its outbox to its listeners."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._listeners: list[Listener] = []
        self._raw_listeners: list[RawListener] = []
        self._of_requests: list[Listener | RawListener] = []
        """The listeners that want the events of every request too."""

    def listen(self, listener: Listener, *, requests: bool = True) -> None:
        """Let a listener hear all events from now on.

        Without `requests` events that come with every request (`exchange`, `parked`, `timer`, an accepted `commit`) are
        not built for it: it hears of groups and their members, and of requests while somebody else wants them.
        """
        self._listeners.append(listener)
        self._begin(listener, requests)

    def listen_raw(self, listener: RawListener) -> None:
        """As `listen`, but events made from a template come as they are."""
        self._raw_listeners.append(listener)
        self._begin(listener, True)

    def unlisten(self, listener: Listener | RawListener) -> None:
        """Let a listener hear no more; it may be hearing something just now."""
        self._listeners = [each for each in self._listeners if each != listener]
        self._raw_listeners = [each for each in self._raw_listeners if each != listener]
        self._of_requests = [each for each in self._of_requests if each != listener]
        self._note()

    def publish(self, now: float) -> None:
        """Hand on the events that the outbox has."""
        events, self._outbox.events = self._outbox.events, []
        if self._listeners:
            plain = [event if isinstance(event, dict) else as_dict(event) for event in events]
            for listener in self._listeners:
                listener(plain, now)
        for raw_listener in self._raw_listeners:
            raw_listener(events, now)

    def _begin(self, listener: Listener | RawListener, requests: bool) -> None:
        if requests:
            self._of_requests.append(listener)
        self._note()

    def _note(self) -> None:
        self._outbox.listening = bool(self._listeners or self._raw_listeners)
        self._outbox.tracing = bool(self._of_requests)
