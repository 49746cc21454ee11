"""The functions of a process that are called with each trace event: trace file, history, live page.

The rules build events only while there is a listener. Events that come with every request go only to the listeners that
ask for them. `shim/trace/schema.py` defines the fields of events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from kafka_shim.groups.outbox import Outbox
from kafka_shim.server.failures import Border, Failures
from kafka_shim.server.rare import RareExchange
from kafka_shim.trace.events import KINDS
from kafka_shim.trace.templates import Event, as_dict

Listener: TypeAlias = Callable[[list[dict[str, Any]], float], None]
"""Called with the events of a tick and its time, in monotonic seconds of the coordinator's clock."""
RawListener: TypeAlias = Callable[[Sequence[Event], float], None]
"""The same, but events made from a template come as they are (`shim/trace/templates.py`)."""


OF_REQUESTS: Final = frozenset(name for name, kind in KINDS.items() if kind.of_requests)
"""The kinds of events that come with every request. Accepted commits do too."""


class EventFeed:
    """The trace events of a process, from its outbox to its listeners."""

    def __init__(self, outbox: Outbox, failures: Failures) -> None:
        self._outbox = outbox
        self._failures = failures
        self._listeners: list[Listener] = []
        """Listeners for all events."""
        self._group_listeners: list[Listener] = []
        """Listeners for all events but those that come with every request."""
        self._raw_listeners: list[RawListener] = []

    def listen(self, listener: Listener, *, requests: bool = True) -> None:
        """Send a listener all events from now on; without `requests`, all but those that come with every request;
        exchanges that change a group, and errors, are among them (`rare.py`).
        """
        (self._listeners if requests else self._group_listeners).append(listener)
        self._note()

    def listen_raw(self, listener: RawListener) -> None:
        """As `listen`, but events made from a template come as they are."""
        self._raw_listeners.append(listener)
        self._note()

    def unlisten(self, listener: Listener | RawListener) -> None:
        """Send a listener no more events. It may call this itself, during an event."""
        self._listeners = [each for each in self._listeners if each != listener]
        self._raw_listeners = [each for each in self._raw_listeners if each != listener]
        self._group_listeners = [each for each in self._group_listeners if each != listener]
        self._note()

    def publish(self, now: float) -> None:
        """Send the events of the outbox to the listeners."""
        events, self._outbox.events = self._outbox.events, []
        if self._listeners:
            plain = [event if isinstance(event, dict) else as_dict(event) for event in events]
            for listener in self._listeners:
                self._tell(listener, plain, now)
        if self._group_listeners:
            # Events from a template come with a request.
            of_groups = [
                each
                for each in events
                if isinstance(each, dict) and (isinstance(each, RareExchange) or not is_of_request(each))
            ]
            if of_groups:
                for listener in self._group_listeners:
                    self._tell(listener, of_groups, now)
        for raw_listener in self._raw_listeners:
            self._tell(raw_listener, events, now)

    def _tell(self, listener: Callable[[Any, float], None], events: Sequence[Event], now: float) -> None:
        try:
            listener(events, now)
        except Exception as error:
            self._failures.note(Border.LISTENER, "a listener of trace events", error)

    def _note(self) -> None:
        self._outbox.tracing = bool(self._listeners or self._raw_listeners)
        self._outbox.listening = self._outbox.tracing or bool(self._group_listeners)


def is_of_request(event: dict[str, Any]) -> bool:
    """True if the event comes with every request."""
    kind = event["event"]
    return kind in OF_REQUESTS or (kind == "commit" and not event["error"])
