"""`kafka-shim trace show|summary|follow|compare|export`: read traces without Spark."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import click
import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.commands.damaged import reads_files
from kafka_shim.commands.events import control_option, events_of, source_name
from kafka_shim.commands.why import NO_SUCH_GROUP, Moment, remedies_play, stop, zone_of
from kafka_shim.persistence.files import write_private
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.trace.reading import Event
from kafka_shim.why.comparison import Cost, compare
from kafka_shim.why.export import page_of
from kafka_shim.why.mermaid import sequence_diagram
from kafka_shim.why.narration import Line, Narrator
from kafka_shim.why.remedies import span

FOLLOW_SECONDS: Final = 0.2
NOT_IN_LOG: Final = "not in a log"
"""In place of a number that a log does not show."""

_traces = click.argument("traces", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
_group = click.option("--group", help="Only this group.")
_since = click.option(
    "--since", type=Moment(), help="From this time on: 14:02, an ISO time, or 10m for 10 minutes ago."
)
_until = click.option("--until", type=Moment(), help="Leave out what came after this time.")
_utc = click.option("--utc", is_flag=True, help="Show times in UTC.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command("show")
@_traces
@control_option
@_group
@_since
@_until
@click.option("--seq", metavar="FIRST-LAST", help="Only events with these sequence numbers, in full, as JSON.")
@_utc
@_json
@reads_files
def show(
    traces: Sequence[Path],
    control: str | None,
    group: str | None,
    since: float | None,
    until: float | None,
    seq: str | None,
    utc: bool,
    as_json: bool,
) -> None:
    """Tell the story of TRACES (`-` is standard input): joins, causes of rebalances, assignments."""
    narrator, zone, has_group = Narrator(), zone_of(utc), False
    first, last = _numbers(seq)
    for event in events_of(traces, control, group=group, since=since, until=until):
        has_group = has_group or group is None or event.get("group") == group
        if seq is not None:
            if first <= event.get("seq", 0) <= last:
                click.echo(orjson.dumps(event))
            continue
        for line in narrator.lines(event):
            if group is not None and line.group != group:
                continue
            if as_json:
                click.echo(orjson.dumps(_as_json(line)))
            else:
                click.echo(_line_of(line, zone))
    if not has_group and group is not None:
        stop(f"There is no group {group} in {source_name(traces, control)}.", NO_SUCH_GROUP)


def _line_of(line: Line, zone: tzinfo) -> str:
    """Return a line of the story, at its end the place in a log that it is concluded from."""
    where = f"  [{readable(line.where)}]" if line.where else ""
    return f"{_clock(line.wall, zone)}  {readable(line.group)}  {line.text}{where}"


def _as_json(line: Line) -> dict[str, Any]:
    story = {"wall": line.wall, "group": line.group, "kind": line.kind, "text": line.text}
    return story | ({"where": line.where} if line.where else {})


@click.command("summary")
@_traces
@control_option
@_since
@_until
@_json
@reads_files
def summary(
    traces: Sequence[Path], control: str | None, since: float | None, until: float | None, as_json: bool
) -> None:
    """Summarise the groups of TRACES: number, causes and cost of rebalances; the costliest first."""
    history = _history(events_of(traces, control, since=since, until=until))
    rows = sorted(
        (_summary(each) for each in history.groups.values()),
        key=lambda row: (-(row["partition_seconds"] or 0.0), row["group"]),
    )
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    table = Table("group", "protocol", "members", "rebalances", "causes", "stopped", "partition-seconds")
    for row in rows:
        causes = ", ".join(f"{count} {cause}" for cause, count in row["causes"].items())
        _add(
            table, row["group"], row["protocol"], str(row["members"]), str(row["rebalances"]), causes,
            span(row["seconds"]), _stopped(row["partition_seconds"]),
        )  # fmt: skip
    _print(table)
    click.echo("kafka-shim why GROUP TRACE explains why, and advises.")


@click.command("follow")
@click.argument("trace", type=click.Path(path_type=Path, dir_okay=False))
@_group
@_utc
@click.option("--from-start", is_flag=True, help="Begin with the events that the file has already.")
@reads_files
def follow(trace: Path, group: str | None, utc: bool, from_start: bool) -> None:
    """Tell the story of a TRACE while it is written, until Ctrl-C."""
    narrator, zone = Narrator(), zone_of(utc)
    for event in _growing(trace, from_start):
        for line in narrator.lines(event):
            if group is None or line.group == group:
                click.echo(_line_of(line, zone))
                sys.stdout.flush()


@click.command("compare")
@click.argument("left", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("right", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--group", help="The group in both; without it, the only group of each.")
@click.option("--right-group", help="Its name in the second trace, if it differs.")
@_json
@reads_files
def compare_traces(left: Path, right: Path, group: str | None, right_group: str | None, as_json: bool) -> None:
    """Compare two traces side by side: the causes of rebalances, and their cost."""
    one, other = (
        _only(_history(events_of([path], None)), name, path)
        for path, name in ((left, group), (right, right_group or group))
    )
    comparison = compare(list(one.rebalances), list(other.rebalances))
    if as_json:
        rows = [
            {"cause": row.cause, "left": vars(row.left), "right": vars(row.right)}
            for row in (*comparison.rows, comparison.total)
        ]
        click.echo(json.dumps({"rows": rows, "differs_at": comparison.differs_at}, indent=1))
        return
    columns: list[tuple[str, Callable[[Cost], str]]] = [
        ("rebalances", lambda cost: str(cost.rebalances)),
        ("time", lambda cost: span(cost.seconds)),
        ("moved", lambda cost: NOT_IN_LOG if cost.moved is None else str(cost.moved)),
        ("partition-seconds", lambda cost: _stopped(cost.partition_seconds)),
    ]
    names = [f"{name}\n{escape(readable(path.name))}" for name, _ in columns for path in (left, right)]
    table = Table("cause", *names)
    for row in (*comparison.rows, comparison.total):
        _add(table, row.cause, *(show_(cost) for _, show_ in columns for cost in (row.left, row.right)))
    _print(table)
    if comparison.differs_at is not None:
        at = comparison.differs_at
        causes = (readable(each.rebalances[at].cause) for each in (one, other))
        click.echo(f"They first differ at rebalance {at + 1}: {' against '.join(causes)}.")


@click.command("export")
@click.argument("trace", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--group", help="The group; without it, the only one.")
@click.option("--rebalance", type=int, default=-1, show_default=True, help="Which one, from 1 on; -1 is the last.")
@click.option("--mermaid", is_flag=True, help="A Mermaid sequence diagram of one rebalance.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="The page with this trace in it, one file."
)
@click.option("--no-replay", is_flag=True, help="With --html: do not try each proposed setting on the simulator.")
@reads_files
def export(trace: Path, group: str | None, rebalance: int, mermaid: bool, html: Path | None, no_replay: bool) -> None:
    """Export a TRACE for documents and tickets: a diagram of one rebalance, or a page that needs no server."""
    if html is not None:
        events = events_of([trace], None, group=group)
        write_private(html, page_of(events, trace.name, None if no_replay else remedies_play()))
        return
    if not mermaid:
        raise click.UsageError("Say in which form: --mermaid or --html FILE.")
    trace_events = list(events_of([trace], None, group=group))
    chosen = _only(_history(trace_events), group, trace)
    count = len(chosen.rebalances)
    place = rebalance - 1 if rebalance > 0 else count + rebalance
    if not 0 <= place < count:
        stop(f"{chosen.group} has {count} rebalances, so there is no rebalance {rebalance}.", 2)
    of_group = (event for event in trace_events if event.get("group") == chosen.group)
    for line in sequence_diagram(chosen.rebalances[place], of_group, chosen.protocol_type):
        click.echo(readable(line, LONGEST_LINE))


def _history(events: Iterable[Event]) -> History:
    history = History()
    for event in events:
        history.add(event)
    return history


def _only(history: History, group: str | None, path: Path) -> GroupHistory:
    if group is None and len(history.groups) == 1:
        return next(iter(history.groups.values()))
    if group is None:
        stop(f"{path} has {len(history.groups)} groups; name one with --group.", 2)
    history_of_group = history.groups.get(group)
    if history_of_group is None:
        stop(f"There is no group {group} in {path}.", NO_SUCH_GROUP)
    return history_of_group


def _summary(history: GroupHistory) -> dict[str, Any]:
    causes: dict[str, int] = {}
    for each in history.rebalances:
        causes[each.cause or "unknown"] = causes.get(each.cause or "unknown", 0) + 1
    cost = Cost.of(history.rebalances)
    return {
        "group": history.group,
        "protocol": history.protocol,
        "members": len(history.present),
        "rebalances": cost.rebalances,
        "causes": dict(sorted(causes.items(), key=lambda item: -item[1])),
        "seconds": cost.seconds,
        "member_seconds": cost.member_seconds,
        "partition_seconds": cost.partition_seconds,
    }


def _stopped(partition_seconds: float | None) -> str:
    return NOT_IN_LOG if partition_seconds is None else f"{partition_seconds:.1f}"


def _growing(trace: Path, from_start: bool) -> Iterator[Event]:
    """Yield the events of a growing file; after it was renamed and created again, those of the new file."""
    try:
        file = trace.open("rb")
    except OSError as error:
        raise click.ClickException(f"{trace} cannot be read: {error.strerror}.") from None
    if not from_start:
        file.seek(0, 2)
    rest = b""
    while True:
        data = file.read()
        if data:
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                try:
                    yield orjson.loads(line)
                except ValueError:
                    # Reading began in the middle of a line.
                    continue
            continue
        if trace.exists() and trace.stat().st_ino != _inode(file):
            file.close()
            file, rest = trace.open("rb"), b""
            continue
        time.sleep(FOLLOW_SECONDS)


def _inode(file: BufferedReader) -> int:
    return os.fstat(file.fileno()).st_ino


def _numbers(seq: str | None) -> tuple[int, int]:
    if seq is None:
        return 0, 0
    first, _, last = seq.partition("-")
    if not first.isdigit() or not (last or first).isdigit():
        raise click.ClickException(f"{seq!r} is not of the form FIRST-LAST.")
    return int(first), int(last or first)


def _clock(wall: float | None, zone: tzinfo) -> str:
    return "?" if wall is None else datetime.fromtimestamp(wall, zone).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _add(table: Table, *cells: str) -> None:
    # Not as strings: those are markup.
    table.add_row(*(Text(readable(cell)) for cell in cells))


def _print(table: Table) -> None:
    # Without a terminal nothing is cut: a program or a file may read it.
    Console(width=None if sys.stdout.isatty() else 200).print(table)
