"""Costs of TLS and ACLs beside a plain connection: `python -m bench.secured`.

Two servers, one with an authorizer, each with a plain listener and one with TLS. A client sends heartbeats over one
connection, and over a hundred in turn. It encrypts before the time counts, and does not decrypt, so that it is as quick
with TLS as without. The CPU time is that of the server's process, from the kernel.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from bench.load import Process
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.security.certificates import TestAuthority
from kafka_shim.server.server import listen
from tests.server.wire import request

HEARTBEAT: Final = request(HeartbeatRequest("group", 1, "member"), 4)
HANDSHAKES: Final = 300
ACLS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


class Asking:
    """One connection with the bytes of its requests."""

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context and context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        if self._tls is not None:
            self._shake_hands(self._tls)

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.socket.sendall(self._outgoing.read())
                self._incoming.write(self.socket.recv(65536))
        self.socket.sendall(self._outgoing.read())

    def requests(self, count: int) -> list[bytes]:
        """Return the bytes of so many requests."""
        made = []
        for _ in range(count):
            if self._tls is None:
                made.append(HEARTBEAT)
            else:
                self._tls.write(HEARTBEAT)
                made.append(self._outgoing.read())
        return made


class Bench:
    """A running server. `ports` are those without and with TLS."""

    def __init__(self, ports: tuple[int, int], context: ssl.SSLContext) -> None:
        self.process = Process.listening_on(ports[0])
        self._ports = ports
        self._context = context

    def cpu_us(self, connections: int, rounds: int, *, tls: bool) -> float:
        """Return the CPU time of a heartbeat in microseconds."""
        askers = [self._connect(tls=tls) for _ in range(connections)]
        rows = list(zip(*(each.requests(rounds + rounds // 5) for each in askers), strict=True))
        began = 0.0
        for number, row in enumerate(rows):
            if number == rounds // 5:
                began = self.process.cpu_seconds()
            for asker, data in zip(askers, row, strict=True):
                asker.socket.sendall(data)
            for asker in askers:
                asker.socket.recv(4096)
        used = self.process.cpu_seconds() - began
        for asker in askers:
            asker.socket.close()
        return used / rounds / connections * 1e6

    def handshakes(self) -> tuple[float, float]:
        """Return the handshakes in a second from one client, and the CPU time of one in milliseconds."""
        before, began = self.process.cpu_seconds(), time.perf_counter()
        for _ in range(HANDSHAKES):
            self._connect(tls=True).socket.close()
        seconds = time.perf_counter() - began
        return HANDSHAKES / seconds, (self.process.cpu_seconds() - before) / HANDSHAKES * 1e3

    def _connect(self, *, tls: bool) -> Asking:
        return Asking(self._ports[tls], self._context if tls else None)


@contextmanager
def serving(folder: Path, authority: TestAuthority, settings: dict[str, str]) -> Iterator[Bench]:
    """Start a server; yield it."""
    sockets = [listen("127.0.0.1", 0, 1)[0] for _ in range(2)]
    plain, secret = (each.getsockname()[1] for each in sockets)
    for each in sockets:
        each.close()
    settings = settings | {
        "listeners": f"OPEN://127.0.0.1:{plain},SECRET://127.0.0.1:{secret}",
        "listener.security.protocol.map": "OPEN:PLAINTEXT,SECRET:SSL",
        "ssl.keystore.location": str(folder / "server.pem"),
    }
    options = [part for name, value in settings.items() for part in ("--config", f"{name}={value}")]
    command = [sys.executable, "-m", "kafka_shim", "serve", "--store", "memory:", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield Bench((plain, secret), ssl.create_default_context(cadata=authority.certificate))
        finally:
            process.terminate()


def main() -> None:
    """Print a table, and the cost of a handshake."""
    parser = argparse.ArgumentParser(description="Measure the costs of TLS and ACLs.")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    authority = TestAuthority()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        issued = authority.server()
        (folder / "server.pem").write_text(issued.key + issued.certificate)
        servers = [stack.enter_context(serving(folder, authority, each)) for each in ({}, ACLS)]
        print(f"load {os.getloadavg()[0]:.1f}, medians of {arguments.turns} turns; CPU us of a heartbeat")
        print("| connections | plain | TLS | with ACLs | TLS with ACLs |")
        print("| --- | --- | --- | --- | --- |")
        for connections, rounds in ((1, 3000), (100, 100)):
            columns: list[list[float]] = [[], [], [], []]
            for _ in range(arguments.turns):
                kinds = [(server, tls) for server in servers for tls in (False, True)]
                for column, (server, tls) in zip(columns, kinds, strict=True):
                    column.append(server.cpu_us(connections, rounds, tls=tls))
            middle = [median(column) for column in columns]
            cells = [f"{middle[0]:.1f}", *(f"{each:.1f} ({each / middle[0]:.2f})" for each in middle[1:])]
            print(f"| {connections} | {' | '.join(cells)} |", flush=True)
        rate, milliseconds = servers[0].handshakes()
        print(f"{rate:.0f} handshakes a second (ECDSA, one client), {milliseconds:.2f} ms of CPU each")


if __name__ == "__main__":
    main()
