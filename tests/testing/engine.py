"""A stand-in for a Docker engine: as much of its HTTP API as testcontainers needs, with a process for each container.

The image has environment, entry point and command of the last stage of the `Dockerfile`. A container has its own
address in 127.0.0.0/8 in place of a network; connections to a published port go there.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IMAGE = (ROOT / "Dockerfile").read_text().rpartition("\nFROM ")[2].replace("\\\n", " ")
ENVIRONMENT = {
    name: value
    for line in re.findall(r"^ENV (.+)$", IMAGE, re.M)
    for name, value in re.findall(r"(KAFKA_\w+)=(\S+)", line)
}
(ENTRY_POINT,) = (json.loads(words) for words in re.findall(r"^ENTRYPOINT (.+)$", IMAGE, re.M))
(COMMAND,) = (json.loads(words) for words in re.findall(r"^CMD (.+)$", IMAGE, re.M))


@dataclass
class Container:
    """A container that was created; `listeners` are its published ports once it runs."""

    id: str
    wish: dict[str, Any]
    address: str = field(default_factory=lambda: f"127.{random.randint(1, 254)}.{random.randint(1, 254)}.1")
    process: subprocess.Popen[bytes] | None = None
    output: bytes = b""
    listeners: dict[str, socket.socket] = field(default_factory=dict)

    def start(self) -> None:
        variables = ENVIRONMENT | dict(each.split("=", 1) for each in self.wish.get("Env") or ())
        words = [*ENTRY_POINT, *(self.wish.get("Cmd") or COMMAND)]
        assert words[0] == "kafka-shim"
        own = {name: self._inside(value) for name, value in variables.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kafka_shim", *map(self._inside, words[1:])],
            env=os.environ | own | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        for port, places in self.wish["HostConfig"]["PortBindings"].items():
            (place,) = places
            self.listeners[port] = socket.create_server(("127.0.0.1", int(place.get("HostPort") or 0)))
            inside = (self.address, int(port.partition("/")[0]))
            threading.Thread(target=hand_on, args=(self.listeners[port], inside), daemon=True).start()

    def stop(self) -> None:
        for listener in self.listeners.values():
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)

    def _inside(self, text: str) -> str:
        return text.replace("0.0.0.0", self.address)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.output += line

    def inspected(self) -> dict[str, Any]:
        running = self.process is not None and self.process.poll() is None
        ports = {
            port: [{"HostIp": "127.0.0.1", "HostPort": str(listener.getsockname()[1])}]
            for port, listener in self.listeners.items()
        }
        state = {"Running": running, "Status": "running" if running else "exited", "ExitCode": 0}
        return {
            "Id": self.id,
            "Name": "/" + self.id[:12],
            "Image": self.wish["Image"],
            "State": state,
            "Config": {**self.wish, "Tty": False},
            "NetworkSettings": {"Ports": ports},
        }


def hand_on(listener: socket.socket, inside: tuple[str, int]) -> None:
    """Forward every connection to the listener to a port inside."""
    with suppress(OSError):
        while True:
            outer, _ = listener.accept()
            try:
                inner = socket.create_connection(inside)
            except OSError:
                outer.close()
                continue
            for source, sink in ((outer, inner), (inner, outer)):
                threading.Thread(target=copy, args=(source, sink), daemon=True).start()


def copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    """The requests, by method and path, as https://docs.docker.com/reference/api/engine describes them."""

    protocol_version = "HTTP/1.1"
    containers: dict[str, Container]

    def do_GET(self) -> None:
        kind, *rest = self._words()
        if kind == "version":
            self._answer({"ApiVersion": "1.48", "MinAPIVersion": "1.24", "Version": "28.0.0"})
        elif kind == "images":
            self._answer({"Id": "sha256:0", "RepoTags": ["kafka-group-shim:latest"]})
        elif rest[-1] == "logs":
            output = self.containers[rest[0]].output
            self._answer(struct.pack(">BxxxI", 1, len(output)) + output)
        else:
            self._answer(self.containers[rest[0]].inspected())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _, *rest = self._words()
        if rest == ["create"]:
            container = Container(f"{len(self.containers) + 1:064x}", json.loads(body))
            self.containers[container.id] = container
            self._answer({"Id": container.id, "Warnings": []}, 201)
        else:
            assert rest[1] == "start"
            self.containers[rest[0]].start()
            self._answer(None, 204)

    def do_DELETE(self) -> None:
        self.containers[self._words()[1]].stop()
        self._answer(None, 204)

    def _words(self) -> list[str]:
        """The path in words, without the version."""
        return re.sub(r"^/v[\d.]+", "", self.path).partition("?")[0].strip("/").split("/")

    def _answer(self, content: Any, status: int = 200) -> None:
        body = b"" if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def engine() -> Iterator[str]:
    """The address of an engine, as DOCKER_HOST has it; its containers end with it."""
    handler = type("EngineHandler", (Handler,), {"containers": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"tcp://127.0.0.1:{server.server_port}"
    finally:
        for container in handler.containers.values():
            container.stop()
        server.shutdown()
        server.server_close()
