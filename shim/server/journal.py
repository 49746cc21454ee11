"""The input journal: everything that determines a run of the process, in order.

A run is deterministic but for its inputs: arriving bytes, connections that begin and end, due timers, answers of the
store, and operations. Each input is noted with its time, and the coordinator's clock stands still while it is handled.
Random ids come from a seed in the first line. So a replay (`shim/lab/replay.py`) gives the same answers, records and
trace. The journal ends at its size limit, when the disk is full, or before an event that it cannot note; its last line
then says why.

A part notes an input where it arrives: `with inputs.input(kind, now, ...)` around its work. Where the fields cost time,
or the place is passed by each request, it asks first whether `inputs.listening`.

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

from kafka_shim.apis.wire.frames import FrameError, FrameSplitter
from kafka_shim.persistence.files import begin_file
from kafka_shim.persistence.keys import encode_key
from kafka_shim.persistence.records import encode_value
from kafka_shim.server.connection import Connection, State
from kafka_shim.server.passwords import holds_password, may_hold_password

log: Final = logging.getLogger("kafka_shim.server")

FORMAT: Final = 1
MAX_BYTES: Final = 1024 * 1024 * 1024
BUFFER_BYTES: Final = 64 * 1024
FLUSH_SECONDS: Final = 0.2
_END_BYTES: Final = 200
"""Bytes that are free for the last line."""

SENT, UNSENT, BROKEN = range(3)
"""The outcome of an answer: sent in full, sent in part, or the connection broke."""


class Inputs(Protocol):
    """A receiver of inputs. `listening` is false while one is handled: all that happens then follows from it."""

    listening: bool

    def input(self, kind: str, now: float | None = None, **fields: Any) -> AbstractContextManager[None]:
        """Note an input that came at `now`, by default the present time; the block handles it."""

    def follow(self, session: Connection) -> None:
        """Note the answers of a session too, each with the input that it follows from."""

    def splitter(self) -> FrameSplitter:
        """Return the splitter of a new session."""


class Unjournaled:
    """The inputs of a process without a journal."""

    listening = False

    def input(self, kind: str, now: float | None = None, **fields: Any) -> AbstractContextManager[None]:
        return _NOTHING

    def follow(self, session: Connection) -> None:
        pass

    def splitter(self) -> FrameSplitter:
        return FrameSplitter()


_NOTHING: Final = nullcontext()


class Ids:
    """Random ids, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def __call__(self) -> uuid.UUID:
        return uuid.UUID(int=self._random.getrandbits(128), version=4)


class Journal:
    """Writes the inputs of a run to `path` while a `with` block lasts. Raises OSError if it cannot.

    An existing journal is renamed, since it may explain the end of the process before. The journal ends before
    `max_bytes`; the process goes on. `real` is the running clock, in seconds. `real_ahead` returns the seconds by which
    a laboratory has moved that clock ahead of real time.
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
        self.listening = True
        self.ended = False
        """True if no further input is noted."""
        self.end_reason = ""
        """A clause; empty as long as the journal goes on."""
        self._real = real
        self._real_ahead = real_ahead
        self._now = 0.0
        self._ahead = 0.0
        self._seq = 0
        self._max_bytes = max_bytes
        self._size = 0
        self._lines = bytearray()
        self._answers: list[tuple[int, int, int, int]] = []
        self._file = begin_file(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()
        self._file.close()
        self.ended = True

    def clock(self) -> float:
        """Return the coordinator's time, which stands still while an input is handled."""
        return self._real() if self.listening else self._now

    def ahead(self) -> float:
        """Return the seconds by which the coordinator's clock is ahead of real time."""
        return self._real_ahead() if self.listening and self._real_ahead is not None else self._ahead

    def begin(self, run: Mapping[str, Any]) -> None:
        """Write the first line: everything that determines the run beside its inputs."""
        self._write({"journal": FORMAT, "seed": f"{self.seed:032x}", **run})

    @contextmanager
    def input(self, kind: str, now: float | None = None, **fields: Any) -> Iterator[None]:
        """See `Inputs.input`. An input inside another follows from the outer one and is not noted."""
        if not self.listening:
            yield
            return
        self._now = self._real() if now is None else now
        if self._real_ahead is not None:
            self._ahead = self._real_ahead()
        self.listening = False
        try:
            yield
        finally:
            self.listening = True
            self._note(kind, fields)

    def follow(self, session: Connection) -> None:
        """See `Inputs.follow`."""
        session.transport = _AnswersNoted(self, session)

    def splitter(self) -> FrameSplitter:
        """See `Inputs.splitter`."""
        return _Watched(self)

    def _note(self, kind: str, fields: dict[str, Any]) -> None:
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
        """Note an answer to the present input."""
        self._answers.append((connection, len(data), zlib.crc32(data), outcome))

    def end(self, reason: str) -> None:
        """End the journal: an event follows that it cannot note."""
        if not self.ended:
            log.warning("the journal %s ends here: %s", self.path, reason)
            self.ended, self.end_reason = True, reason
            last = {"seq": self._seq + 1, "at": self._real(), "in": "end", "reason": reason}
            self._lines += orjson.dumps(last, option=orjson.OPT_APPEND_NEWLINE)
            self.flush()

    def flush(self) -> None:
        """Write the buffered lines."""
        if self._lines:
            rest = memoryview(bytes(self._lines))
            self._lines.clear()
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError as error:
                reason = f"it cannot be written: {error.strerror or error}"
                log.error("the journal %s ends here, %s", self.path, reason)
                self.ended, self.end_reason = True, reason

    async def run(self) -> None:
        """Write a few times a second, until cancelled."""
        while True:
            await trio.sleep(FLUSH_SECONDS)
            self.flush()

    def _write(self, line: Mapping[str, Any]) -> None:
        data = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        if self._size + len(data) > self._max_bytes - _END_BYTES:
            self._seq -= 1
            self.end(f"it has {self._size} bytes, its limit is {self._max_bytes}")
            return
        self._size += len(data)
        self._lines += data
        if len(self._lines) > BUFFER_BYTES:
            self.flush()


class _Watched(FrameSplitter):
    """A splitter that ends the journal at a request with a password, before the input with its bytes is noted. Those
    of an unfinished request may hold one already."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def feed(self, data: bytes) -> list[bytes]:
        """See `FrameSplitter.feed`."""
        try:
            frames = super().feed(data)
        except FrameError as error:
            self._look(error.frames)
            raise
        self._look(frames)
        return frames

    def _look(self, frames: list[bytes]) -> None:
        if may_hold_password(self.unfinished[4:6]) or any(map(holds_password, frames)):
            self._journal.end("a client's request may hold a password")


class _AnswersNoted:
    """The transport of a session, which notes sent bytes and the outcome."""

    __slots__ = ("_journal", "_session", "_transport", "peer")

    def __init__(self, journal: Journal, session: Connection) -> None:
        self.peer = session.transport.peer
        self._journal = journal
        self._session = session
        self._transport = session.transport

    @property
    def paused(self) -> bool:
        return self._transport.paused

    def send(self, data: bytes) -> bool:
        whole, session = self._transport.send(data), self._session
        outcome = BROKEN if session.state is State.CLOSED else SENT if whole else UNSENT
        self._journal.answered(session.number, data, outcome)
        return whole

    def pause(self) -> None:
        self._transport.pause()

    def resume(self) -> None:
        self._transport.resume()

    def close(self) -> None:
        self._transport.close()


def text_of(data: bytes) -> str:
    """Return bytes as text of the journal."""
    return b64encode(data).decode()


def encoded(records: list[tuple[Any, Any]]) -> list[tuple[str, str]]:
    """Return records in the form of the journal."""
    return [(text_of(encode_key(key)), text_of(encode_value(key, value))) for key, value in records]
