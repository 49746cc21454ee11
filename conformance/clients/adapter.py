"""A client of somebody's own: a command that speaks the line protocol of docs/clients.md, asked what it is.

Decides what an answer to `COMMAND describe` must hold. It runs no case.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import Any, Final

from kafka_shim.conformance import processes
from kafka_shim.conformance.clients.case import ABILITIES
from kafka_shim.conformance.clients.crew import Client

_PATIENCE: Final = 60.0
_PROTOCOLS: Final = ("classic", "consumer")


class AdapterError(Exception):
    """The command is no adapter; the text says why, in a sentence."""


def describe(command: str) -> dict[str, Any]:
    """What an adapter says of itself. Raises AdapterError where that is nothing it can say."""
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
        told = json.loads(stdout.strip().rpartition("\n")[2])
        check(told)
    except (ValueError, TypeError) as error:
        shown = (stderr or stdout).strip()[-300:]
        raise AdapterError(f"{command} describe printed no description ({error}): {shown}") from error
    found: dict[str, Any] = told
    return found


def check(told: Any) -> None:
    """Raise ValueError, in a sentence, unless this describes a client."""
    if not isinstance(told, dict) or not isinstance(told.get("name"), str) or not told["name"]:
        raise ValueError("it needs a name")
    for field, choices in (("protocols", _PROTOCOLS), ("abilities", ABILITIES), ("assignors", None)):
        for each in told.get(field, []):
            if choices is not None and each not in choices:
                raise ValueError(f"{each} is none of its {field}: {', '.join(sorted(choices))}")


def clients_of(command: str) -> list[Client]:
    """The clients that an adapter is: one for each group protocol it has."""
    told = describe(command)
    words = shlex.split(command)
    return [
        Client(
            told["name"] if protocol == "classic" else f"{told['name']}-consumer",
            "",
            assignors=tuple(told.get("assignors", ("range",))),
            static=bool(told.get("static", False)),
            abilities=tuple(told.get("abilities", ())),
            protocol=protocol,
            build=lambda adapter, lock: words,
        )
        for protocol in told.get("protocols", ["classic"])
    ]
