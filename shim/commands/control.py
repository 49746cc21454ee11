"""`kafka-shim faults` and `kafka-shim topics`, and what `kafka-shim groups` does to groups: the control API by hand.

Decides what an operator may say and how answers read. What happens is the coordinator's to know.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import click

CONTROL: Final = "http://127.0.0.1:8092"
TOKEN: Final = "KAFKA_SHIM_CONTROL_TOKEN"
_SECONDS: Final = 60

_control: Final = click.option("--control", default=CONTROL, show_default=True, metavar="URL", help="Control server.")
_as_json: Final = click.option("--json", "as_json", is_flag=True, help="For programs.")


def ask(control: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """What the control server answers. Raises ClickException, in one sentence."""
    try:
        with _open(control, method, path, body, _SECONDS) as response:
            return json.load(response)
    except HTTPError as error:
        try:
            message = json.load(error)["message"]
        except (ValueError, KeyError, TypeError):
            message = f"{control} answers {error.code}."
        raise click.ClickException(message) from error
    except (URLError, OSError, ValueError) as error:
        raise click.ClickException(f"{control} cannot be asked: {getattr(error, 'reason', error)}.") from error


def _open(control: str, method: str, path: str, body: dict[str, Any] | None, timeout: float | None) -> Any:
    if not control.startswith(("http://", "https://")):
        control = f"http://{control}"
    data = None if body is None else json.dumps(body).encode()
    request = Request(control.rstrip("/") + path, data=data, method=method)
    request.add_header("Content-Type", "application/json")
    if token := os.environ.get(TOKEN):
        request.add_header("Authorization", f"Bearer {token}")
    return urlopen(request, timeout=timeout)


def _say(answer: Any, as_json: bool, text: Callable[[], str]) -> None:
    click.echo(json.dumps(answer) if as_json else text())


# Groups


@click.command()
@click.argument("group")
@_control
def delete(group: str, control: str) -> None:
    """Delete an Empty group and its offsets."""
    ask(control, "DELETE", f"/v1/groups/{quote(group, safe='')}")
    click.echo(f"{group} is deleted.")


@click.command()
@click.argument("group")
@click.argument("offsets", nargs=-1, required=True, metavar="TOPIC:PARTITION=OFFSET...")
@click.option("--wait", type=click.FloatRange(0, 300), default=30.0, show_default=True, metavar="SECONDS")
@_control
@_as_json
def rewind(group: str, offsets: tuple[str, ...], wait: float, control: str, as_json: bool) -> None:
    """Let a group, alive or not, begin anew from other offsets."""
    body = {"offsets": [_offset(text) for text in offsets], "timeout": wait}
    answer = ask(control, "POST", f"/v1/groups/{quote(group, safe='')}/rewind", body)
    begun = "all have begun anew" if answer["over"] else "some have not come back yet"
    _say(answer, as_json, lambda: f"{group} is rewound; of {answer['removed']} members {begun}.")


@click.command()
@click.argument("group", required=False)
@_control
def watch(group: str | None, control: str) -> None:
    """Show what happens to a group, or to all, an event a line, until interrupted."""
    path = "/v1/events" + (f"?{urlencode({'group': group})}" if group else "")
    try:
        with _open(control, "GET", path, None, None) as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    click.echo(line[6:].decode().rstrip())
    except (URLError, OSError) as error:
        raise click.ClickException(f"{control} cannot be watched: {getattr(error, 'reason', error)}.") from error


def _offset(text: str) -> dict[str, Any]:
    where, equals, offset = text.rpartition("=")
    topic, colon, partition = where.rpartition(":")
    if not equals or not colon or not partition.isdecimal() or not offset.isdecimal():
        raise click.ClickException(f"{text!r} is not of the form TOPIC:PARTITION=OFFSET.")
    return {"topic": topic, "partition": int(partition), "offset": int(offset)}


# Faults


@click.group()
def faults() -> None:
    """Faults of a coordinator for tests (`serve --lab`)."""


@faults.command("list")
@_control
@_as_json
def list_faults(control: str, as_json: bool) -> None:
    """All faults in force, with how often each has happened."""
    answer = ask(control, "GET", "/v1/faults")
    _say(answer, as_json, lambda: "\n".join(_lines(answer["faults"])) or "There is none.")


@faults.command("add")
@click.argument("action")
@click.argument("fields", nargs=-1, metavar="NAME=VALUE...")
@_control
@_as_json
def add_fault(action: str, fields: tuple[str, ...], control: str, as_json: bool) -> None:
    """Put a fault in force, such as: error api=OffsetCommit error=NOT_COORDINATOR group=billing times=2."""
    body: dict[str, Any] = {"action": action}
    for field in fields:
        name, equals, text = field.partition("=")
        if not equals:
            raise click.ClickException(f"{field!r} is not of the form NAME=VALUE.")
        body[name] = _value(text)
    answer = ask(control, "POST", "/v1/faults", body)
    _say(answer, as_json, lambda: "\n".join(_lines([answer])))


@faults.command("clear")
@click.argument("number", type=int, required=False)
@_control
def clear_faults(number: int | None, control: str) -> None:
    """Let a fault, or all of them, happen no more."""
    answer = ask(control, "DELETE", "/v1/faults" + (f"/{number}" if number is not None else ""))
    click.echo("\n".join(_lines(answer.get("faults", [answer]))) or "There was none.")


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    for fault in found:
        said = {name: value for name, value in fault.items() if name not in ("fault", "matched", "fired")}
        told = " ".join(f"{name}={value}" for name, value in said.items() if value not in (None, False, 0, 0.0))
        yield f"{fault['fault']}: {told}; matched {fault['matched']}, happened {fault['fired']} times"


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


# Topics


@click.group()
def topics() -> None:
    """Topics of a running coordinator."""


@topics.command("list")
@_control
@_as_json
def list_topics(control: str, as_json: bool) -> None:
    """All topics."""
    answer = ask(control, "GET", "/v1/topics")
    _say(answer, as_json, lambda: "\n".join(f"{each['topic']}:{each['partitions']}" for each in answer["topics"]))


@topics.command("create")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1, 10_000), default=1, show_default=True)
@_control
def create_topic(name: str, partitions: int, control: str) -> None:
    """Make a topic."""
    ask(control, "POST", "/v1/topics", {"topic": name, "partitions": partitions})
    click.echo(f"{name}:{partitions}")


@topics.command("delete")
@click.argument("name")
@_control
def delete_topic(name: str, control: str) -> None:
    """Delete a topic."""
    ask(control, "DELETE", f"/v1/topics/{quote(name, safe='')}")
    click.echo(f"{name} is deleted.")
