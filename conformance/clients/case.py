"""What a client case is, and the register of all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from kafka_shim.conformance.case import Level
from kafka_shim.conformance.clients.crew import Client

Body = Callable[[Any], None]


@dataclass(frozen=True)
class ClientCase:
    """One requirement of a client of one group protocol, `classic` or `consumer` (KIP-848).

    A scenario that both protocols know has one id and a case for each. `needs` names what the client must be able to
    do. `level` MUST: members or their partitions are lost without it, or the group comes to no rest; SHOULD: it costs
    time or load; MAY: what the reference client does.
    """

    id: str
    title: str
    source: str
    level: Level
    protocol: str
    needs: frozenset[str]
    body: Body


CLIENT_CASES: Final[dict[tuple[str, str], ClientCase]] = {}


def client_case(
    id: str,
    title: str,
    *,
    source: str,
    level: Level = Level.MUST,
    protocol: str = "classic",
    needs: tuple[str, ...] = (),
) -> Callable[[Body], Body]:
    """Register a client case.

    `needs`: `cooperative`, `static`, `mixed-assignors`, `revoke-pause`, `max-poll`, `regex`, `classic-too`,
    `subscribe`, `unsubscribe`.
    """

    def register(body: Body) -> Body:
        if (id, protocol) in CLIENT_CASES:
            raise ValueError(f"two cases of the {protocol} protocol are called {id}")
        CLIENT_CASES[id, protocol] = ClientCase(id, title, source, level, protocol, frozenset(needs), body)
        return body

    return register


consumer_case: Final = functools.partial(client_case, protocol="consumer")
"""Register a case of the consumer protocol."""


def all_client_cases() -> list[ClientCase]:
    """Every client case, by id, and for one id the classic protocol first."""
    import kafka_shim.conformance.clients.cases
    import kafka_shim.conformance.clients.consumer_cases
    import kafka_shim.conformance.clients.heartbeat_cases  # noqa: F401

    return sorted(CLIENT_CASES.values(), key=lambda each: (each.id, each.protocol))


def select_client_cases(patterns: tuple[str, ...], level: str) -> list[ClientCase]:
    """The cases any of `patterns` matches (all without a pattern), down to `level` (`must`, `should`, `all`)."""
    levels = {"must": {Level.MUST}, "should": {Level.MUST, Level.SHOULD}}.get(level, set(Level))
    return [
        each
        for each in all_client_cases()
        if each.level in levels and (not patterns or any(fnmatchcase(each.id, pattern) for pattern in patterns))
    ]


def select_clients(clients: dict[str, Client], spec: str) -> list[Client]:
    """The clients of `all`, a name, the beginning of several names, a glob, or several of these between commas."""
    patterns = ["*"] if spec == "all" else spec.split(",")

    def chosen(name: str, pattern: str) -> bool:
        return fnmatchcase(name, pattern) or (pattern not in clients and name.startswith(f"{pattern}-"))

    return [client for name, client in clients.items() if any(chosen(name, pattern) for pattern in patterns)]
