"""What a client case is, and their register."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kafka_shim.conformance.verdict import Level

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


ABILITIES: Final = frozenset(
    {"revoke-pause", "max-poll", "mixed-assignors", "regex", "classic-too", "subscribe", "unsubscribe"}
    | {"pause", "seek", "revoke-commit", "assign-seek", "assign-unsubscribe"}
)
"""What some clients can do and cases may need, beside `cooperative` and `static`; docs/clients.md says what each is."""

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
    """Register a client case. `needs`: `cooperative`, `static`, and of `ABILITIES`."""

    def register(body: Body) -> Body:
        if (id, protocol) in CLIENT_CASES:
            raise ValueError(f"two cases of the {protocol} protocol are called {id}")
        CLIENT_CASES[id, protocol] = ClientCase(id, title, source, level, protocol, frozenset(needs), body)
        return body

    return register


consumer_case: Final = functools.partial(client_case, protocol="consumer")
"""Register a case of the consumer protocol."""
