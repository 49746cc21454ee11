"""The list of all client cases, and the selection of cases and clients."""

from __future__ import annotations

import importlib
from fnmatch import fnmatchcase
from typing import Final

from kafka_shim.conformance.clients.case import CLIENT_CASES, ClientCase
from kafka_shim.conformance.clients.client_processes import Client
from kafka_shim.conformance.verdict import Level

_MODULES: Final = ("cases", "position_cases", "consumer_cases", "heartbeat_cases")


def all_client_cases() -> list[ClientCase]:
    """Return every client case, by id; the classic protocol comes first for one id."""
    for name in _MODULES:
        importlib.import_module(f"kafka_shim.conformance.clients.{name}")
    return sorted(CLIENT_CASES.values(), key=lambda each: (each.id, each.protocol))


def select_client_cases(patterns: tuple[str, ...], level: str) -> list[ClientCase]:
    """Return the cases that match any of `patterns` (all without one), down to `level` (`must`, `should`, `all`)."""
    levels = {"must": {Level.MUST}, "should": {Level.MUST, Level.SHOULD}}.get(level, set(Level))
    return [
        each
        for each in all_client_cases()
        if each.level in levels and (not patterns or any(fnmatchcase(each.id, pattern) for pattern in patterns))
    ]


def select_clients(clients: dict[str, Client], spec: str) -> list[Client]:
    """Return the clients of `spec`: `all`, a name, a prefix, a glob, or several of these between commas."""
    patterns = ["*"] if spec == "all" else spec.split(",")

    def chosen(name: str, pattern: str) -> bool:
        return fnmatchcase(name, pattern) or (pattern not in clients and name.startswith(f"{pattern}-"))

    return [client for name, client in clients.items() if any(chosen(name, pattern) for pattern in patterns)]
