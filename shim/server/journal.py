"""The input journal: everything that decides what a process does, in the order in which it happened.

Decides what a line of the journal says, and when the journal ends: at its limit, or when the disk takes no more. A run
is deterministic but for its inputs: bytes that arrive, connections that begin and end, timers that are due, what the
store answers, and what an operator does. All of them pass here with their time, and while one of them is worked on the
coordinator's clock stands still. Random ids come from a seed in the first line. So a replay (`shim/lab/replay.py`) has
the same answers, records and trace. It does not know what an input does; `journaled.py` knows where they come in.

The format is in `docs/replay.md`.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from secrets import randbits
from typing import Any, Final, Protocol, Self

import orjson
import trio

log: Final = logging.getLogger("kafka_shim.server")

FORMAT: Final = 1
MAX_BYTES: Final = 1024 * 1024 * 1024
BUFFER_BYTES: Final = 64 * 1024
FLUSH_SECONDS: Final = 0.2

SENT, UNSENT, BROKEN = range(3)
"""What became of an answer: the transport took all of it, or only a part, or the connection broke."""


class Inputs(Protocol):
    """Where inputs are noted."""

    def input(self, kind: str, now: float | None = None, **fields: Any) -> AbstractContextManager[None]:
        """What happens in this block follows from one input, which came at `now`, or else just now."""


class Unjournaled:
    """The inputs of a process without a journal."""

    def input(self, kind: str, now: float | None = None, **fields: Any) -> AbstractContextManager[None]:
        return nullcontext()


class Ids:
    """Random ids, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)


class Journal:
    """Writes the inputs of a run to `path` while a `with` block lasts. Raises OSError if it cannot.

    It ends before it is larger than `max_bytes`; the process goes on. `real` is the clock that runs, in seconds.
    `real_ahead` is of a laboratory, which moves that clock: by how many seconds it is ahead of real time.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int = MAX_BYTES,
        real: Callable[[], float] = time.monotonic,
        real_ahead: Callable[[], float] | None = None,
    ) -> None:
        self.path = path
        self.seed = randbits(128)
        self.new_uuid = Ids(self.seed)
        self.inside = False
        """Whether an input is being worked on."""
        self.ended = False
        """Whether it takes no more."""
        self._real = real
        self._real_ahead = real_ahead
        self._now = 0.0
        self._ahead = 0.0
        self._seq = 0
        self._max_bytes = max_bytes
        self._size = 0
        self._lines = bytearray()
        self._answers: list[tuple[int, int, int, int]] = []
        self._file = path.open("wb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        self._file.close()
        self.ended = True

    def clock(self) -> float:
        """The coordinator's clock: it stands still while an input is worked on."""
        return self._now if self.inside else self._real()

    def ahead(self) -> float:
        """By how many seconds the coordinator's clock is ahead of real time."""
        if self.inside or self._real_ahead is None:
            return self._ahead
        return self._real_ahead()

    def begin(self, run: Mapping[str, Any]) -> None:
        """Write the first line: what the run is made of beside its inputs."""
        self._write({"journal": FORMAT, "seed": f"{self.seed:032x}", **run})

    @contextmanager
    def input(self, kind: str, now: float | None = None, **fields: Any) -> Iterator[None]:
        """See `Inputs.input`. What happens within another input follows from that one, and is not noted."""
        if self.inside:
            yield
            return
        self.enter(self._real() if now is None else now)
        try:
            yield
        finally:
            self.leave(kind, fields)

    def enter(self, now: float) -> None:
        """An input that came at `now` is about to be worked on."""
        self._now = now
        if self._real_ahead is not None:
            self._ahead = self._real_ahead()
        self.inside = True

    def leave(self, kind: str, fields: dict[str, Any]) -> None:
        """It was."""
        self.inside = False
        answers, self._answers = self._answers, []
        if not self.ended:
            self._seq += 1
            line = {"seq": self._seq, "at": self._now, "in": kind, **fields}
            if self._ahead:
                line["ahead"] = self._ahead
            if answers:
                line["out"] = answers
            self._write(line)

    def answered(self, connection: int, data: bytes, outcome: int) -> None:
        """The input that is worked on had this answer."""
        self._answers.append((connection, len(data), zlib.crc32(data), outcome))

    def end(self, reason: str) -> None:
        """Take no more: something happens from now on that no journal has."""
        if not self.ended:
            log.warning("the journal %s ends here: %s", self.path, reason)
            self.flush()
            self.ended = True

    def flush(self) -> None:
        """Write what was gathered."""
        if self._lines:
            rest = memoryview(bytes(self._lines))
            self._lines.clear()
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError as error:
                log.error("the journal %s ends here, it cannot be written: %s", self.path, error.strerror or error)
                self.ended = True

    async def run(self) -> None:
        """Write at least a few times a second, until cancelled."""
        while True:
            await trio.sleep(FLUSH_SECONDS)
            self.flush()

    def _write(self, line: Mapping[str, Any]) -> None:
        data = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        self._size += len(data)
        if self._size > self._max_bytes:
            log.warning("the journal %s ends here: it has %d bytes", self.path, self._size - len(data))
            self.flush()
            self.ended = True
            return
        self._lines += data
        if len(self._lines) > BUFFER_BYTES:
            self.flush()


def text_of(data: bytes) -> str:
    """Bytes as the journal has them."""
    return b64encode(data).decode()
