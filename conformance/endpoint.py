"""Where a broker listens, and the one place in which the suite opens a connection.

TLS and SASL will be properties of an endpoint; nothing else of the suite needs to know of them.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class Endpoint:
    """Host and port of a broker."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """`HOST:PORT`, an IPv6 host in brackets. Raises ValueError for anything else."""
        host, colon, port = text.strip().rpartition(":")
        if not colon or not host or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"not HOST:PORT: {text}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connect(self, seconds: float) -> socket.socket:
        """A connection; raises OSError, TimeoutError if it takes longer than `seconds`."""
        connection = socket.create_connection((self.host, self.port), timeout=seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """`HOST:PORT[,HOST:PORT]`. Raises ValueError for anything else."""
    return tuple(Endpoint.parse(part) for part in text.split(","))
