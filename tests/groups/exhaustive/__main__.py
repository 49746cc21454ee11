"""The command: `python -m tests.groups.exhaustive --depth 8 consumer mixed`."""

from __future__ import annotations

import sys
import time

import click

from tests.groups.exhaustive.explore import BrokenError, explore
from tests.groups.exhaustive.worlds import WORLDS


@click.command()
@click.argument("names", nargs=-1)
@click.option("--depth", type=int, help="Steps from the start; the depth of `make fuzz` if not given.")
@click.option("--settle-every", type=int, default=1, help="Of how many states one is left alone until it is at rest.")
def main(names: tuple[str, ...], depth: int | None, settle_every: int) -> None:
    """Explore the worlds of these NAMES, all if none is given, and say how many states there are."""
    for name, explored in WORLDS.items():
        if names and not name.startswith(names):
            continue
        world = explored.world()
        began = time.process_time()
        try:
            found = explore(world, depth or explored.full, settle_every)
        except BrokenError as error:
            click.echo(f"{name}: {error}", err=True)
            sys.exit(1)
        seconds = time.process_time() - began
        click.echo(
            f"{name}: {found.states:,} states by {found.transitions:,} transitions in {found.depth} steps"
            f"{', all there are' if found.complete else ''}; {seconds:.0f} s"
        )


if __name__ == "__main__":
    main()
