"""Who hears of the trace events of a process.

Decides whether the rules build events at all, only while somebody listens, and who hears of which: those of every
request are for those who want them. It does not know what else an event says (`shim/groups/trace.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from kafka_shim.groups.event_templates import Event, as_dict
from kafka_shim.groups.outbox import Outbox

Listener: TypeAlias = Callable[[list[dict[str, Any]], float], None]
"""Gets the events of a tick and its time, in monotonic seconds of the coordinator's clock."""
RawListener: TypeAlias = Callable[[Sequence[Event], float], None]
"""The same, but events made from a template come as they are (`shim/groups/event_templates.py`)."""


OF_REQUESTS: Final = frozenset({"exchange", "parked", "timer"})
"""The kinds of events that come with every request, beside commits that were accepted."""


class EventFeed:
    """The trace events of a process, from its outbox to its listeners."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._listeners: list[Listener] = []
        """Those that want the events of every request too."""
        self._group_listeners: list[Listener] = []
        """Those that do not."""
        self._raw_listeners: list[RawListener] = []

    def listen(self, listener: Listener, *, requests: bool = True) -> None:
        """Let a listener hear all events from now on, without `requests` all but those that come with every request."""
        (self._listeners if requests else self._group_listeners).append(listener)
        self._note()

    def listen_raw(self, listener: RawListener) -> None:
        """As `listen`, but events made from a template come as they are."""
        self._raw_listeners.append(listener)
        self._note()

    def unlisten(self, listener: Listener | RawListener) -> None:
        """Let a listener hear no more; it may be hearing something just now."""
        self._listeners = [each for each in self._listeners if each != listener]
        self._raw_listeners = [each for each in self._raw_listeners if each != listener]
        self._group_listeners = [each for each in self._group_listeners if each != listener]
        self._note()

    def publish(self, now: float) -> None:
        """Hand on the events that the outbox has."""
        events, self._outbox.events = self._outbox.events, []
        if self._listeners:
            plain = [event if isinstance(event, dict) else as_dict(event) for event in events]
            for listener in self._listeners:
                listener(plain, now)
        if self._group_listeners:
            # What is made from a template comes with a request.
            of_groups = [each for each in events if isinstance(each, dict) and not _is_of_request(each)]
            if of_groups:
                for listener in self._group_listeners:
                    listener(of_groups, now)
        for raw_listener in self._raw_listeners:
            raw_listener(events, now)

    def _note(self) -> None:
        self._outbox.tracing = bool(self._listeners or self._raw_listeners)
        self._outbox.listening = self._outbox.tracing or bool(self._group_listeners)


def _is_of_request(event: dict[str, Any]) -> bool:
    kind = event["event"]
    return kind in OF_REQUESTS or (kind == "commit" and not event["error"])
