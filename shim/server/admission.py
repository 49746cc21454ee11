"""Limits of connections: of an address, of a listener and of a broker, and the rates of new ones.

A connection above the limit of its address is closed at once. Above the limits and the rates of a listener or a broker
nothing is accepted, so that clients wait in the queue of the system. A connection above the rate of its address, the
quota `connection_creation_rate`, is not read, and is closed when the rate is in order again. Source: KIP-402, KIP-612,
Kafka's `SocketServer`.
"""

from __future__ import annotations

import logging
from ipaddress import ip_address
from math import inf
from typing import Any, Final, NamedTuple

from kafka_shim.broker.admin.quotas import IP
from kafka_shim.broker.settings import Settings
from kafka_shim.server.throttling import Rate

log: Final = logging.getLogger("kafka_shim.server")

OVERRIDES: Final = "max.connections.per.ip.overrides"
MAX_RATE: Final = "max.connection.creation.rate"
UNLIMITED: Final = 2**31 - 1
CREATION_RATE: Final = "connection_creation_rate"
MAX_RATES: Final = 10_000
"""The limit of addresses whose rate is measured; the one that came first is forgotten."""


class Limits(NamedTuple):
    """The limits of one listener: its connections, and new ones in a second."""

    listener: str
    connections: int
    rate: int


class Admission:
    """The connections of one broker, by address and by listener. Raises ValueError, in one sentence, for exceptions of
    addresses that cannot be read."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._of_address: dict[str, int] = {}
        self._rates: dict[str, Rate] = {}
        self._of_listener: dict[str, int] = {}
        self._creations: dict[str, Rate] = {}
        self._count = 0
        self._text = settings.text(OVERRIDES)
        self._overrides = _overrides(self._text)

    def delay(self, limits: Limits | None, now: float) -> float:
        """Return the seconds until a listener may accept the next connection; infinity while it is full."""
        if self._count >= self._settings.number("max.connections"):
            return inf
        seconds = self._delay("", self._settings.number(MAX_RATE), now)
        if limits is not None:
            if self.count_of(limits.listener) >= limits.connections:
                return inf
            seconds = max(seconds, self._delay(limits.listener, limits.rate, now))
        return seconds

    def _delay(self, listener: str, bound: int, now: float) -> float:
        rate = self._creations.get(listener)
        if bound == UNLIMITED or rate is None:
            return 0.0
        window = self._window()
        rate.record(1, now, *window)
        seconds = rate.throttle(bound, now, *window) if bound > 0 else window[1]
        rate.record(-1, now, *window)
        return seconds

    def created(self, limits: Limits | None, now: float) -> None:
        """Count a connection in the rates of new ones."""
        bounds = {"": self._settings.number(MAX_RATE)} | ({} if limits is None else {limits.listener: limits.rate})
        for listener, bound in bounds.items():
            if bound != UNLIMITED:
                self._creations.setdefault(listener, Rate(now)).record(1, now, *self._window())

    def _window(self) -> tuple[int, float]:
        return self._settings.number("quota.window.num"), float(self._settings.number("quota.window.size.seconds"))

    def count_of(self, listener: str) -> int:
        """Return the number of connections of a listener by name."""
        return self._of_listener.get(listener, 0)

    def refusal(self, address: Any, now: float) -> float | None:
        """Return None if a new connection from the address of a socket may stay, or the seconds after which it is to be
        closed."""
        host = address[0]
        there, limit = self._of_address.get(host, 0), self._limit_of(host)
        if there >= limit:
            log.info("refused a connection of %s, which has %d already (max.connections.per.ip)", host, there)
            return 0.0
        seconds = self._throttle(host, now)
        if seconds > 0:
            log.info("refused a connection of %s: it connects too often (%s)", host, CREATION_RATE)
            return seconds
        return None

    def _limit_of(self, host: str) -> int:
        text = self._settings.text(OVERRIDES)
        if text != self._text:
            self._text = text
            try:
                self._overrides = _overrides(text)
            except ValueError as error:
                log.error("the exceptions before stay: %s", error)
        limit = self._overrides.get(_plain(host)) if self._overrides else None
        return self._settings.number("max.connections.per.ip") if limit is None else limit

    def enter(self, address: Any, limits: Limits | None = None) -> None:
        """Count a connection."""
        if limits is not None:
            self._of_listener[limits.listener] = self.count_of(limits.listener) + 1
        self._of_address[address[0]] = self._of_address.get(address[0], 0) + 1
        self._count += 1

    def leave(self, address: Any, limits: Limits | None = None) -> None:
        """Count a connection no more."""
        if limits is not None:
            self._of_listener[limits.listener] -= 1
        host = address[0]
        remaining = self._of_address.get(host, 0) - 1
        if remaining > 0:
            self._of_address[host] = remaining
        else:
            self._of_address.pop(host, None)
        self._count -= 1

    def _throttle(self, host: str, now: float) -> float:
        quotas = self._settings.quotas
        if not quotas:
            return 0.0
        values = quotas.get(((IP, host),)) or quotas.get(((IP, None),)) or {}
        bound = values.get(CREATION_RATE)
        if bound is None:
            return 0.0
        rate = self._rates.get(host)
        if rate is None:
            if len(self._rates) >= MAX_RATES:
                del self._rates[next(iter(self._rates))]
            rate = self._rates[host] = Rate(now)
        window = self._window()
        rate.record(1, now, *window)
        seconds = rate.throttle(bound, now, *window)
        if seconds > 0:
            rate.record(-1, now, *window)
        return seconds


def _overrides(text: str) -> dict[str, int]:
    """Return the limit of each address in `max.connections.per.ip.overrides`. Raises ValueError."""
    limits = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, _, number = part.rpartition(":")
        try:
            limits[str(ip_address(host.strip("[]")))] = int(number)
        except ValueError:
            raise ValueError(f"{OVERRIDES} has {part!r}, which is not of the form ADDRESS:NUMBER.") from None
    return limits


def _plain(host: str) -> str:
    return str(ip_address(host.partition("%")[0]))
