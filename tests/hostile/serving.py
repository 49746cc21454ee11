"""A server in its own process, watched from outside: its memory, its log, and its service to other clients."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header

PATIENCE = 60.0


class Serving:
    """A running `kafka-shim serve`."""

    def __init__(self, process: subprocess.Popen[str], port: int, log: Path) -> None:
        self.port = port
        self.process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def resident(self) -> int:
        """Return the bytes of its memory in use."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def begin_peak(self) -> None:
        """Let `peak` begin again."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    @property
    def peak(self) -> int:
        """Return the most bytes of its memory in use since `begin_peak`."""
        (line,) = [
            each
            for each in Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            if each.startswith("VmHWM:")
        ]
        return int(line.split()[1]) * 1024

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def log_lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    def connect(self) -> Peer:
        return Peer(socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE))


class Peer:
    """One connection for any bytes."""

    def __init__(self, sock: socket.socket, client_id: str = "hostile") -> None:
        self.sock = sock
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sock.close()

    def ask(self, request: Message, version: int) -> Message:
        """Send a request and return its answer."""
        self._correlation_id += 1
        self.sock.sendall(frame(request_bytes(request, version, self._correlation_id, self._client_id)))
        answer = self.read_frame()
        assert answer is not None, "closed instead of answering"
        api = APIS[request.api_key]
        correlation_id, offset = decode_response_header(answer, api.key, version)
        assert correlation_id == self._correlation_id
        return api.response.decode(answer[offset:], version)

    def read_frame(self) -> bytes | None:
        """Return the next frame; None when the connection was closed."""
        head = self._read(4)
        return None if head is None else self._read(struct.unpack(">i", head)[0])

    def outcome(self) -> str:
        """End the sending side and return the outcome: "answered" or "closed"."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
            return "closed" if self.read_frame() is None else "answered"
        except OSError:
            return "closed"

    def _read(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                piece = self.sock.recv(size - len(data))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return data


def request_bytes(request: Message, version: int, correlation_id: int = 1, client_id: str | None = "hostile") -> bytes:
    """Return header and body of a request, without the frame's size."""
    return encode_request_header(request.api_key, version, correlation_id, client_id) + request.encode(version)


@contextmanager
def serving(folder: Path, *options: str, first: str = "") -> Iterator[Serving]:
    """Start a server with the memory store and no initial delay; its process runs the line `first` before."""
    log = folder / "server.log"
    program = f"{first}\nfrom kafka_shim.cli import main\nmain()"
    command = [sys.executable, "-c", program, "serve", "--listen", "127.0.0.1:0", "--store", "memory:"]
    settings = ["--config", "group.initial.rebalance.delay.ms=0", *options]
    with log.open("w") as errors:
        process = subprocess.Popen([*command, *settings], stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("ready "), log.read_text()
        port = int(ready.split()[1].rpartition(":")[2])
        yield Serving(process, port, log)
        assert process.poll() in (None, 0), log.read_text()
    finally:
        process.terminate()
        process.wait(PATIENCE)
        assert process.stdout is not None
        process.stdout.close()
