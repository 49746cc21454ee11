"""`kafka-shim topics`: topics of a running coordinator."""

from __future__ import annotations

import click

from kafka_shim.commands.asking import ask, control_option, json_option, named, say


@click.group()
def topics() -> None:
    """Topics of a running coordinator."""


@topics.command("list")
@control_option
@json_option
def list_topics(control: str, as_json: bool) -> None:
    """All topics."""
    found = ask(control, "GET", "/v1/topics")["topics"]
    text = "\n".join(f"{each['topic']}:{each['partitions']}" for each in found)
    say(found, as_json, lambda: text or "There is none.")


@topics.command("create")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1, 10_000), default=1, show_default=True)
@control_option
@json_option
def create_topic(name: str, partitions: int, control: str, as_json: bool) -> None:
    """Make a topic."""
    answer = ask(control, "POST", "/v1/topics", {"topic": name, "partitions": partitions})
    say(answer, as_json, lambda: f"{name}:{partitions}")


@topics.command("delete")
@click.argument("name")
@control_option
@json_option
def delete_topic(name: str, control: str, as_json: bool) -> None:
    """Delete a topic."""
    say(ask(control, "DELETE", f"/v1/topics/{named(name)}"), as_json, lambda: f"{name} is deleted.")
