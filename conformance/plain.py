"""How values and tables are printed: error codes by name, and every column in full through a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kafka_shim.apis.wire.errors import ErrorCode


def error_name(code: int) -> str:
    """`MEMBER_ID_REQUIRED (79)`."""
    try:
        return f"{ErrorCode(code).name} ({int(code)})"
    except ValueError:
        return f"unknown error ({code})"


def shown(value: object) -> str:
    """A value as a reader wants it: error codes by name and number, the rest as Python writes it."""
    if isinstance(value, ErrorCode):
        return error_name(value)
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{shown(key)}: {shown(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, tuple) and type(value) is tuple:
        return "(" + ", ".join(map(shown, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, set | frozenset):
        return " or ".join(sorted(map(shown, value))) if value else "nothing"
    return repr(value)


def shown_like(actual: object, expected: object) -> str:
    """`shown` of what stands where `expected` should: a number where an error code should be is one, too."""
    if isinstance(expected, set | frozenset) and expected:
        return shown_like(actual, next(iter(expected)))
    if isinstance(expected, ErrorCode) and isinstance(actual, int):
        return error_name(actual)
    if isinstance(expected, Mapping) and isinstance(actual, Mapping) and expected:
        sample = next(iter(expected.values()))
        return "{" + ", ".join(f"{shown(key)}: {shown_like(each, sample)}" for key, each in actual.items()) + "}"
    return shown(actual)


def ranges(versions: Iterable[int]) -> str:
    """`0-4, 7` of 0, 1, 2, 3, 4, 7."""
    found: list[list[int]] = []
    for version in sorted(set(versions)):
        if found and found[-1][-1] == version - 1:
            found[-1].append(version)
        else:
            found.append([version])
    return ", ".join(str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in found)


def print_table(console: Console, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table: folded to the width of a terminal, and unfolded where nobody looks at one."""
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
