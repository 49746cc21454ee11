"""Tables of the page: rows of a DataFrame as HTML, and the format of values: durations, times, shares, ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, Final

from pyspark.sql import DataFrame

from kafka_shim.pipeline.report.plots import duration, short

ROWS: Final = 15
_WORDS: Final = frozenset({"because", "remedy", "detail", "reason"})
"""Columns of sentences, which may wrap to several lines."""


def table(frame: DataFrame, columns: Mapping[str, str], nothing: str = "None.") -> str:
    """Return the first rows of a frame as a table; `columns` maps columns to headings, `nothing` replaces no rows."""
    rows = frame.select(*columns).limit(ROWS + 1).collect()
    if not rows:
        return f'<p class="note">{nothing}</p>'
    numeric = {name for name, kind in frame.dtypes if kind in ("bigint", "int", "double", "smallint", "float")}
    visible = [dict(zip(columns, row, strict=True)) for row in rows[:ROWS]]
    more = '<p class="note">There are more; see the answers beside this page.</p>' if len(rows) > ROWS else ""
    return grid(columns, visible, numeric) + more


def grid(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]], numeric: Collection[str] = ()) -> str:
    """Return these rows as a table; pressing a heading sorts it."""
    head = "".join(
        f"<th{' class=number' if name in numeric else ''}><button>{escape(text)}</button></th>"
        for name, text in columns.items()
    )
    lines = "".join(
        f"<tr>{''.join(_cell(name, row.get(name), name in numeric) for name in columns)}</tr>" for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def numbers(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]], numeric: Collection[str]) -> str:
    """Return the numbers of a plot as a table that opens on demand."""
    return f"<details><summary>The numbers</summary>{grid(columns, rows, numeric)}</details>"


def moment(at: datetime | None) -> str:
    """Format a time to the second."""
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def _cell(name: str, value: Any, number: bool) -> str:
    if value is None:
        return "<td data-v=''></td>"
    text = _text(name, value)
    full = escape(str(value))
    title = f' title="{full}"' if isinstance(value, str) and text != value else ""
    key = escape(str(value.timestamp() if isinstance(value, datetime) else value))
    kind = " class=number" if number else " class=words" if name in _WORDS else ""
    return f"<td{kind}{title} data-v='{key}'>{escape(text)}</td>"


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return moment(value)
    if name == "share":
        return f"{value:.0%}"
    if isinstance(value, (int, float)):
        if name == "ms" or name.endswith("_ms"):
            return duration(value)
        if name.endswith("_s"):
            return duration(value * 1000)
        return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(str, value))
    text = str(value)
    return short(text) if name.endswith("member_id") or name == "subject" else text
