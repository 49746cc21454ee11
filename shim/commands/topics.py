"""`kafka-shim topics`: topics of a running coordinator."""

from __future__ import annotations

import click

from kafka_shim.apis.readable import readable
from kafka_shim.commands.asking import ask, control_option, json_option, path_segment, say, table
from kafka_shim.commands.parameters import Whole


@click.group()
def topics() -> None:
    """Topics of a running coordinator."""


@topics.command("list")
@control_option
@json_option
def list_topics(control: str, as_json: bool) -> None:
    """List all topics."""
    listed = ask(control, "GET", "/v1/topics")["topics"]
    text = "\n".join(f"{each['topic']}:{each['partitions']}" for each in listed)
    say(listed, as_json, lambda: text or "There is none.")


@topics.command("describe")
@click.argument("name")
@control_option
@json_option
def describe_topic(name: str, control: str, as_json: bool) -> None:
    """Describe a topic: its settings, and the leader and the offsets of each partition."""
    answer = ask(control, "GET", f"/v1/topics/{path_segment(name)}")
    if as_json:
        say(answer, as_json, str)
        return
    settings = ", ".join(f"{key}={value}" for key, value in sorted(answer["config"].items()))
    click.echo(readable(f"{answer['topic']}, id {answer['topic_id']}, settings of its own: {settings or 'none'}"))
    columns = ("partition", "leader", "start_offset", "end_offset", "bytes")
    table(columns, ([str(each[column]) for column in columns] for each in answer["partitions"]))


@topics.command("create")
@click.argument("name")
@click.option("--partitions", type=Whole(1, 10_000), default=1, show_default=True)
@control_option
@json_option
def create_topic(name: str, partitions: int, control: str, as_json: bool) -> None:
    """Create a topic."""
    answer = ask(control, "POST", "/v1/topics", {"topic": name, "partitions": partitions})
    say(answer, as_json, lambda: f"{name}:{partitions}")


@topics.command("delete")
@click.argument("name")
@control_option
@json_option
def delete_topic(name: str, control: str, as_json: bool) -> None:
    """Delete a topic."""
    say(ask(control, "DELETE", f"/v1/topics/{path_segment(name)}"), as_json, lambda: f"{name} is deleted.")
