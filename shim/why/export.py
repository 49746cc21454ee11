"""A trace as a page: one HTML file with the trace, and the explanations of its groups.

`page.py` builds the page itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from kafka_shim.trace.history import History
from kafka_shim.trace.reading import Event
from kafka_shim.why.explanation import as_json, explain
from kafka_shim.why.page import standalone
from kafka_shim.why.remedies import Play


def page_of(events: Iterable[Event], name: str, play: Play | None = None, frames: bytes = b"") -> bytes:
    """Return the page with these events. `play` simulates remedies, None skips that; `frames` are as for
    `standalone`.
    """
    history = History()
    lines = []
    for event in events:
        history.add(event)
        lines.append(orjson.dumps(event) + b"\n")
    why = b"".join(orjson.dumps(each) + b"\n" for each in _explained(history, play))
    return standalone(b"".join(lines), name, frames, why)


def _explained(history: History, play: Play | None) -> Iterator[dict[str, Any]]:
    for group in history.groups.values():
        explanation = explain(group, list(group.rebalances), play)
        if explanation is not None:
            yield as_json(explanation)
