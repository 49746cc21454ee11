"""`kafka-shim groups`: list, describe, create, rewind, delete and watch groups of a running coordinator."""

from __future__ import annotations

import os
import sys
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode

import click

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.commands.asking import ask, control_option, json_option, open_answer, path_segment, say, table
from kafka_shim.commands.parameters import Number, Whole


@click.group()
def groups() -> None:
    """Groups of a running coordinator, by its control server."""


@groups.command("list")
@control_option
@json_option
def list_groups(control: str, as_json: bool) -> None:
    """List all groups with their states."""
    answer = ask(control, "GET", "/v1/groups")["groups"]
    if as_json or not answer:
        say(answer, as_json, lambda: "There is none.")
        return
    columns = ("group", "state", "members", "generation", "protocol", "coordinator")
    table(columns, ([_text(group[column]) for column in columns] for group in answer))


@groups.command("describe")
@click.argument("group")
@control_option
@json_option
def describe_group(group: str, control: str, as_json: bool) -> None:
    """Describe one group: its epochs, its members, their assignor and partitions, and its committed offsets."""
    answer = ask(control, "GET", f"/v1/groups/{path_segment(group)}")
    if as_json:
        say(answer, as_json, str)
        return
    click.echo(
        f"{readable(answer['group'])}: {answer['state']}, {_epochs(answer)},"
        f" protocol {readable(answer['protocol'] or '-')},"
        f" coordinated by node {answer['coordinator']}"
    )
    if answer["assignment_wait_ms"]:
        click.echo(f"waits {answer['assignment_wait_ms']} ms for the assignment interval")
    if answer["rebalance"]:
        trigger = readable(answer["rebalance"]["trigger"])
        click.echo(f"last rebalance: {answer['rebalance']['cause']} {trigger}".rstrip())
    if answer["ephemeral"] or answer["heartbeat_bound_ms"]:
        click.echo(f"terms: {_terms(answer['ephemeral'], answer['heartbeat_bound_ms'])}")
    if answer["members"]:
        table(
            ("member", "instance", "host", "partitions", "assignment"),
            ([*_member(member), *_owned(member["assignment"])] for member in answer["members"]),
        )
    if answer["topology"]:
        facts = ("subtopology", "name", "type", "topics", "stores", "successors")
        table(facts, ([_text(_listed(node[fact])) for fact in facts] for node in answer["topology"]))
    if answer["offsets"]:
        columns = ("topic", "partition", "offset", "metadata")
        table(columns, ([_text(offset[column]) for column in columns] for offset in answer["offsets"]))


@groups.command("lag")
@click.argument("group")
@control_option
@json_option
def show_lag(group: str, control: str, as_json: bool) -> None:
    """Show how many records each partition has after the committed offset of a group.

    A partition without an offset counts all records, if a member of a classic or consumer group owns it.
    """
    columns = ("topic", "partition", "offset", "lag")
    described = ask(control, "GET", f"/v1/groups/{path_segment(group)}")
    places = sorted(
        [*described["offsets"], *described["uncommitted"]], key=lambda each: (each["topic"], each["partition"])
    )
    answer = [{column: each.get(column) for column in columns} for each in places]
    if as_json or not answer:
        say(answer, as_json, lambda: "It has committed no offset.")
        return
    table(columns, ([_text(each[column]) for column in columns] for each in answer))
    click.echo(f"{sum(each['lag'] or 0 for each in answer)} in all")


@groups.command("create")
@click.argument("group")
@click.option("--ephemeral", is_flag=True, help="Delete it when its last member has left.")
@click.option(
    "--heartbeat-bound-ms",
    type=Whole(1, 1_800_000),
    help="Longest time without a heartbeat: a member that is later is expelled.",
)
@control_option
@json_option
def create(group: str, ephemeral: bool, heartbeat_bound_ms: int | None, control: str, as_json: bool) -> None:
    """Create a group before its first member joins."""
    body = {"group": group, "ephemeral": ephemeral, "heartbeat_bound_ms": heartbeat_bound_ms}
    say(ask(control, "POST", "/v1/groups", body), as_json, lambda: f"{readable(group)} is created.")


@groups.command("delete")
@click.argument("group")
@control_option
@json_option
def delete(group: str, control: str, as_json: bool) -> None:
    """Delete an Empty group and its offsets."""
    say(ask(control, "DELETE", f"/v1/groups/{path_segment(group)}"), as_json, lambda: f"{readable(group)} is deleted.")


@groups.command("rewind")
@click.argument("group")
@click.argument("offsets", nargs=-1, required=True, metavar="TOPIC:PARTITION=OFFSET...")
@click.option("--wait", type=Number(0, 300), default=30.0, show_default=True, metavar="SECONDS")
@control_option
@json_option
def rewind(group: str, offsets: tuple[str, ...], wait: float, control: str, as_json: bool) -> None:
    """Set other offsets for a group, with or without members; its members restart from them."""
    body = {"offsets": [_offset(text) for text in offsets], "timeout": wait}
    answer = ask(control, "POST", f"/v1/groups/{path_segment(group)}/rewind", body, wait + 30)
    outcome = "all have restarted" if answer["over"] else "some have not come back yet"
    say(answer, as_json, lambda: f"{readable(group)} is rewound; of {answer['removed']} members {outcome}.")


@groups.command("watch")
@click.argument("group", required=False)
@control_option
@json_option
def watch(group: str | None, control: str, as_json: bool) -> None:
    """Print the events of a group, or of all, until interrupted; with --json one event per line."""
    query = {"form": "events" if as_json else "story"} | ({"group": group} if group else {})
    try:
        with open_answer(control, "GET", f"/v1/events?{urlencode(query)}") as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    text = line[6:].decode().rstrip("\n")
                    # A server of another version may not have escaped its story.
                    click.echo(text if as_json else readable(text, LONGEST_LINE))
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        # The reader of standard output is closed. Output that Python has not yet flushed must go elsewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    except (HTTPException, ConnectionError):
        # The server stopped in the middle of a line.
        pass
    click.echo(f"{control} has stopped.", err=True)


def _epochs(group: dict[str, Any]) -> str:
    if group["assignment_epoch"] is None:
        return f"generation {group['generation']}"
    return f"group epoch {group['generation']}, assignment epoch {group['assignment_epoch']}"


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
    return "-" if value is None else readable(str(value))


def _listed(value: Any) -> Any:
    return ", ".join(value) if isinstance(value, list) else value


def _member(member: dict[str, Any]) -> list[str]:
    fields = member["member_id"], member["group_instance_id"] or "", member["client_host"].lstrip("/")
    return [readable(field) for field in fields]


def _owned(assignment: dict[str, list[int]] | None) -> list[str]:
    """Return the number of partitions, and the partitions."""
    if assignment is None:
        return ["?", "?"]
    text = ", ".join(f"{readable(topic)} {','.join(map(str, partitions))}" for topic, partitions in assignment.items())
    return [str(sum(map(len, assignment.values()))), text or "-"]
