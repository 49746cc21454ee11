"""`kafka-shim produce` and `kafka-shim consume`: records of a running coordinator, without a client."""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import urlencode

import click

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.commands.asking import ask, control_option, json_option, path_segment, say
from kafka_shim.commands.parameters import Whole

AT_ONCE = 500
"""Records of one request."""


@click.command()
@click.argument("topic")
@click.argument("values", nargs=-1, metavar="VALUE...")
@click.option("--key", help="Key of the records; it chooses their partition, as in Kafka's producer.")
@click.option("--partition", type=Whole(0, 2**31 - 1), help="Partition of the records.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header; may be repeated.")
@control_option
@json_option
def produce(
    topic: str,
    values: tuple[str, ...],
    key: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    control: str,
    as_json: bool,
) -> None:
    """Produce a record for each VALUE, or for each line of standard input: produce orders one two --key customer-7."""
    body: dict[str, Any] = {"key": key, "partition": partition, "headers": dict(map(_header, headers))}
    all_values = list(values) or [line.rstrip("\n") for line in sys.stdin]
    records: list[dict[str, int]] = []
    for at in range(0, len(all_values), AT_ONCE):
        body["values"] = all_values[at : at + AT_ONCE]
        records += ask(control, "POST", f"/v1/topics/{path_segment(topic)}/records", body)["records"]
    say(records, as_json, lambda: "\n".join(f"{topic}:{each['partition']}={each['offset']}" for each in records))


@click.command()
@click.argument("topic")
@click.option("--partition", type=Whole(0, 2**31 - 1), help="Only this partition.")
@click.option(
    "--from", "start", type=Whole(0, 2**63 - 1), default=0, show_default=True, metavar="OFFSET",
    help="Begin at this offset in each partition.",
)  # fmt: skip
@click.option("--most", type=Whole(1, 1000), default=100, show_default=True, help="How many records at most.")
@control_option
@json_option
def consume(topic: str, partition: int | None, start: int, most: int, control: str, as_json: bool) -> None:
    """Print records of TOPIC as a consumer reads them, without a group; with --json one record per line."""
    query = {"start": start, "most": most} | ({} if partition is None else {"partition": partition})
    answer = ask(control, "GET", f"/v1/topics/{path_segment(topic)}/records?{urlencode(query)}")
    for each in answer["records"]:
        click.echo(json.dumps(each) if as_json else _line(topic, each))
    if answer["more"]:
        click.echo("There are more: --from and --most choose others.", err=True)


def _line(topic: str, record: dict[str, Any]) -> str:
    key = "" if record["key"] is None else f"{record['key']}: "
    value = "(null)" if record["value"] is None else record["value"]
    return readable(f"{topic}:{record['partition']}={record['offset']} {key}{value}", LONGEST_LINE)


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name):
        raise click.ClickException(f"{text!r} is not of the form NAME=VALUE.")
    return name, value
