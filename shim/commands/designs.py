"""`kafka-shim designs`: simulated costs of the designs that Kafka considered for groups.

The designs are in `experiments/designs/`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from kafka_shim.commands.parameters import Whole
from kafka_shim.experiments.designs.report import all_bills, bill_table, page_with_sections, write_plots
from kafka_shim.experiments.designs.scenarios import DESIGNS, EVENTS


@click.command("designs")
@click.option("--members", multiple=True, default=[100], type=Whole(1, 900), show_default=True)
@click.option(
    "--metadata",
    multiple=True,
    default=[100_000],
    type=Whole(0),
    show_default=True,
    help="Bytes of metadata of each member.",
)
@click.option("--design", "designs", multiple=True, type=click.Choice(list(DESIGNS)), help="All by default.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each design and size.")
@click.option(
    "--page",
    hidden=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False, writable=True),
    help="Compute the tables of this page again, and the plots beside it (docs/designs.md).",
)
def designs(
    members: Sequence[int], metadata: Sequence[int], designs: Sequence[str], as_json: bool, page: Path | None
) -> None:
    """Simulate the costs of the designs that Kafka considered for groups.

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
    bills = list(all_bills(members, metadata, designs or DESIGNS))
    if as_json:
        for bill in bills:
            click.echo(json.dumps(asdict(bill)))
        return
    for count in members:
        for each in metadata:
            for event, meaning in EVENTS.items():
                click.echo(f"\n{meaning}: {count:,} members with {each:,} bytes of metadata each\n")
                these = [bill for bill in bills if (bill.event, bill.members, bill.metadata) == (event, count, each)]
                click.echo("\n".join(bill_table(these)))
