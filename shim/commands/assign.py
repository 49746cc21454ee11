"""`kafka-shim assign`: one group, divided by every assignor side by side.

`learn/assignments.py` computes the divisions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.commands.parameters import Whole
from kafka_shim.learn.assignments import Divided, Division, side_by_side

MOST_MEMBERS = 26


@click.command("assign")
@click.option("--topic", "topics", multiple=True, metavar="NAME:PARTITIONS", help="A topic; may be repeated.")
@click.option(
    "--members",
    type=Whole(1, MOST_MEMBERS),
    default=3,
    show_default=True,
    help="Number of members at first; their names are a, b, c ...",
)
@click.option("--joins", type=Whole(0, MOST_MEMBERS), default=0, help="Number of members that join the first ones.")
@click.option("--leaves", multiple=True, metavar="MEMBER", help="One of the first members, to leave; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def assign(topics: Sequence[str], members: int, joins: int, leaves: Sequence[str], as_json: bool) -> None:
    """Divide topics among members by every assignor, then let members join or leave, and count the cost.

    With neither --joins nor --leaves one more member joins.
    """
    sizes = dict(_size(topic) for topic in topics or ("orders:7",))
    names = [chr(ord("a") + number) for number in range(members + joins + MOST_MEMBERS)]
    before = names[:members]
    unknown = sorted(set(leaves) - set(before))
    if unknown:
        raise click.ClickException(f"There is no member {unknown[0]}: members are {', '.join(before)}.")
    more = joins or (0 if leaves else 1)
    after = [name for name in names[: members + more] if name not in leaves]
    if not after:
        raise click.ClickException("At least one member must stay.")
    if members + more > MOST_MEMBERS:
        raise click.ClickException(f"There are at most {MOST_MEMBERS} members.")
    results = side_by_side(sizes, before, after)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in results], indent=1))
        return
    _print(results, before, after)


def _size(topic: str) -> tuple[str, int]:
    name, _, count = topic.rpartition(":")
    if not name or not count.isdecimal() or not 0 < int(count) <= 1000:
        raise click.ClickException(f"{topic!r} is not of the form NAME:PARTITIONS, with at most 1000 partitions.")
    return name, int(count)


def _print(results: Sequence[Divided], before: Sequence[str], after: Sequence[str]) -> None:
    all_names = [*before, *(name for name in after if name not in before)]
    console = Console(highlight=False)
    for each in results:
        matrix = Table(*["", *all_names], title=f"{each.assignor} ({each.style})", title_justify="left")
        for label, members, division in (("before", before, each.before), ("after", after, each.after)):
            cells = (_owned(division, name) if name in members else "-" for name in all_names)
            matrix.add_row(label, *(Text(readable(cell, LONGEST_LINE)) for cell in cells))
        console.print(matrix)
    costs = Table("assignor", "partitions each", "moved", "had to", "stand still")
    for each in results:
        spread = str(each.fewest) if each.fewest == each.most else f"{each.fewest} to {each.most}"
        costs.add_row(each.assignor, spread, str(each.moved), str(each.needed), str(each.stopped))
    console.print(costs)


def _owned(division: Division, member: str) -> str:
    parts = [f"{topic} {', '.join(map(str, numbers))}" for topic, numbers in sorted(division.get(member, {}).items())]
    return "; ".join(parts) or "nothing"
