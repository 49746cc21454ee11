"""A trace as a page: one HTML file with the trace in it, and what `why` says of each of its groups.

Decides what goes into the file beside the trace. The page itself is put together by `page.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from kafka_shim.why.advice import Play
from kafka_shim.why.explanation import as_json, explain
from kafka_shim.why.history import History
from kafka_shim.why.page import standalone
from kafka_shim.why.reading import Event


def page_of(events: Iterable[Event], name: str, play: Play | None = None, frames: bytes = b"") -> bytes:
    """The page with these events in it. Remedies are played by `play`, or not at all; `frames` are as `standalone` has
    them."""
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
