"""Tables on a terminal or in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def print_table(console: Console, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table: folded to the width of a terminal, unfolded in a pipe or file."""
    rows = list(rows)
    if console.is_terminal:
        table = Table(*heads, box=None)
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)
        return
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    for row in [heads, *rows]:
        padded = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        click.echo("  ".join(padded).rstrip())
