"""Rows of the rule tables in readable form: the situations of a request, and the rule for each.

`Kind.row_of` selects the row of a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """Column of a row: a state or situation, and the action in it; `here` if the request was in it."""

    column: str
    does: str
    here: bool


class Row(NamedTuple):
    """Row of a rule table. `does` is the action of the rule that answers, `error` its error code."""

    table: str
    name: str
    cells: tuple[Cell, ...]
    does: str
    error: int


def row(table: str, trigger: Enum, cells: Mapping[Any, Enum], current: Enum, does: str, error: int) -> Row:
    """Return the row of a trigger in a table (trigger, situation) -> rule; `cells` are its rules by situation."""
    row_cells = tuple(Cell(column.value, rule.value, column is current) for column, rule in cells.items())
    return Row(table, trigger.value, row_cells, does, error)


def steps_row(table: str, state: Enum, steps: Mapping[tuple[Any, Any], Enum]) -> Row:
    """Return the row of a member's state in a table of reconciliation (state, situation) -> step.

    No cell is marked: the situation depends on the effect of the heartbeat, which may start a new epoch.
    """
    cells = tuple(Cell(situation.value, step.value, False) for (of, situation), step in steps.items() if of is state)
    return Row(table, f"a heartbeat in {state.name}", cells, "", 0)
