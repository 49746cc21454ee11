"""The address of a broker, and the one place in which the suite opens a connection.

TLS and SASL are properties of an endpoint, so that no other module has to support them.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field, replace

from kafka_shim.conformance.secure import Secure


@dataclass(frozen=True)
class Endpoint:
    """Host and port of a broker. `secure` is None for plain connections."""

    host: str
    port: int
    secure: Secure | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """Parse `HOST:PORT`, an IPv6 host in brackets. Raises ValueError for anything else."""
        host, colon, port = text.strip().rpartition(":")
        if not colon or not host or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"not HOST:PORT: {text}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def at(self, host: str, port: int) -> Endpoint:
        """Return another broker of the same cluster."""
        return replace(self, host=host, port=port)

    def connect(self, seconds: float) -> socket.socket:
        """Open a connection, and authenticate; raises OSError, or TimeoutError if a step takes longer than
        `seconds`."""
        connection = self.reach(seconds)
        return connection if self.secure is None else self.secure.over(connection, self.host)

    def reach(self, seconds: float) -> socket.socket:
        """Open a connection without TLS and SASL, to learn whether the broker listens; raises as `connect`."""
        connection = socket.create_connection((self.host, self.port), timeout=seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def parse_endpoints(text: str) -> tuple[Endpoint, ...]:
    """Parse `HOST:PORT[,HOST:PORT]`. Raises ValueError for anything else."""
    return tuple(Endpoint.parse(part) for part in text.split(","))
