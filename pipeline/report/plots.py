"""Plots as SVG text inside the page, for light and dark themes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import blake2b
from threading import Lock
from typing import Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator, NullFormatter

_INK: Final = "#010203"
"""Placeholder for the text colour of the page, light or dark."""
WIDE: Final = 8.6
NARROW: Final = 3.9
"""Widths in inches, for the page on a screen and on a telephone."""

_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "kafka-shim",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "xtick.major.size": 3,
    "xtick.minor.size": 0,
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
    "NEW_MEMBER": "#5790fc",
    "MEMBER_LEFT": "#f89c20",
    "SESSION_EXPIRED": "#e42536",
    "COOPERATIVE_FOLLOWUP": "#964a8b",
    "POLL_TIMEOUT_REASON": "#7a21dd",
}
"""The colour of each cause, the same in all plots; all other causes share one. Petroff's six (arxiv.org/abs/2107.02270)
differ for people who do not see red or green; no more than six do."""
_OTHER: Final = "#9c9ca1"
_MAIN: Final = "#5790fc"
_NOT_YET: Final = "#8a8f98"
_LEADER: Final = "#e0953a"
_DELAY: Final = "#9067c6"
_UNIQUE: Final = re.compile(r"-([0-9a-f]{4})[0-9a-f-]{11,31}[0-9a-f]$")


class Lane(NamedTuple):
    """A member in a round: when it joined, in ms from the start."""

    name: str
    joined_ms: float


def short(member_id: str) -> str:
    """Shorten a member id to its name and the first digits of its unique part."""
    return _UNIQUE.sub(r" \1", member_id)


def colour(cause: str) -> str:
    """Return the colour of a cause."""
    return COLOURS.get(cause, _OTHER)


def duration(ms: float) -> str:
    """Format milliseconds for people, precise enough that values a tenth apart look different."""
    if ms < 1000:
        return f"{ms:.0f} ms" if ms else "0"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds == int(seconds) else f"{seconds:.1f} s"
    if seconds < 7200:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


_DRAWING: Final = Lock()
_DURATIONS: Final = FuncFormatter(lambda value, _: duration(value))
_STEPS_S: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400),
)
_TICKS: Final = {WIDE: 7, NARROW: 4}


def _time_axis(axis: Axis, most_ms: float, ticks: int) -> None:
    """Set ticks at round numbers of seconds, minutes or hours, from 0 on, without minor ticks."""
    step = next((each for each in _STEPS_S if most_ms / 1000 / each <= ticks), most_ms / 1000 / ticks)
    axis.set_major_locator(MultipleLocator(step * 1000))
    axis.set_major_formatter(_DURATIONS)


@contextmanager
def _styled() -> Iterator[None]:
    """Apply the style. Matplotlib's settings are global, so only one plot is drawn at a time."""
    with _DRAWING, mpl.rc_context(_STYLE):
        yield


def both(draw: Callable[[float], str]) -> str:
    """Draw a plot twice, for wide and for narrow pages; the page shows one of them."""
    return f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(NARROW)}</div>'


def stacked_days(days: Sequence[str], by_cause: Mapping[str, Sequence[float]], width: float = WIDE) -> str:
    """Draw bars of days, stacked by cause."""
    with _styled():
        figure, axes = _figure(2.6, width)
        bottom = [0.0] * len(days)
        for cause, values in by_cause.items():
            axes.bar(range(len(days)), values, bottom=bottom, color=colour(cause), width=0.8)
            bottom = [low + value for low, value in zip(bottom, values, strict=True)]
        axes.set_ylabel("rounds")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
        _legend(figure, list(by_cause), width)
        every = -(-len(days) // (_TICKS[width] + 1))
        labels = range(0, len(days), every)
        axes.set_xticks(labels, [days[index][5:] if index else days[index] for index in labels])
        return _svg(figure)


def stacked_bars(
    names: Sequence[str], by_cause: Mapping[str, Sequence[float]], ends: Sequence[str], width: float = WIDE
) -> str:
    """Draw horizontal bars of ms, stacked by cause, the first on top; `ends` are texts at their ends."""
    with _styled():
        figure, axes = _figure(0.7 + 0.27 * max(len(names), 2), width)
        offsets = [0.0] * len(names)
        for cause, values in by_cause.items():
            axes.barh(range(len(names)), values, left=offsets, color=colour(cause), height=0.68)
            offsets = [low + value for low, value in zip(offsets, values, strict=True)]
        for row, (total, text) in enumerate(zip(offsets, ends, strict=True)):
            axes.annotate(text, (total, row), (5, 0), textcoords="offset points", va="center", fontsize=8, alpha=0.75)
        axes.set_yticks(range(len(names)), [clipped(name, width) for name in names])
        axes.invert_yaxis()
        axes.set_xlim(0, max(offsets, default=1.0) * (1.18 if width == WIDE else 1.45) or 1.0)
        _time_axis(axes.xaxis, axes.get_xlim()[1], _TICKS[width])
        axes.set_xlabel("time in rounds, added up")
        axes.grid(axis="x")
        _legend(figure, list(by_cause), width)
        return _svg(figure)


def histogram(counts: Mapping[int, int], bins_a_decade: int, width: float = WIDE) -> str:
    """Draw a histogram of durations on a logarithmic axis.

    `counts` is by number of the bin; `bins_a_decade` bins make a factor of ten, and bin 0 begins at a millisecond.
    """
    with _styled():
        figure, axes = _figure(2.3, width)
        edges = {number: 10 ** (number / bins_a_decade) for number in (*counts, *(each + 1 for each in counts))}
        widths = [edges[number + 1] - edges[number] for number in counts]
        axes.bar([edges[number] for number in counts], list(counts.values()), width=widths, align="edge", color=_MAIN)
        low, high = min(edges.values()), max(edges.values())
        axes.set_xscale("log")
        axes.set_xlim(low * 0.9, high * 1.1)
        marks = [step * 1000 for step in _STEPS_S if low * 0.9 <= step * 1000 <= high * 1.1]
        if len(marks) < 2:
            # All durations are alike: mark the two ends.
            marks = [low, high]
        every = -(-len(marks) // (_TICKS[width] + 2)) or 1
        axes.set_xticks(marks[::every], [duration(mark) for mark in marks[::every]])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("from the start of a round until the group is stable")
        axes.set_ylabel("rounds")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(axis="y")
        return _svg(figure)


def timeline(
    lanes: Sequence[Lane], join_ms: float, leader_ms: float | None, delay_ms: float = 0.0, width: float = WIDE
) -> str:
    """Draw one round: a lane per member, from its JoinGroup to the end of the first half, then the leader's part.

    `delay_ms` is the last part of the first half: the initial delay of a group, in which all members have joined.
    """
    with _styled():
        figure, axes = _figure(0.75 + 0.24 * max(len(lanes), 2), width)
        complete = join_ms - delay_ms
        for row, lane in enumerate(lanes):
            axes.barh(row, lane.joined_ms, color=_NOT_YET, alpha=0.35, height=0.62)
            axes.barh(row, max(complete - lane.joined_ms, 0), left=lane.joined_ms, color=_MAIN, height=0.62)
            if delay_ms:
                begin = max(complete, lane.joined_ms)
                axes.barh(row, max(join_ms - begin, 0), left=begin, color=_DELAY, height=0.62)
            if leader_ms:
                axes.barh(row, leader_ms, left=join_ms, color=_LEADER, height=0.62)
        axes.set_yticks(range(len(lanes)), [clipped(short(lane.name), width) for lane in lanes])
        axes.invert_yaxis()
        axes.set_xlim(0, (join_ms + (leader_ms or 0.0)) * 1.02 or 1.0)
        _time_axis(axes.xaxis, axes.get_xlim()[1], _TICKS[width])
        axes.set_xlabel("since the round began")
        axes.grid(axis="x")
        legend = [("not yet joined", _NOT_YET, 0.35), ("waits for the others", _MAIN, 1.0)]
        legend += [("initial delay", _DELAY, 1.0)] if delay_ms else []
        legend += [("waits for the leader", _LEADER, 1.0)] if leader_ms else []
        handles = [Patch(color=shade, label=name, alpha=alpha) for name, shade, alpha in legend]
        _legend_of(figure, handles, width)
        return _svg(figure)


def storm_line(began: datetime, marks: Sequence[tuple[datetime, float, str]], width: float = WIDE) -> str:
    """Draw a storm: each round (time, ms, cause) is a bar at its time, with its duration as height."""
    with _styled():
        figure, axes = _figure(1.7, width)
        at = [(started - began).total_seconds() * 1000 for started, _, _ in marks]
        span = max(at[-1] if at else 0.0, 1000.0)
        thick = span / (200 if width == WIDE else 90)
        axes.bar(at, [ms for _, ms, _ in marks], color=[colour(cause) for _, _, cause in marks], width=thick)
        axes.set_xlim(-thick, span + thick)
        _time_axis(axes.xaxis, span, _TICKS[width])
        _time_axis(axes.yaxis, max((ms for _, ms, _ in marks), default=1.0) or 1.0, 4)
        axes.set_xlabel("since the storm began")
        axes.set_ylabel("a round took")
        axes.grid(axis="y")
        _legend(figure, list(dict.fromkeys(cause for _, _, cause in marks)), width)
        return _svg(figure)


def clipped(name: str, width: float) -> str:
    """Shorten a name to the width. The middle is cut, because names of members differ at their ends."""
    most = 48 if width == WIDE else 18
    return name if len(name) <= most else f"{name[: most // 3]}…{name[most // 3 + 1 - most :]}"


_ABOVE: Final[dict[str, Any]] = {
    "frameon": False,
    "fontsize": 8,
    "loc": "outside upper left",
    "borderaxespad": 0.2,
    "handlelength": 1.0,
    "columnspacing": 1.2,
}


def _figure(height: float, width: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def _legend(figure: Figure, causes: Sequence[str], width: float) -> None:
    with_colour = [cause for cause in causes if cause in COLOURS]
    handles = [Patch(color=colour(cause), label=cause) for cause in with_colour]
    if len(with_colour) < len(causes):
        handles.append(Patch(color=_OTHER, label="other" if with_colour else ", ".join(causes)))
    _legend_of(figure, handles, width)


def _legend_of(figure: Figure, handles: Sequence[Patch], width: float) -> None:
    """Put the legend above the plot: on a narrow page there is no room for two columns beside the names of members."""
    figure.legend(handles=handles, **_ABOVE, ncols=4 if width == WIDE else 2)


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None}
    figure.savefig(out, format="svg", metadata=metadata)
    text = out.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    # Ids must be unique on the page, which has several plots.
    unique = blake2b(text.encode(), digest_size=5).hexdigest()
    text = re.sub(r'id="([^"]+)"', rf'id="\1-{unique}"', text)
    return re.sub(r'(href="#|url\(#)([^")]+)', rf"\1\2-{unique}", text)
