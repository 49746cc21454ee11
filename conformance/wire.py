"""The wire client of the suite: sends any message in any version, well formed or not.

It never retries, chooses a version or reads ahead. All frames go to a `Tape`, the evidence of the cell. All waits have
a deadline.
"""

from __future__ import annotations

import select
import socket
import ssl
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
    """A due answer did not come, or cannot be read. `due` is the API key and version of its request, if any."""

    def __init__(self, reason: str, due: tuple[int, int] | None = None) -> None:
        super().__init__(reason)
        self.due = due


class Closed(WireTrouble):
    """The target closed the connection when an answer was due."""


class NoAnswer(WireTrouble):
    """Nothing came before the deadline."""


class Undecodable(WireTrouble):
    """The bytes of an answer do not decode as the message and version of the request."""


@dataclass(frozen=True)
class Frame:
    """One entry of the evidence. `seconds` count from the start of the cell; `note` is an explanation."""

    seconds: float
    connection: str
    direction: str
    data: bytes
    note: str


@dataclass
class RoundTrip:
    """A request, with its text at the time of sending, and its answer; None until it arrives and decodes."""

    connection: str
    request: Message
    text: str
    version: int
    response: Message | None = None


class Tape:
    """The frames of a cell in the order of time, and its round trips in the order of sending."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self.frames: list[Frame] = []
        self.trips: list[RoundTrip] = []

    def record(self, connection: str, direction: str, data: bytes, note: str) -> None:
        self.frames.append(Frame(time.monotonic() - self._start, connection, direction, data, note))


@dataclass(frozen=True)
class UnansweredRequest:
    """A request that waits for its answer."""

    correlation_id: int
    request: Message
    version: int
    trip: RoundTrip


def header(key: int, version: int, correlation_id: int, client_id: str | None, *, flexible: bool) -> bytes:
    """Encode a request header, v1 or v2."""
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
        """The number of answers that are due."""
        return len(self._due)

    def send(self, request: Message, version: int) -> int:
        """Send a request without waiting; return its correlation id."""
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
        """Receive the answer to the oldest open request, decoded. `within` replaces the patience, in seconds."""
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
        """Send a request and wait for the answer."""
        self.send(request, version)
        return self.receive()

    def send_bytes(self, data: bytes, note: str = "raw bytes") -> None:
        """Send raw bytes, well formed or not. Read the answers with `receive_frame`."""
        self._write(data, note)

    def send_frame(self, payload: bytes, note: str = "raw frame") -> None:
        """Send a payload behind its correct size."""
        self._write(_SIZE.pack(len(payload)) + payload, note)

    def _write(self, data: bytes, note: str) -> None:
        self._tape.record(self.label, ">", data, note)
        self._socket.settimeout(self._seconds())
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError) as error:
            raise Closed(f"the target closed connection {self.label} before the request was sent") from error

    def receive_frame(self, *, within: float | None = None) -> bytes:
        """Return the next frame, without its size."""
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
        """Read available bytes; return False at the end of the stream, raise `NoAnswer` on a timeout."""
        if seconds <= 0:
            raise NoAnswer(f"no answer on connection {self.label}")
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(1 << 18)
        except TimeoutError as error:
            raise NoAnswer(f"no answer on connection {self.label} within {self._patience:.1f} s") from error
        except (ConnectionResetError, ssl.SSLError):
            data = b""
        if not data:
            self._tape.record(self.label, "<", b"", "closed by the target")
            return False
        self._buffer += data
        return True

    def is_silent(self) -> bool:
        """Return True if no unread bytes have arrived. Does not wait."""
        return not (self._buffer or self._is_readable(0))

    @staticmethod
    def wait_for_any(connections: Sequence[Connection], seconds: float) -> None:
        """Return as soon as one of the connections has unread bytes, and after `seconds` at the latest."""
        if not any(each._buffer for each in connections):
            select.select([each._socket for each in connections], [], [], max(seconds, 0.0))

    def answers_within(self, seconds: float) -> bool:
        """Return True if bytes or the end of the connection arrive in time."""
        return bool(self._buffer) or self._is_readable(self._seconds(seconds))

    def _is_readable(self, seconds: float) -> bool:
        """Return True if bytes or the end of the stream arrive in time. Of TLS, a record may hold none of them."""
        limit = time.monotonic() + seconds
        while True:
            readable, _, _ = select.select([self._socket], [], [], max(limit - time.monotonic(), 0.0))
            if not readable or not isinstance(self._socket, ssl.SSLSocket):
                return bool(readable)
            self._socket.settimeout(0)
            try:
                self._buffer += self._socket.recv(1 << 18)
            except ssl.SSLWantReadError:
                continue
            except OSError:
                """The next read reports it."""
            return True

    def wait_closed(self) -> bool:
        """Wait for the target to close; return True if it sends no further byte."""
        return not self._buffer and not self._read_more(self._seconds())

    def close(self) -> None:
        """Close this end at once."""
        self._tape.record(self.label, ">", b"", "closed by the suite")
        self._socket.close()

    def reset(self) -> None:
        """Close with a TCP reset instead of an end of stream."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()
