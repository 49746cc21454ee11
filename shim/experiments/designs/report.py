"""Costs of the designs as Markdown tables and plots, for the page `docs/designs.md`.

Plots need matplotlib (the extra `spark`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kafka_shim.experiments.designs.scenarios import DESIGNS, Bill, Laboratory, bills, disagreement
from kafka_shim.experiments.designs.world import Settings

SEED_EXAMPLE: Final = Settings(members=100, metadata=100_000)
"""The example in the proposal."""

SMALL: Final = Settings(members=10, metadata=1_000)
LAGS: Final = (0.0, 1.0, 5.0, 30.0)
SWEEP: Final = (10, 20, 50, 100, 200, 500)
METADATA: Final = (100, 10_000, 100_000, 1_000_000)
"""Bytes of metadata of each member."""
BEGIN: Final = "<!-- made by `kafka-shim designs --page`: {} -->"
END: Final = "<!-- end -->"

_COLOURS: Final = dict(
    zip(
        "abcdefgr",
        ("#4c8bd6", "#d1495b", "#e0953a", "#b9873c", "#5aa469", "#9067c6", "#c66aa0", "#2a9d9d"),
        strict=True,
    )
)
_INK: Final = "#808890"
"""Readable on white and on black."""


def size(count: int) -> str:
    """Format bytes in the largest decimal unit that gives at least one."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


def seconds(value: float | None) -> str:
    """Format seconds, or `never` for None."""
    return "never" if value is None else f"{value:.2f} s"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a Markdown table, numbers to the right."""
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' if place == 0 else '---:' for place in range(len(head)))} |"
    for row in rows:
        yield f"| {' | '.join(str(cell) for cell in row)} |"


def design_name(letter: str) -> str:
    """Return the letter and the title of a design."""
    return f"({letter}) {DESIGNS[letter].title}"


def bill_table(rows: Iterable[Bill]) -> Iterator[str]:
    """Yield a table with one line for each bill."""
    head = ("design", "requests", "received", "sent", "largest", "rounds", "settled after", "partition stopped")
    return table(
        head,
        (
            (
                design_name(bill.design),
                f"{bill.requests:,}",
                size(bill.bytes_in),
                size(bill.bytes_out),
                size(bill.largest),
                f"{bill.rounds:,}",
                seconds(bill.seconds),
                seconds(bill.stopped),
            )
            for bill in rows
        ),
    )


def event_section(event: str, settings: Settings) -> Iterator[str]:
    """Yield the costs of an event in each design."""
    return bill_table(getattr(Laboratory(design, settings), event)() for design in DESIGNS)


def metadata_section() -> Iterator[str]:
    """Yield the cost of one more member, by the size of each member's metadata."""
    rows = (
        (design_name(design), *(f"{size(bill.bytes_out)}, {seconds(bill.seconds)}" for bill in row))
        for design in DESIGNS
        for row in [[Laboratory(design, Settings(members=100, metadata=each)).join() for each in METADATA]]
    )
    return table(("design", *(f"{size(each)} each" for each in METADATA)), rows)


def disagreement_section() -> Iterator[str]:
    """Yield rounds and time if half of the members see the growth of a topic late."""
    rows: dict[str, list[str]] = {}
    for design, _, bill in disagreement(SMALL, LAGS):
        rows.setdefault(design, []).append(f"{bill.rounds:,} rounds, {seconds(bill.stopped)}")
    head = ("design", *(f"{lag:g} s late" for lag in LAGS))
    return table(head, ((design_name(design), *cells) for design, cells in rows.items()))


def deaths_section() -> Iterator[str]:
    """Yield the costs of the leader's death after each of its requests."""
    head = ("design", "dies after its", "rounds", "settled after", "partition stopped")
    return table(
        head,
        (
            (
                "" if step.number > 1 else design_name(design),
                f"{step.number}. {step.request}",
                step.bill.rounds,
                seconds(step.bill.seconds),
                seconds(step.bill.stopped),
            )
            for design in DESIGNS
            for step in Laboratory(design, SMALL).death_at_steps()
        ),
    )


SECTIONS: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "form": lambda: event_section("form", SEED_EXAMPLE),
    "join": lambda: event_section("join", SEED_EXAMPLE),
    "death": lambda: event_section("death", SEED_EXAMPLE),
    "growth": lambda: event_section("growth", SEED_EXAMPLE),
    "metadata": metadata_section,
    "disagreement": disagreement_section,
    "deaths": deaths_section,
}
"""The computed parts of the page."""


def page_with_sections(text: str) -> str:
    """Compute each part between its marks again, and return the page. Raises ValueError if marks are missing."""
    for name, lines in SECTIONS.items():
        before, begin, rest = text.partition(BEGIN.format(name))
        _, end, after = rest.partition(END)
        if not begin or not end:
            raise ValueError(f"the page has no part {BEGIN.format(name)!r} that ends with {END!r}")
        text = "\n".join([before + begin, "", *lines(), "", end + after])
    return text


def write_plots(folder: Path) -> None:
    """Write the plots of the page, as SVG files `designs-*.svg`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    swept = {
        design: [Laboratory(design, Settings(members=members, metadata=10_000)).join() for members in SWEEP]
        for design in DESIGNS
    }
    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "designs",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), _INK),
    }

    def plot(name: str, value: Callable[[Bill], float], label: str) -> None:
        figure = Figure(figsize=(7.2, 4), layout="constrained", facecolor="none")
        axes = figure.subplots()
        axes.set_facecolor("none")
        for design, row in swept.items():
            colour, dash = _COLOURS[design], "--" if design in "dg" else "-"
            axes.loglog(SWEEP, [value(bill) for bill in row], dash, marker=".", color=colour, label=design_name(design))
        axes.set_xticks(SWEEP, [f"{members}" for members in SWEEP])
        axes.minorticks_off()
        axes.set_xlabel("members, when one more joins; 10 KB of metadata each")
        axes.set_ylabel(label)
        axes.grid(alpha=0.25, linewidth=0.5)
        figure.legend(loc="outside right center", fontsize=8)
        figure.savefig(folder / name, format="svg", metadata={"Date": None})

    with mpl.rc_context(settings):
        plot("designs-bytes.svg", lambda bill: bill.bytes_out / 1e6, "MB the coordinator sends")
        plot("designs-stopped.svg", lambda bill: bill.stopped, "seconds a partition has no owner, mean")


def all_bills(members: Iterable[int], metadata: Iterable[int], designs: Iterable[str]) -> Iterator[Bill]:
    """Yield the bills of every event in groups of every size."""
    sizes = list(metadata)
    chosen = list(designs)
    for count in members:
        for each in sizes:
            for design in chosen:
                yield from bills(design, Settings(members=count, metadata=each))
