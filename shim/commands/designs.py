"""`kafka-shim designs`: what the designs cost that Kafka weighed for groups, by simulation.

Decides which groups are simulated and how the bill is printed. The designs are `lab/designs/`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from kafka_shim.lab.designs.report import all_bills, bill_table, page_with_sections, write_plots
from kafka_shim.lab.designs.scenarios import DESIGNS, EVENTS


@click.command("designs")
@click.option("--members", multiple=True, default=[100], type=click.IntRange(1, 900), show_default=True)
@click.option(
    "--metadata",
    multiple=True,
    default=[100_000],
    type=click.IntRange(0),
    show_default=True,
    help="Bytes of metadata of each member.",
)
@click.option("--design", "designs", multiple=True, type=click.Choice(list(DESIGNS)), help="All by default.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each bill.")
@click.option(
    "--page",
    type=click.Path(path_type=Path, exists=True, dir_okay=False, writable=True),
    help="Compute the tables of this page anew, and its plots beside it (docs/designs.md).",
)
def designs(
    members: Sequence[int], metadata: Sequence[int], designs: Sequence[str], as_json: bool, page: Path | None
) -> None:
    """What the designs cost that Kafka weighed for groups.

    \b
    (a) the broker assigns            (e) JoinGroup and SyncGroup, as adopted
    (b) every member computes         (f) KIP-848, the broker assigns
    (c) one client, inside JoinGroup  (g) KIP-848, a client assigns
    (d) DescribeGroup and a barrier   (r) consumers register
    """
    if page is not None:
        try:
            page.write_text(page_with_sections(page.read_text()))
        except ValueError as error:
            raise click.UsageError(f"{page}: {error}.") from None
        write_plots(page.parent)
        return
    found = list(all_bills(members, metadata, designs or DESIGNS))
    if as_json:
        for bill in found:
            click.echo(json.dumps(asdict(bill)))
        return
    for count in members:
        for each in metadata:
            for event, meaning in EVENTS.items():
                click.echo(f"\n{meaning}: {count:,} members with {each:,} bytes of metadata each\n")
                these = [bill for bill in found if (bill.event, bill.members, bill.metadata) == (event, count, each)]
                click.echo("\n".join(bill_table(these)))
