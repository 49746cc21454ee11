"""`kafka-shim faults`: deliberate failures of a coordinator for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from kafka_shim.apis.readable import readable
from kafka_shim.commands.asking import ask, control_option, json_option, say
from kafka_shim.commands.fields import body_of
from kafka_shim.commands.parameters import Whole
from kafka_shim.trace.events import FAULT_ACTIONS


@click.group()
def faults() -> None:
    """Faults of a coordinator for tests (`serve --lab`)."""


@faults.command("list")
@control_option
@json_option
def list_faults(control: str, as_json: bool) -> None:
    """List all faults in force, with how often each has happened."""
    answer = ask(control, "GET", "/v1/faults")
    say(answer["faults"], as_json, lambda: "\n".join(_lines(answer["faults"])) or "There is none.")


@faults.command("add", short_help="Add a fault.")
@click.argument("action", type=click.Choice(FAULT_ACTIONS))
@click.argument("fields", nargs=-1, metavar="NAME=VALUE...")
@control_option
@json_option
def add_fault(action: str, fields: tuple[str, ...], control: str, as_json: bool) -> None:
    """Add a fault, such as: error api=OffsetCommit error=NOT_COORDINATOR group=billing times=2.

    \b
    The requests that it affects:
      api=NAME              an API, such as Heartbeat
      group= member= instance= client_id=
                            a name, with * and ?
      generation=N state=NAME role=leader|follower broker=N
    The frequency:
      times=N               the first N; 1 without it, null for all
      nth=N                 only the N-th
      probability=P seed=N  by chance, from 0 to 1
      for_s=SECONDS         all within so many seconds of the coordinator's clock
      optional=true         it need not happen
    The effect:
      error=NAME            for `error`: the error by Kafka's name or number
      seconds=S             for `delay`
      when=before|applied|answered
                            for `close`
      bytes_per_second=N    for `slow`
      applied=true          for `error` and `delay`: execute the request first
      evict=false           for the errors UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID:
                            the member stays in its group
    """
    answer = ask(control, "POST", "/v1/faults", {"action": action} | body_of(fields))
    say(answer, as_json, lambda: "\n".join(_lines([answer])))


@faults.command("clear")
@click.argument("number", type=Whole(0, 2**31 - 1), required=False)
@control_option
@json_option
def clear_faults(number: int | None, control: str, as_json: bool) -> None:
    """Remove one fault, or all of them."""
    answer = ask(control, "DELETE", "/v1/faults" + (f"/{number}" if number is not None else ""))
    say(answer, as_json, lambda: "\n".join(_lines(answer.get("faults", [answer]))) or "There was none.")


def _lines(all_faults: list[dict[str, Any]]) -> Iterator[str]:
    for fault in all_faults:
        fields = {name: value for name, value in fault.items() if name not in ("fault", "matched", "fired")}
        values = {
            name: value for name, value in fields.items() if name == "evict" or value not in (None, False, 0, 0.0)
        }
        text = " ".join(f"{name}={readable(str(value))}" for name, value in values.items())
        yield f"{fault['fault']}: {text}; matched {fault['matched']}, happened {fault['fired']} times"
