"""Plots as SVG text that stands inside a page. Decides how they look, in light and dark; it does not know Spark."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullFormatter

_INK: Final = "#010203"
"""Stands for the colour of the page's text, whatever that is where the page is shown."""
_WIDTH: Final = 8.6

_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kafka-shim",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": _INK,
    "axes.linewidth": 0.4,
    "axes.axisbelow": True,
    "grid.color": _INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
COLOURS: Final[dict[str, str]] = {
    "NEW_MEMBER": "#4c8bd6",
    "MEMBER_LEFT": "#e0953a",
    "SESSION_EXPIRED": "#d1495b",
    "COOPERATIVE_FOLLOWUP": "#5aa469",
    "POLL_TIMEOUT_REASON": "#9067c6",
    "SUBSCRIPTION_CHANGED": "#2a9d9d",
    "LEADER_REJOINED": "#b9873c",
    "STATIC_REPLACED": "#c66aa0",
    "PENDING_SYNC_EXPIRED": "#8c564b",
}
"""The colour of each cause, the same in all plots; those not named here share one."""
_OTHER: Final = "#8a8f98"
_MAIN: Final = "#4c8bd6"
_NOT_YET: Final = "#8a8f98"
_LEADER: Final = "#e0953a"
_UNIQUE: Final = re.compile(r"-([0-9a-f]{4})[0-9a-f-]{11,31}[0-9a-f]$")


class Lane(NamedTuple):
    """A member in a round: when it joined, in ms from the start."""

    name: str
    joined_ms: float


def short(member_id: str) -> str:
    """A member id as a person tells members apart: its name, and the first of the rest."""
    return _UNIQUE.sub(r" \1", member_id)


def colour(cause: str) -> str:
    """The colour of a cause."""
    return COLOURS.get(cause, _OTHER)


def duration(ms: float) -> str:
    """Milliseconds as people say them."""
    if ms < 1000:
        return f"{ms:.0f} ms" if ms else "0"
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


_DURATIONS: Final = FuncFormatter(lambda value, _: duration(value))
_SOME_DURATIONS: Final = FuncFormatter(lambda value, _: duration(value) if f"{value:.0e}"[0] in "235" else "")


def stacked_days(days: Sequence[str], by_cause: Mapping[str, Sequence[float]]) -> str:
    """Bars of days, stacked by cause."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(2.6)
        bottom = [0.0] * len(days)
        for cause, values in by_cause.items():
            axes.bar(days, values, bottom=bottom, color=colour(cause), width=0.8)
            bottom = [low + value for low, value in zip(bottom, values, strict=True)]
        axes.set_ylabel("rounds")
        axes.grid(axis="y")
        _legend(axes, list(by_cause))
        if len(days) > 10:
            axes.set_xticks(range(0, len(days), len(days) // 10 + 1))
        return _svg(figure)


def stacked_bars(names: Sequence[str], by_cause: Mapping[str, Sequence[float]], ends: Sequence[str]) -> str:
    """Horizontal bars of ms, stacked by cause, the first on top; `ends` stands after each."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(0.5 + 0.27 * max(len(names), 2))
        left = [0.0] * len(names)
        for cause, values in by_cause.items():
            axes.barh(range(len(names)), values, left=left, color=colour(cause), height=0.68)
            left = [low + value for low, value in zip(left, values, strict=True)]
        for row, (total, text) in enumerate(zip(left, ends, strict=True)):
            axes.annotate(text, (total, row), (5, 0), textcoords="offset points", va="center", fontsize=8, alpha=0.75)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.margins(x=0.14)
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(_DURATIONS)
        axes.grid(axis="x")
        _legend(axes, list(by_cause))
        return _svg(figure)


def histogram(counts: Mapping[int, int], bins_a_decade: int) -> str:
    """How often which duration, on a logarithmic axis: `counts` by the number of the bin, which are `bins_a_decade` to
    a factor of ten, from a millisecond on."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(2.2)
        edges = {number: 10 ** (number / bins_a_decade) for number in (*counts, *(each + 1 for each in counts))}
        widths = [edges[number + 1] - edges[number] for number in counts]
        axes.bar([edges[number] for number in counts], list(counts.values()), width=widths, align="edge", color=_MAIN)
        low, high = min(edges.values()), max(edges.values())
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(_DURATIONS)
        axes.xaxis.set_minor_formatter(_SOME_DURATIONS if high < 50 * low else NullFormatter())
        axes.set_xlabel("from the start of a round until the group is stable")
        axes.set_ylabel("rounds")
        axes.grid(axis="y")
        return _svg(figure)


def timeline(lanes: Sequence[Lane], join_ms: float, leader_ms: float | None) -> str:
    """One round: a lane a member, waiting from its JoinGroup to the end of the first half, then the leader's part."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(0.55 + 0.24 * max(len(lanes), 2))
        for row, lane in enumerate(lanes):
            axes.barh(row, lane.joined_ms, color=_NOT_YET, alpha=0.35, height=0.62)
            axes.barh(row, max(join_ms - lane.joined_ms, 0), left=lane.joined_ms, color=_MAIN, height=0.62)
            if leader_ms:
                axes.barh(row, leader_ms, left=join_ms, color=_LEADER, height=0.62)
        axes.set_yticks(range(len(lanes)), [short(lane.name) for lane in lanes])
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(_DURATIONS)
        axes.grid(axis="x")
        named = {"not yet joined": _NOT_YET, "waits for the others": _MAIN, "waits for the leader": _LEADER}
        handles = [
            Patch(color=shade, label=name, alpha=alpha)
            for (name, shade), alpha in zip(named.items(), (0.35, 1.0, 1.0), strict=True)
        ]
        axes.legend(handles=handles, **_ABOVE, ncols=3)
        return _svg(figure)


def storm_line(began: datetime, marks: Sequence[tuple[datetime, float, str]]) -> str:
    """A storm: each round, of a time, ms and a cause, as a bar at its time, as high as it took long."""
    with mpl.rc_context(_STYLE):
        figure, axes = _figure(1.5)
        at = [(started - began).total_seconds() * 1000 for started, _, _ in marks]
        width = max(at[-1] / 200, 100.0) if at else 100.0
        axes.bar(at, [ms for _, ms, _ in marks], color=[colour(cause) for _, _, cause in marks], width=width)
        axes.xaxis.set_major_formatter(_DURATIONS)
        axes.yaxis.set_major_formatter(_DURATIONS)
        axes.set_xlabel("since the storm began")
        axes.grid(axis="y")
        _legend(axes, list(dict.fromkeys(cause for _, _, cause in marks)))
        return _svg(figure)


_ABOVE: Final[dict[str, Any]] = {
    "frameon": False,
    "fontsize": 8,
    "loc": "lower left",
    "bbox_to_anchor": (0.0, 1.0),
    "borderaxespad": 0.2,
    "handlelength": 1.0,
    "columnspacing": 1.2,
}


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def _legend(axes: Axes, causes: Sequence[str]) -> None:
    named = [cause for cause in causes if cause in COLOURS]
    handles = [Patch(color=colour(cause), label=cause) for cause in named]
    if len(named) < len(causes):
        handles.append(Patch(color=_OTHER, label="other" if named else ", ".join(causes)))
    axes.legend(handles=handles, **_ABOVE, ncols=5)


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None}
    figure.savefig(out, format="svg", metadata=metadata)
    text = out.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    # A page has several: names must be each its own.
    unique = blake2b(text.encode(), digest_size=5).hexdigest()
    text = re.sub(r'id="([^"]+)"', rf'id="\1-{unique}"', text)
    return re.sub(r'(href="#|url\(#)([^")]+)', rf"\1\2-{unique}", text)
