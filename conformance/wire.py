"""A wire client of the suite's own: sends what a case says, in the version it says, well formed or not.

Decides nothing about the protocol: no retries, no version choice, no reading ahead. Everything sent and received goes
to a `Tape`, the evidence of the cell. All waits have a deadline.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.apis.wire import DecodeError, Message
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.protocol import api_of

_SIZE: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">hhi")
CLIENT_ID: Final = "conformance"


class WireTrouble(Exception):
    """An answer was due and none that can be read came. `due` is the API key and version it was due for, if any."""

    def __init__(self, reason: str, due: tuple[int, int] | None = None) -> None:
        super().__init__(reason)
        self.due = due


class Closed(WireTrouble):
    """The target closed the connection where an answer was due."""


class NoAnswer(WireTrouble):
    """Nothing came before the deadline."""


class Undecodable(WireTrouble):
    """An answer came whose bytes are not the message and version of the request."""


@dataclass(frozen=True)
class Frame:
    """One entry of the evidence. `seconds` since the start of the cell; `note` says what a frame cannot."""

    seconds: float
    connection: str
    direction: str
    data: bytes
    note: str


@dataclass
class RoundTrip:
    """A request that was sent, as it was then, and its answer, None until it has come and could be read."""

    connection: str
    request: Message
    text: str
    version: int
    response: Message | None = None


class Tape:
    """The frames of a cell in the order they happened; and its requests with their answers, in the order of sending."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self.frames: list[Frame] = []
        self.trips: list[RoundTrip] = []

    def record(self, connection: str, direction: str, data: bytes, note: str) -> None:
        self.frames.append(Frame(time.monotonic() - self._start, connection, direction, data, note))


@dataclass(frozen=True)
class UnansweredRequest:
    """A request on its way, in the order answers are due."""

    correlation_id: int
    request: Message
    version: int
    trip: RoundTrip


def header(key: int, version: int, correlation_id: int, client_id: str | None, *, flexible: bool) -> bytes:
    """A request header, v1 or v2."""
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id.encode())) + client_id.encode()
    return _HEADER.pack(key, version, correlation_id) + name + (b"\0" if flexible else b"")


class Connection:
    """One connection to the target. `deadline` is monotonic seconds and bounds every wait of the cell."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        patience: float,
        deadline: float,
        tape: Tape,
        label: str,
        client_id: str = CLIENT_ID,
    ) -> None:
        self.label = label
        self.client_id = client_id
        self._patience = patience
        self._deadline = deadline
        self._tape = tape
        self._due: deque[UnansweredRequest] = deque()
        self._buffer = bytearray()
        self._next_correlation_id = 1
        self.answered: set[tuple[int, int]] = set()
        try:
            self._socket = endpoint.connect(self._seconds())
        except TimeoutError as error:
            raise NoAnswer(f"connection {label} to {endpoint} was not accepted") from error
        except OSError as error:
            raise Closed(f"connection {label} to {endpoint} was refused: {error}") from error

    def _seconds(self, seconds: float | None = None) -> float:
        return max(0.001, min(self._deadline - time.monotonic(), self._patience if seconds is None else seconds))

    @property
    def pending(self) -> int:
        """How many answers are due."""
        return len(self._due)

    def send(self, request: Message, version: int) -> int:
        """Send a request without waiting; its correlation id."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        flexible = version in type(request).flexible
        body = request.encode(version)
        frame = header(api_of(request).key, version, correlation_id, self.client_id, flexible=flexible) + body
        trip = RoundTrip(self.label, request, f"{request!r}", version)
        self._write(_SIZE.pack(len(frame)) + frame, f"{type(request).__name__} v{version} {trip.text}")
        self._tape.trips.append(trip)
        self._due.append(UnansweredRequest(correlation_id, request, version, trip))
        return correlation_id

    def receive(self, *, within: float | None = None) -> Any:
        """The answer to the oldest request that has none yet, decoded. `within`: seconds, not the usual patience."""
        sent = self._due[0]
        api = api_of(sent.request)
        due = (api.key, sent.version)
        try:
            data = self.receive_frame(within=within)
        except WireTrouble as trouble:
            trouble.due = due
            raise
        self._due.popleft()
        (correlation_id,) = _SIZE.unpack_from(data)
        if correlation_id != sent.correlation_id:
            raise Undecodable(f"answer {correlation_id} came where {sent.correlation_id} was due", due)
        # ApiVersions answers with the oldest header in every version: it is read before any version is agreed on.
        offset = 5 if sent.version in api.response.flexible and api.key != 18 else 4
        if offset == 5 and data[4:5] != b"\0":
            raise Undecodable(
                f"the response header of {api.name} v{sent.version} has no empty tag section: {data[:8].hex()}",
                due,
            )
        try:
            response, end = api.response.decoder(sent.version)(data, offset)
        except DecodeError as error:
            raise Undecodable(f"{api.name} v{sent.version} answer: {error}; bytes {data[:64].hex()}", due) from error
        if end != len(data):
            raise Undecodable(
                f"{api.name} v{sent.version} answer is followed by {len(data) - end} bytes of no field", due
            )
        sent.trip.response = response
        self._tape.record(self.label, "=", b"", f"{response!r}")
        self.answered.add(due)
        return response

    def call(self, request: Message, version: int) -> Any:
        """Send and wait for the answer."""
        self.send(request, version)
        return self.receive()

    def send_bytes(self, data: bytes, note: str = "raw bytes") -> None:
        """Send bytes as they are, well formed or not. Answers to them are read with `receive_frame`."""
        self._write(data, note)

    def send_frame(self, payload: bytes, note: str = "raw frame") -> None:
        """Send a payload with its right size before it."""
        self._write(_SIZE.pack(len(payload)) + payload, note)

    def _write(self, data: bytes, note: str) -> None:
        self._tape.record(self.label, ">", data, note)
        self._socket.settimeout(self._seconds())
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed(f"the target closed connection {self.label} before the request was sent") from error

    def receive_frame(self, *, within: float | None = None) -> bytes:
        """The next frame, without its size."""
        limit = time.monotonic() + self._seconds(within)
        while True:
            if len(self._buffer) >= 4:
                (size,) = _SIZE.unpack_from(self._buffer)
                if len(self._buffer) >= 4 + size:
                    data = bytes(self._buffer[4 : 4 + size])
                    del self._buffer[: 4 + size]
                    self._tape.record(self.label, "<", data, "")
                    return data
            if not self._read_more(limit - time.monotonic()):
                raise Closed(f"the target closed connection {self.label} instead of answering")

    def _read_more(self, seconds: float) -> bool:
        """Read what there is; False at the end of the stream; `NoAnswer` when the time is up."""
        if seconds <= 0:
            raise NoAnswer(f"no answer on connection {self.label}")
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(1 << 18)
        except TimeoutError as error:
            raise NoAnswer(f"no answer on connection {self.label} within {self._patience:.1f} s") from error
        except ConnectionResetError:
            data = b""
        if not data:
            self._tape.record(self.label, "<", b"", "closed by the target")
            return False
        self._buffer += data
        return True

    def is_silent(self) -> bool:
        """Whether nothing has come that was not read yet. Says what is so now; it does not wait."""
        if self._buffer:
            return False
        readable, _, _ = select.select([self._socket], [], [], 0)
        return not readable

    @staticmethod
    def wait_for_any(connections: Sequence[Connection], seconds: float) -> None:
        """Return when something has come on one of these that was not read yet, and after `seconds` at the latest."""
        if not any(each._buffer for each in connections):
            select.select([each._socket for each in connections], [], [], max(seconds, 0.0))

    def answers_within(self, seconds: float) -> bool:
        """Whether something comes, or the connection ends, before the time is up."""
        if self._buffer:
            return True
        readable, _, _ = select.select([self._socket], [], [], self._seconds(seconds))
        return bool(readable)

    def wait_closed(self) -> bool:
        """Wait for the target to close; True if it did so without sending another byte, False if it sent something."""
        return not self._buffer and not self._read_more(self._seconds())

    def close(self) -> None:
        """Close this end, at once."""
        self._tape.record(self.label, ">", b"", "closed by the suite")
        self._socket.close()

    def reset(self) -> None:
        """Close so that the target sees a reset and not an end of stream."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()
