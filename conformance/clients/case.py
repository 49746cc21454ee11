"""What a client case is, and the register of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from conformance.clients.crew import Client
from conformance.clients.scenario import Scenario

Body = Callable[[Scenario], None]


@dataclass(frozen=True)
class ClientCase:
    """One requirement of a client. `needs` names what the client must be able to do."""

    id: str
    title: str
    source: str
    needs: frozenset[str]
    body: Body


CLIENT_CASES: Final[dict[str, ClientCase]] = {}


def client_case(id: str, title: str, *, source: str, needs: tuple[str, ...] = ()) -> Callable[[Body], Body]:
    """Register a client case. `needs`: `cooperative`, `static`, `mixed-assignors`, `revoke-pause`, `max-poll`."""

    def register(body: Body) -> Body:
        CLIENT_CASES[id] = ClientCase(id, title, source, frozenset(needs), body)
        return body

    return register


def all_client_cases() -> list[ClientCase]:
    """Every client case, by id."""
    import conformance.clients.cases  # noqa: F401

    return sorted(CLIENT_CASES.values(), key=lambda each: each.id)


def select_clients(clients: dict[str, Client], spec: str) -> list[Client]:
    """The clients of `all`, a name, a glob, or several of them between commas."""
    patterns = ["*"] if spec == "all" else spec.split(",")
    return [
        client
        for name, client in clients.items()
        if any(fnmatchcase(name, pattern) or name.startswith(f"{pattern}-") for pattern in patterns)
    ]
