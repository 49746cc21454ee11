"""This checkout beside others, turn by turn: `python -m bench.compare ../before kfake [--members 50] [--kinds commit]`.

Each of those named is a folder with an older or newer checkout, or a server that `make bench` knows. All have the same
load, in turns of less than a second, because what else a machine does changes a figure by more than most changes of the
code do. The ratio is that of two turns next to each other, the median of all pairs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.load import Load, NoCompiler, Process, build
from bench.markdown import KINDS
from bench.servers import NAMES, TOPIC, form, make_topics, serving
from kafka_shim.conformance.targets import TargetError, open_target

WARMING: Final = 0.15
"""Seconds of the same load before a turn."""
COLUMNS: Final = (
    "server",
    "CPU us/request",
    "this is",
    "saturated mean us",
    "saturated p99 us",
    "p99 turns",
    "failed",
)


def start(stack: ExitStack, name: str) -> tuple[Process, int, str]:
    """Start what `name` says: its process, its port, and the topics that it has. It ends with `stack`."""
    if name in NAMES:
        target = open_target(name)
        stack.callback(target.stop)
        instance = target.start("default")
        topics = make_topics(f"{instance.host}:{instance.port}", name)
        return Process.listening_on(instance.port), instance.port, topics
    process, port = stack.enter_context(serving(checkout=Path(name)))
    return process, port, f"{TOPIC}:10"


def turns(loads: dict[str, tuple[Process, Load]], kind: str, count: int, seconds: float) -> dict[str, list[Any]]:
    """The figures of each server's turns, with `cpu_us`."""
    found: dict[str, list[Any]] = {name: [] for name in loads}
    for _ in range(count):
        for name, (process, load) in loads.items():
            load.tell(kind, WARMING)
            before = process.cpu_seconds()
            figures = load.tell(kind, seconds)
            cpu_us = (process.cpu_seconds() - before) / max(figures["answered"], 1) * 1e6
            found[name].append(figures | {"cpu_us": cpu_us})
    return found


def table(kind: str, found: dict[str, list[Any]], members: int) -> Table:
    """The medians of a kind of work, servers down."""
    made = Table(title=f"{KINDS[kind]}, {members} members")
    for column in COLUMNS:
        made.add_column(column, justify="left" if column == "server" else "right")
    ours = next(iter(found.values()))

    def median(figures: list[Any], name: str) -> float:
        return statistics.median(each[name] for each in figures)

    for name, figures in found.items():
        ratio = statistics.median(mine["cpu_us"] / its["cpu_us"] for mine, its in zip(ours, figures, strict=True))
        made.add_row(
            "this" if figures is ours else name,
            f"{median(figures, 'cpu_us'):.2f}",
            "" if figures is ours else f"{(ratio - 1) * 100:+.1f}%",
            f"{median(figures, 'mean_us'):,.0f}",
            f"{median(figures, 'p99_us'):,.0f}",
            f"{median(figures, 'p99_turns') / members:.2f}",
            str(sum(each["failed"] for each in figures)),
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="+", help=f"a folder with a checkout, or one of {', '.join(NAMES[1:])}")
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.6, help="length of one turn")
    parser.add_argument("--forming", type=float, default=60, help="seconds a group may take to form")
    arguments = parser.parse_args()
    here = str(Path(__file__).resolve().parent.parent)
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        build()
        with ExitStack() as stack:
            loads: dict[str, tuple[Process, Load]] = {}
            for name in (here, *arguments.peers):
                process, port, topics = start(stack, name)
                with ExitStack() as attempt:
                    load, formed = form(attempt, port, arguments.members, topics, arguments.forming)
                    stack.push(attempt.pop_all())
                if formed["formed"]:
                    loads[name] = (process, load)
                else:
                    console.print(f"{name} formed no group of {arguments.members} members")
            for kind in arguments.kinds.split(","):
                found = turns(loads, kind, arguments.turns, arguments.seconds)
                console.print(table(kind, found, arguments.members))
    except (NoCompiler, TargetError, RuntimeError, OSError) as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
