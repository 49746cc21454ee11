"""`kafka-shim faults`: what goes wrong on purpose in a coordinator for tests.

Decides how a fault is written on a command line: an action, and NAME=VALUE.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import click

from kafka_shim.commands.asking import ask, control_option, json_option, say

_ACTIONS: Final = ("error", "delay", "drop", "swallow", "close", "duplicate", "half-open", "slow")
_TEXTS: Final = ("api", "group", "member", "instance", "client_id", "state", "role", "when")
"""Fields that are text even where it looks like a number."""


@click.group()
def faults() -> None:
    """Faults of a coordinator for tests (`serve --lab`)."""


@faults.command("list")
@control_option
@json_option
def list_faults(control: str, as_json: bool) -> None:
    """All faults in force, with how often each has happened."""
    answer = ask(control, "GET", "/v1/faults")
    say(answer["faults"], as_json, lambda: "\n".join(_lines(answer["faults"])) or "There is none.")


@faults.command("add")
@click.argument("action", type=click.Choice(_ACTIONS))
@click.argument("fields", nargs=-1, metavar="NAME=VALUE...")
@control_option
@json_option
def add_fault(action: str, fields: tuple[str, ...], control: str, as_json: bool) -> None:
    """Put a fault in force, such as: error api=OffsetCommit error=NOT_COORDINATOR group=billing times=2."""
    body: dict[str, Any] = {"action": action}
    for field in fields:
        name, equals, text = field.partition("=")
        if not equals:
            raise click.ClickException(f"{field!r} is not of the form NAME=VALUE.")
        body[name] = text if name in _TEXTS else _value(text)
    answer = ask(control, "POST", "/v1/faults", body)
    say(answer, as_json, lambda: "\n".join(_lines([answer])))


@faults.command("clear")
@click.argument("number", type=click.IntRange(0, 2**31 - 1), required=False)
@control_option
@json_option
def clear_faults(number: int | None, control: str, as_json: bool) -> None:
    """Let a fault, or all of them, happen no more."""
    answer = ask(control, "DELETE", "/v1/faults" + (f"/{number}" if number is not None else ""))
    say(answer, as_json, lambda: "\n".join(_lines(answer.get("faults", [answer]))) or "There was none.")


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    for fault in found:
        fields = {name: value for name, value in fault.items() if name not in ("fault", "matched", "fired")}
        text = " ".join(f"{name}={value}" for name, value in fields.items() if value not in (None, False, 0, 0.0))
        yield f"{fault['fault']}: {text}; matched {fault['matched']}, happened {fault['fired']} times"


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
