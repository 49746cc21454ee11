"""Rows of a DataFrame as a table of the page. Decides how values read: durations, times, shares, ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from html import escape
from typing import Any, Final

from pyspark.sql import DataFrame

from kafka_shim.pipeline.report.plots import duration, short

ROWS: Final = 15


def table(frame: DataFrame, columns: Mapping[str, str]) -> str:
    """The first rows of a frame: `columns` are headings by column."""
    rows = frame.select(*columns).limit(ROWS + 1).collect()
    if not rows:
        return '<p class="note">None.</p>'
    numeric = {name for name, kind in frame.dtypes if kind in ("bigint", "int", "double", "smallint", "float")}
    head = "".join(
        f"<th{' class=number' if name in numeric else ''}>{escape(text)}</th>" for name, text in columns.items()
    )
    lines = "".join(
        f"<tr>{''.join(_cell(name, value, name in numeric) for name, value in zip(columns, row, strict=True))}</tr>"
        for row in rows[:ROWS]
    )
    more = '<p class="note">There are more; see the results beside this page.</p>' if len(rows) > ROWS else ""
    return f'<div class="scroll"><table><tr>{head}</tr>{lines}</table></div>{more}'


def moment(at: datetime | None) -> str:
    """A time of a row, to the second."""
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def _cell(name: str, value: Any, number: bool) -> str:
    if value is None:
        return "<td></td>"
    text = _text(name, value)
    full = escape(str(value))
    title = f' title="{full}"' if isinstance(value, str) and text != value else ""
    return f"<td{' class=number' if number else ''}{title}>{escape(text)}</td>"


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
