"""Rows of the tables that rules are chosen by, as people read them: what a request met, and what is done then.

Decides only how a row is written. Each kind of group knows which of its rows a request meets (`Kind.row_of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """One column of a row: a state or situation, and what is done in it; `here` if the request found it."""

    column: str
    does: str
    here: bool


class Row(NamedTuple):
    """A row of a table of rules. `does` is what the rule that answers does, and `error` its error code."""

    table: str
    name: str
    cells: tuple[Cell, ...]
    does: str
    error: int


def row(table: str, trigger: Enum, cells: Mapping[Any, Enum], found: Enum, does: str, error: int) -> Row:
    """The row of a trigger in a table (trigger, what it finds) -> rule. `cells` are its rules by what it may find."""
    shown = tuple(Cell(column.value, rule.value, column is found) for column, rule in cells.items())
    return Row(table, trigger.value, shown, does, error)


def steps_row(table: str, state: Enum, steps: Mapping[tuple[Any, Any], Enum]) -> Row:
    """The row of a member's state in a table of reconciliation (state, situation) -> step. Which situation it is, shows
    only after the heartbeat was heard: the group may get a new epoch by it."""
    cells = tuple(Cell(situation.value, step.value, False) for (of, situation), step in steps.items() if of is state)
    return Row(table, f"a heartbeat in {state.name}", cells, "", 0)
