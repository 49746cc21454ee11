"""The declaration of a client case, and the register of all client cases."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.conformance.verdict import Level

Body = Callable[[Any], None]


@dataclass(frozen=True)
class ClientCase:
    """One requirement of clients of one group protocol, `classic` or `consumer` (KIP-848).

    A scenario of both protocols has one id and a case for each. `needs` lists the abilities that the client must have.
    `level` MUST: without it members or their partitions are lost, or the group never settles; SHOULD: without it time
    or load is lost; MAY: the reference client does it.
    """

    id: str
    title: str
    source: str
    level: Level
    protocol: str
    needs: frozenset[str]
    body: Body


ABILITIES: Final = frozenset(
    {"revoke-pause", "max-poll", "mixed-assignors", "regex", "classic-too", "subscribe", "unsubscribe"}
    | {"pause", "seek", "revoke-commit", "assign-seek", "assign-unsubscribe"}
)
"""Optional abilities of clients beside `cooperative` and `static`; docs/clients.md explains each."""

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
    """Register a client case. `needs`: `cooperative`, `static`, and names of `ABILITIES`."""

    def register(body: Body) -> Body:
        if (id, protocol) in CLIENT_CASES:
            raise ValueError(f"two cases of the {protocol} protocol have the id {id}")
        CLIENT_CASES[id, protocol] = ClientCase(id, title, source, level, protocol, frozenset(needs), body)
        return body

    return register


consumer_case: Final = functools.partial(client_case, protocol="consumer")
"""Register a case of the consumer protocol."""
