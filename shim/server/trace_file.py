"""The trace as a file: JSON Lines, one event a line, rotated by size.

At its size limit a file is renamed, `trace.jsonl` to `trace.jsonl.1` and so on, so that a reader sees whole files and
one that grows. Lines are buffered and written a few times a second, sooner if there are many, so memory stays small.
When the disk is full the trace ends and the server goes on.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

import orjson
import trio

from kafka_shim.persistence.files import begin_file
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.trace import end_offsets
from kafka_shim.trace.events import LIMITS, SCHEMA_VERSION
from kafka_shim.trace.templates import Event, ending

log: Final = logging.getLogger("kafka_shim.server")

MAX_BYTES: Final = 64 * 1024 * 1024
BUFFER_BYTES: Final = 64 * 1024
FLUSH_SECONDS: Final = 0.2
END_OFFSETS_SECONDS: Final = 5.0


class TraceLog:
    """Writes events to `path` while a `with` block lasts. Raises OSError if it cannot.

    The times of events are of `clock`; `wall_offset` is the seconds to add for Unix time. `header` returns fields of
    the writer for a file's first line. `run_id` identifies the run, by default a new id.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], float],
        wall_offset: float,
        header: Callable[[], dict[str, Any]],
        max_bytes: int = MAX_BYTES,
        run_id: str | None = None,
    ) -> None:
        self.path = path
        self._clock = clock
        self._wall_offset = wall_offset
        self._header = header
        self._max_bytes = max_bytes
        self.failed = False
        """True after a failure to write; no event is written then."""
        self._run = run_id or uuid.uuid4().hex
        self._files = 0
        self._seq = 0
        self._parts: list[bytes] = []
        """Pending text: lines, whole or in parts."""
        self._gathered = 0
        """The size of the pending text in bytes."""
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        self._file.close()

    def tell(self, events: Sequence[Event], now: float) -> None:
        """Add events of the time `now`, monotonic seconds."""
        if self.failed:
            return
        seq = self._seq
        wall = now + self._wall_offset
        parts: list[bytes] = []
        add = parts.append
        ends: dict[float | None, bytes] = {}
        for event in events:
            seq += 1
            if isinstance(event, dict):
                event["seq"] = seq
                event["mono"] = now
                event["wall"] = wall
                add(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))
                continue
            (head, tail), numbers, arrived = event
            end = ends.get(arrived)
            if end is None:
                end = ends[arrived] = ending(arrived, now, wall)
            add(head)
            add(tail % (numbers + (seq, end)))  # noqa: RUF005 (twice as fast as unpacking)
        self._seq = seq
        self._parts += parts
        self._gathered += sum(map(len, parts))
        if self._gathered > BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the pending text, and begin the next file if this one is full."""
        if self._parts:
            # Join once: a buffer that grows line by line is copied again and again.
            lines = b"".join(self._parts)
            self._parts, self._gathered = [], 0
            try:
                self._write(lines)
            except OSError as error:
                log.error("the trace %s ends here, it cannot be written: %s", self.path, error.strerror or error)
                self.failed = True

    def _write(self, data: bytes) -> None:
        self._written += len(data)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        if self._written >= self._max_bytes:
            self._file.close()
            self._begin()

    async def run(self) -> None:
        """Write a few times a second, until cancelled."""
        while True:
            await trio.sleep(FLUSH_SECONDS)
            self.flush()

    def _begin(self) -> None:
        self._file = begin_file(self.path)
        self._files += 1
        self._written = 0
        header = {
            "event": "trace",
            "schema": SCHEMA_VERSION,
            "run": self._run,
            "file": self._files,
            **self._header(),
        }
        self.tell([header], self._clock())


class TraceFile(TraceLog):
    """Writes the events of `cluster`, and every few seconds the end offsets of partitions that have grown."""

    def __init__(self, path: Path, cluster: Cluster, max_bytes: int = MAX_BYTES) -> None:
        self._cluster = cluster
        self._ends: dict[tuple[str, int], int] = {}
        with cluster.inputs.input("trace", does="begin", max_bytes=max_bytes):
            run_id = cluster.config.run_id
            super().__init__(path, cluster.clock, cluster.wall_offset, self._of_cluster, max_bytes, run_id)

    def __enter__(self) -> Self:
        self._cluster.events.listen_raw(self.tell)
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        with self._cluster.inputs.input("trace", does="end"):
            self._cluster.events.unlisten(self.tell)
            self.tell_ends()
            super().__exit__(*exception)

    async def run(self) -> None:
        """Write a few times a second, until cancelled."""
        while True:
            for _ in range(round(END_OFFSETS_SECONDS / FLUSH_SECONDS)):
                await trio.sleep(FLUSH_SECONDS)
                self.flush()
            self.tell_ends()

    def flush(self) -> None:
        if not self._parts:
            return
        with self._cluster.inputs.input("trace", does="flush"):
            super().flush()
        if self.failed:
            self._cluster.events.unlisten(self.tell)

    def tell_ends(self) -> None:
        """Write an event with the end of each partition, if it has changed since the last event."""
        with self._cluster.inputs.input("trace", does="ends"):
            self._tell_ends()

    def _tell_ends(self) -> None:
        ends = {
            (topic.name, partition.index): partition.log.high_watermark
            for topic in self._cluster.topics.all()
            for partition in topic.partitions
            if partition.log.high_watermark
        }
        moved = [(*key, end) for key, end in ends.items() if self._ends.get(key) != end]
        if moved:
            self._ends = ends
            self.tell([end_offsets(moved)], self._cluster.clock())

    def _of_cluster(self) -> dict[str, Any]:
        return {
            "release": self._cluster.config.release,
            "nodes": [
                {"node": node.id, "host": node.address.host, "port": node.address.port}
                for node in self._cluster.nodes.values()
            ],
            "limits": limits_of(self._cluster),
        }


def limits_of(cluster: Cluster) -> dict[str, int]:
    """Return the bounds of group sizes and session timeouts, by Kafka's name of the setting."""
    return {name: int(cluster.topics.settings.text(name)) for name in LIMITS}
