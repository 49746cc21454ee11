"""Page of a replay: one HTML file with a whole run, including the bytes of its requests.

It keeps the bytes of the newest requests of members, except accepted heartbeats without changes, which are many and all
alike. The replay produces events and answers again: the journal has only requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from kafka_shim.lab.replay import Replay
from kafka_shim.lab.replaying import play
from kafka_shim.persistence.files import write_private
from kafka_shim.server.frames import FrameHistory, FramePair
from kafka_shim.trace.events import SCHEMA_VERSION
from kafka_shim.why.export import page_of

MOST_FRAMES: Final = 3000
"""Requests with their bytes in the page; each takes some kilobytes before compression."""
_KEPT_BYTES: Final = 256 * 1024 * 1024
_SAYING: Final = ("topic_partitions", "active_tasks", "subscribed_topic_names", "assignment")
"""Fields of heartbeats, or of their answers, that are null without changes."""


class ReplayedPage:
    """Collects the events of a replay from now on. Call `write` at its end."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._lines = [{"event": "trace", "schema": SCHEMA_VERSION}]
        self._frames = FrameHistory(replay.cluster.nodes.values, _KEPT_BYTES)
        self._frames.start()
        replay.cluster.events.listen(self._take)

    def _take(self, events: list[dict[str, Any]], now: float) -> None:
        wall = now + self._replay.cluster.wall_offset
        for event in events:
            self._lines.append({**event, "seq": len(self._lines), "mono": now, "wall": wall})

    def write(self, path: Path, name: str) -> int:
        """Write the page; return the number of requests with their bytes."""
        spoken = {
            (line["conn"], line["correlation_id"], line["arrived"])
            for line in self._lines
            if line["event"] == "exchange" and line["member"] and not _is_quiet(line)
        }
        pairs = [pair for pair in self._frames if _number(pair) in spoken][-MOST_FRAMES:]
        frames = b"".join(orjson.dumps(pair.as_dict()) + b"\n" for pair in pairs)
        write_private(path, page_of(self._lines, name, play, frames))
        return len(pairs)


def _number(pair: FramePair) -> tuple[int, int, float | None]:
    return pair.connection, pair.correlation_id, pair.arrived


def _is_quiet(exchange: Mapping[str, Any]) -> bool:
    """Decide as `isQuiet` of the page does."""
    if exchange["error"] or not exchange["api"].endswith("Heartbeat"):
        return False
    if exchange["api"] == "Heartbeat":
        return True
    values = [message.get(name) for message in (exchange["request"], exchange["answer"]) for name in _SAYING]
    return exchange["request"]["member_epoch"] > 0 and all(each is None for each in values)
