"""This checkout beside others, turn by turn: `python -m bench.compare ../before kfake [--members 50] [--kinds fetch]`.

A peer is a folder with another checkout, or a server that `make bench` knows. All have the same load, in turns of less
than a second. Other work of the machine only adds to a turn's cost, so the figure of a server is the lowest quartile of
its turns. Two processes of the same code differ by several percent (addresses, hashes), so all servers are started
several times; the ratio is the median of those of the starts, shown with the lowest and the highest.

Fetches need no group. An idle fetch ends after 5 ms without a record, so its answer time says little. The group is a
classic one: `bench.instructions` has the heartbeat and the commit of a consumer group (KIP-848).
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
from bench.servers import NAMES, TOPIC, form, make_fetched, make_topics, serving
from kafka_shim.conformance.targets import TargetError, open_target

FETCHES: Final = {
    "fetch": "Fetch in a session of 20 partitions, one in eleven waits in vain",
    "idle": "Fetch in a session of 20 partitions, each waits in vain",
}
TITLES: Final = KINDS | FETCHES
WARMING: Final = 0.15
"""Seconds of the same load before a turn."""
COLUMNS: Final = (
    "server",
    "CPU us/request",
    "this is",
    "from .. to",
    "saturated mean us",
    "saturated p99 us",
    "p99 turns",
    "failed",
)


def start(stack: ExitStack, name: str) -> tuple[Process, str, int]:
    """Start a checkout or a server until the end of `stack`; return its process, host and port."""
    if name in NAMES:
        target = open_target(name)
        stack.callback(target.stop)
        instance = target.start("default")
        return Process.listening_on(instance.port), instance.host, instance.port
    process, port = stack.enter_context(serving(checkout=Path(name)))
    return process, "127.0.0.1", port


def load_of(stack: ExitStack, name: str, host: str, port: int, arguments: argparse.Namespace, *, fetches: bool) -> Load:
    """Connect the members to a server: those of a group, or consumers that fetch. Raises RuntimeError if no group
    forms."""
    bootstrap = f"{host}:{port}"
    if fetches:
        return stack.enter_context(Load(host, port, "", arguments.members, make_fetched(bootstrap, name)))
    topics = make_topics(bootstrap, name) if name in NAMES else f"{TOPIC}:10"
    load, formed = form(stack, port, arguments.members, topics, arguments.forming)
    if not formed["formed"]:
        raise RuntimeError(f"{name} formed no group of {arguments.members} members")
    return load


def turns(loads: dict[str, tuple[Process, Load]], kind: str, count: int, seconds: float) -> dict[str, list[Any]]:
    """Return the figures of each server's turns, with `cpu_us`."""
    figures_of: dict[str, list[Any]] = {name: [] for name in loads}
    for _ in range(count):
        for name, (process, load) in loads.items():
            load.tell(kind, WARMING)
            before = process.cpu_seconds()
            figures = load.tell(kind, seconds)
            cpu_us = (process.cpu_seconds() - before) / max(figures["answered"], 1) * 1e6
            figures_of[name].append(figures | {"cpu_us": cpu_us})
    return figures_of


def low(figures: list[Any]) -> float:
    """Return the lowest quartile of the CPU time per request, us."""
    quartile: float = statistics.quantiles([each["cpu_us"] for each in figures], n=4)[0]
    return quartile


def table(kind: str, starts: list[dict[str, list[Any]]], members: int) -> Table:
    """Make a table of a kind of work, servers down; `starts` has the figures of each server's turns, by start."""
    result = Table(title=f"{TITLES[kind]}, {members} members")
    for column in COLUMNS:
        result.add_column(column, justify="left" if column == "server" else "right")
    this = next(iter(starts[0]))

    for name in starts[0]:
        figures = [each for start in starts for each in start[name]]
        ratios = [(low(start[this]) / low(start[name]) - 1) * 100 for start in starts]
        result.add_row(
            "this" if name == this else name,
            f"{statistics.median(low(start[name]) for start in starts):.2f}",
            "" if name == this else f"{statistics.median(ratios):+.1f}%",
            "" if name == this else f"{min(ratios):+.1f} .. {max(ratios):+.1f}",
            f"{statistics.median(each['mean_us'] for each in figures):,.0f}",
            f"{statistics.median(each['p99_us'] for each in figures):,.0f}",
            f"{statistics.median(each['p99_turns'] for each in figures) / members:.2f}",
            str(sum(each["failed"] for each in figures)),
        )
    return result


def measure(arguments: argparse.Namespace, names: list[str], kinds: list[str]) -> dict[str, dict[str, list[Any]]]:
    """Start each server, measure all kinds of work, and stop them. Return figures by kind and server."""
    with ExitStack() as stack:
        servers = {name: start(stack, name) for name in names}
        figures: dict[str, dict[str, list[Any]]] = {}
        for are_fetches in (False, True):
            some = [kind for kind in kinds if (kind in FETCHES) == are_fetches]
            if not some:
                continue
            loads = {
                name: (process, load_of(stack, name, host, port, arguments, fetches=are_fetches))
                for name, (process, host, port) in servers.items()
            }
            figures |= {kind: turns(loads, kind, arguments.turns, arguments.seconds) for kind in some}
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers", nargs="+", help=f"a folder with a checkout, or one of {', '.join(NAMES[1:])}")
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--kinds", default=",".join(TITLES), help=f"of {', '.join(TITLES)}, with commas")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--starts", type=int, default=5, help="how often all servers are started")
    parser.add_argument("--seconds", type=float, default=0.25, help="length of one turn")
    parser.add_argument("--forming", type=float, default=60, help="seconds a group may take to form")
    arguments = parser.parse_args()
    here = str(Path(__file__).resolve().parent.parent)
    kinds = arguments.kinds.split(",")
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        build()
        starts = [measure(arguments, [here, *arguments.peers], kinds) for _ in range(arguments.starts)]
        for kind in kinds:
            console.print(table(kind, [each[kind] for each in starts], arguments.members))
    except (NoCompiler, TargetError, RuntimeError, OSError) as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
