"""`kafka-shim groups`: groups of a running coordinator, seen, made ahead, rewound, deleted and watched.

Decides what an operator may say and how groups read.
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode

import click

from kafka_shim.commands.asking import ask, control_option, json_option, named, opened, say, table


@click.group()
def groups() -> None:
    """Groups of a running coordinator, by its control server."""


@groups.command("list")
@control_option
@json_option
def list_groups(control: str, as_json: bool) -> None:
    """All groups with their states."""
    found = ask(control, "GET", "/v1/groups")["groups"]
    if as_json or not found:
        say(found, as_json, lambda: "There is none.")
        return
    columns = ("group", "state", "members", "generation", "protocol", "coordinator")
    table(columns, ([_text(group[column]) for column in columns] for group in found))


@groups.command("describe")
@click.argument("group")
@control_option
@json_option
def describe_group(group: str, control: str, as_json: bool) -> None:
    """One group: its members, the assignor they use, who owns what, and what is committed."""
    found = ask(control, "GET", f"/v1/groups/{named(group)}")
    if as_json:
        say(found, as_json, str)
        return
    click.echo(
        f"{found['group']}: {found['state']}, generation {found['generation']}, protocol {found['protocol'] or '-'},"
        f" coordinated by node {found['coordinator']}"
    )
    if found["rebalance"]:
        click.echo(f"last rebalance: {found['rebalance']['cause']} {found['rebalance']['trigger']}".rstrip())
    if found["ephemeral"] or found["heartbeat_bound_ms"]:
        click.echo(f"terms: {_terms(found['ephemeral'], found['heartbeat_bound_ms'])}")
    if found["members"]:
        table(
            ("member", "instance", "host", "partitions", "assignment"),
            ([*_member(member), *_owned(member["assignment"])] for member in found["members"]),
        )
    if found["offsets"]:
        columns = ("topic", "partition", "offset", "metadata")
        table(columns, ([str(offset[column]) for column in columns] for offset in found["offsets"]))


@groups.command("create")
@click.argument("group")
@click.option("--ephemeral", is_flag=True, help="Delete it when its last member is gone.")
@click.option("--heartbeat-bound-ms", type=click.IntRange(1, 1_800_000), help="How long members may be silent.")
@control_option
@json_option
def create(group: str, ephemeral: bool, heartbeat_bound_ms: int | None, control: str, as_json: bool) -> None:
    """Make a group before anybody joins it."""
    body = {"group": group, "ephemeral": ephemeral, "heartbeat_bound_ms": heartbeat_bound_ms}
    say(ask(control, "POST", "/v1/groups", body), as_json, lambda: f"{group} is made.")


@groups.command("delete")
@click.argument("group")
@control_option
@json_option
def delete(group: str, control: str, as_json: bool) -> None:
    """Delete an Empty group and its offsets."""
    say(ask(control, "DELETE", f"/v1/groups/{named(group)}"), as_json, lambda: f"{group} is deleted.")


@groups.command("rewind")
@click.argument("group")
@click.argument("offsets", nargs=-1, required=True, metavar="TOPIC:PARTITION=OFFSET...")
@click.option("--wait", type=click.FloatRange(0, 300), default=30.0, show_default=True, metavar="SECONDS")
@control_option
@json_option
def rewind(group: str, offsets: tuple[str, ...], wait: float, control: str, as_json: bool) -> None:
    """Let a group, alive or not, begin anew from other offsets."""
    body = {"offsets": [_offset(text) for text in offsets], "timeout": wait}
    answer = ask(control, "POST", f"/v1/groups/{named(group)}/rewind", body, wait + 30)
    begun = "all have begun anew" if answer["over"] else "some have not come back yet"
    say(answer, as_json, lambda: f"{group} is rewound; of {answer['removed']} members {begun}.")


@groups.command("watch")
@click.argument("group", required=False)
@control_option
@json_option
def watch(group: str | None, control: str, as_json: bool) -> None:
    """Show what happens to a group, or to all, until interrupted; with --json an event a line."""
    query = {"form": "events" if as_json else "story"} | ({"group": group} if group else {})
    try:
        with opened(control, "GET", f"/v1/events?{urlencode(query)}") as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    click.echo(line[6:].decode().rstrip("\n"))
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # Nobody reads any more. What Python has yet to flush has nowhere to go either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    except (HTTPException, ConnectionError):
        # The server has gone in the middle of a line.
        pass
    click.echo(f"{control} has stopped.", err=True)


def _terms(ephemeral: bool, bound_ms: int | None) -> str:
    terms = ["it goes with its last member"] if ephemeral else []
    if bound_ms is not None:
        terms.append(f"a member is silent for {bound_ms} ms at most")
    return ", ".join(terms)


def _offset(text: str) -> dict[str, Any]:
    where, equals, offset = text.rpartition("=")
    topic, colon, partition = where.rpartition(":")
    if not (equals and colon and topic and _is_number(partition) and _is_number(offset)):
        raise click.ClickException(f"{text!r} is not of the form TOPIC:PARTITION=OFFSET.")
    return {"topic": topic, "partition": int(partition), "offset": int(offset)}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def _member(member: dict[str, Any]) -> list[str]:
    return [member["member_id"], member["group_instance_id"] or "", member["client_host"].lstrip("/")]


def _owned(assignment: dict[str, list[int]] | None) -> list[str]:
    """How many partitions, and which."""
    if assignment is None:
        return ["?", "?"]
    text = ", ".join(f"{topic} {','.join(map(str, partitions))}" for topic, partitions in assignment.items())
    return [str(sum(map(len, assignment.values()))), text or "-"]
