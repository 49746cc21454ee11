"""Listeners by Kafka's settings: names, protocols and addresses.

`listeners` names each listener with its address, and `listener.security.protocol.map` gives a name its protocol.
Source: Kafka's `SocketServerConfigs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class Protocol(Enum):
    """A security protocol: TLS or none, SASL or none."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Return True if connections use TLS."""
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Return True if clients authenticate by SASL."""
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


class Listener(NamedTuple):
    """One listener of each broker. The first broker listens on `port`, the others on the ports after it, or each on a
    free one for port 0. `advertised` is the host and first port for clients, if they differ."""

    name: str
    protocol: Protocol
    host: str
    port: int
    advertised: tuple[str, int] | None = None


def listeners_of(settings: Mapping[str, str]) -> tuple[Listener, ...]:
    """Return the listeners that the settings name. Raises ValueError, in one sentence, for impossible ones."""
    protocols = {protocol.value: protocol for protocol in Protocol}
    mapped = settings.get("listener.security.protocol.map", "")
    for pair in _parts(mapped):
        name, colon, protocol = pair.partition(":")
        if not colon or protocol.strip().upper() not in Protocol.__members__:
            raise ValueError(
                f"listener.security.protocol.map has {pair!r}: a pair is NAME:PROTOCOL, with the protocol"
                f" one of {', '.join(Protocol.__members__)}."
            )
        protocols[name.strip().upper()] = Protocol[protocol.strip().upper()]
    advertised: dict[str, tuple[str, int]] = {}
    for part in _parts(settings.get("advertised.listeners", "")):
        name, host, port = _address(part)
        advertised[name] = host, port
    listeners: dict[str, Listener] = {}
    for part in _parts(settings.get("listeners", "")):
        name, host, port = _address(part)
        if name not in protocols:
            raise ValueError(f"The listener {name} has no protocol: add it to listener.security.protocol.map.")
        if name in listeners:
            raise ValueError(f"listeners names {name} twice.")
        listeners[name] = Listener(name, protocols[name], host, port, advertised.pop(name, None))
    if advertised:
        raise ValueError(f"advertised.listeners names {min(advertised)}, which is not in listeners.")
    return tuple(listeners.values())


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _address(text: str) -> tuple[str, str, int]:
    name, slashes, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not name or not slashes or not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not a listener of the form NAME://HOST:PORT.")
    return name.strip().upper(), host.strip("[]"), int(port)
