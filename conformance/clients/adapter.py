"""A user's own client: a command that speaks the line protocol of docs/clients.md and describes itself.

Validates the answer to `COMMAND describe`.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any, Final

from kafka_shim.conformance import processes
from kafka_shim.conformance.clients.case import ABILITIES
from kafka_shim.conformance.clients.client_processes import Client

_PATIENCE: Final = 60.0
_PROTOCOLS: Final = ("classic", "consumer")


class AdapterError(Exception):
    """The command is not an adapter; the text says why, in a sentence."""


def describe(command: str) -> dict[str, Any]:
    """Return the description that an adapter prints. Raises AdapterError if it prints none."""
    try:
        words = shlex.split(command)
        process = processes.start([*words, "describe"], stderr=subprocess.PIPE)
    except (OSError, ValueError, IndexError) as error:
        raise AdapterError(f"the adapter {command!r} cannot be started: {error}") from error
    try:
        stdout, stderr = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired as late:
        processes.end(process)
        raise AdapterError(f"{command} describe did not end within {_PATIENCE:.0f} s") from late
    try:
        description = json.loads(stdout.strip().rpartition("\n")[2])
        check(description)
    except (ValueError, TypeError) as error:
        output = (stderr or stdout).strip()[-300:]
        raise AdapterError(f"{command} describe printed no description ({error}): {output}") from error
    checked: dict[str, Any] = description
    return checked


def check(description: Any) -> None:
    """Raise ValueError, in a sentence, unless this describes a client."""
    if not isinstance(description, dict) or not isinstance(description.get("name"), str) or not description["name"]:
        raise ValueError("it needs a name")
    for field, choices in (("protocols", _PROTOCOLS), ("abilities", ABILITIES), ("assignors", None)):
        for each in description.get(field, []):
            if choices is not None and each not in choices:
                raise ValueError(f"{each} is not one of the {field}: {', '.join(sorted(choices))}")


def clients_of(command: str) -> list[Client]:
    """Return the clients of an adapter: one for each of its group protocols."""
    description = describe(command)
    words = shlex.split(command)
    return [
        Client(
            description["name"] if protocol == "classic" else f"{description['name']}-consumer",
            "",
            assignors=tuple(description.get("assignors", ("range",))),
            static=bool(description.get("static", False)),
            abilities=tuple(description.get("abilities", ())),
            protocol=protocol,
            build=lambda adapter, lock: words,
        )
        for protocol in description.get("protocols", ["classic"])
    ]
