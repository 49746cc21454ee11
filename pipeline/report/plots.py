"""Plots as SVG text that stands inside a page. Decides how they look; it does not know Spark."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kafka-shim",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
_COLOURS: Final = ("#3b6ea8", "#d08a33", "#5c9a5c", "#b5525c", "#7d63a8", "#8a6d4f", "#c37fb0", "#777777", "#a8a33b")


class Lane(NamedTuple):
    """A member in a round: when it joined, in ms from the start."""

    name: str
    joined_ms: float


def stacked_days(days: Sequence[str], by_cause: Mapping[str, Sequence[float]], unit: str) -> str:
    """Bars of days, stacked by cause."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, 2.8))
        axes = figure.add_subplot()
        bottom = [0.0] * len(days)
        for index, (cause, values) in enumerate(by_cause.items()):
            axes.bar(days, values, bottom=bottom, label=cause, color=_COLOURS[index % len(_COLOURS)], width=0.7)
            bottom = [low + value for low, value in zip(bottom, values, strict=True)]
        axes.set_ylabel(unit)
        axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        if len(days) > 12:
            axes.set_xticks(range(0, len(days), len(days) // 12 + 1))
        return _svg(figure)


def bars(names: Sequence[str], values: Sequence[float], unit: str) -> str:
    """Horizontal bars, the first on top."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, 0.6 + 0.28 * max(len(names), 1)))
        axes = figure.add_subplot()
        axes.barh(range(len(names)), values, color=_COLOURS[0], height=0.65)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        return _svg(figure)


def histogram(values: Sequence[float], unit: str) -> str:
    """How often which magnitude, on a logarithmic axis."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, 2.4))
        axes = figure.add_subplot()
        above = [max(value, 0.1) for value in values]
        low, high = min(above), max(above)
        edges = [low * (high / low) ** (step / 40) for step in range(41)] if high > low else [low * 0.5, low * 2]
        axes.hist(above, bins=edges, color=_COLOURS[0])
        axes.set_xscale("log")
        axes.set_xlabel(unit)
        axes.set_ylabel("rounds")
        return _svg(figure)


def timeline(lanes: Sequence[Lane], join_ms: float, leader_ms: float | None) -> str:
    """One round: a lane a member, waiting from its JoinGroup to the end of the first half, then the leader's part."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, 0.7 + 0.22 * len(lanes)))
        axes = figure.add_subplot()
        for row, lane in enumerate(lanes):
            axes.barh(row, lane.joined_ms, color="#d9d9d9", height=0.6)
            axes.barh(row, max(join_ms - lane.joined_ms, 0), left=lane.joined_ms, color=_COLOURS[0], height=0.6)
            if leader_ms:
                axes.barh(row, leader_ms, left=join_ms, color=_COLOURS[1], height=0.6)
        axes.set_yticks(range(len(lanes)), [lane.name for lane in lanes], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("ms since the round began: not yet joined, waiting for the others, waiting for the leader")
        return _svg(figure)


def storm_line(began: datetime, marks: Sequence[tuple[datetime, float]]) -> str:
    """A storm: each round as a bar at its time, as high as it took long."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, 1.6))
        axes = figure.add_subplot()
        axes.bar([(at - began).total_seconds() for at, _ in marks], [ms for _, ms in marks], color=_COLOURS[3], width=2)
        axes.set_xlabel("seconds since the storm began")
        axes.set_ylabel("ms")
        return _svg(figure)


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None}
    figure.savefig(out, format="svg", bbox_inches="tight", metadata=metadata)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    # A page has several: names must be each its own.
    unique = blake2b(text.encode(), digest_size=5).hexdigest()
    text = re.sub(r'id="([^"]+)"', rf'id="\1-{unique}"', text)
    return re.sub(r'(href="#|url\(#)([^")]+)', rf"\1\2-{unique}", text)
