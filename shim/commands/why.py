"""`kafka-shim why`: why a group rebalanced, who was slow, what it cost and what to do.

Decides where the events come from and how the answer is printed. What they mean is `why/`'s.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_shim.commands.events import control_option, events_of, named
from kafka_shim.groups.causes import MEANING, Cause
from kafka_shim.why.advice import Play
from kafka_shim.why.explanation import as_json, explain
from kafka_shim.why.history import GroupHistory, History
from kafka_shim.why.text import lines, whole

NO_SUCH_GROUP: Final = 3
NOTHING_IN_RANGE: Final = 4


class Moment(click.ParamType[float]):
    """A wall-clock time (`14:02`, `2026-11-22 14:02:07`) or how long ago (`10m`, `2h`, `90s`); seconds of Unix time."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Raises click.BadParameter."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:])
        if unit is not None and text[:-1].replace(".", "", 1).isdigit():
            return datetime.now(UTC).timestamp() - float(text[:-1]) * unit
        today = datetime.now().date()
        for layout in ("%H:%M:%S.%f", "%H:%M:%S", "%H:%M"):
            try:
                return datetime.combine(today, datetime.strptime(text, layout).time()).timestamp()
            except ValueError:
                continue
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            self.fail(f"{text!r} is no time: write 14:02, 2026-11-22T14:02:07, or 10m for ten minutes ago.", param, ctx)


@click.command("why")
@click.argument("group", required=False)
@click.argument("traces", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@control_option
@click.option("--since", type=Moment(), help="From this time on: 14:02, an ISO time, or 10m for ten minutes ago.")
@click.option("--until", type=Moment(), help="Up to this time.")
@click.option("--last", type=click.IntRange(1), help="Show the last N rebalances in full.")
@click.option("--brief", is_flag=True, help="One line for each rebalance.")
@click.option("--json", "as_json_", is_flag=True, help="For programs.")
@click.option("--utc", is_flag=True, help="Show times in UTC.")
@click.option("--no-replay", is_flag=True, help="Do not replay remedies on the simulator.")
@click.option("--explain", "cause", metavar="CAUSE", help="What a cause means.")
def why(
    group: str | None,
    traces: Sequence[Path],
    control: str | None,
    since: float | None,
    until: float | None,
    last: int | None,
    brief: bool,
    as_json_: bool,
    utc: bool,
    no_replay: bool,
    cause: str | None,
) -> None:
    """Why GROUP rebalanced, from TRACES (`-` is standard input; .gz and .zst too) or from a running server.

    Without either it reads trace.jsonl if it is here, and else asks the control server.
    """
    if cause is not None:
        _explain_cause(cause)
        return
    if group is None:
        raise click.UsageError("Name a group: kafka-shim why GROUP [TRACE...].")
    history = History()
    for event in events_of(traces, control, group=group):
        history.add(event)
    found = history.groups.get(group)
    if found is None:
        stop(f"There is no group {group} in {named(traces, control)}.", NO_SUCH_GROUP)
    chosen = [
        each
        for each in found.rebalances
        if (since is None or each.started >= since) and (until is None or each.started <= until)
    ]
    if not chosen:
        stop(_nothing(found), NOTHING_IN_RANGE)
    if last is not None:
        chosen = chosen[-last:]
    explanation = explain(found, chosen, None if no_replay else remedies_play())
    assert explanation is not None
    if as_json_:
        click.echo(json.dumps(as_json(explanation), indent=1))
        return
    zone = zone_of(utc)
    bars = sys.stdout.isatty() or "COLUMNS" in os.environ
    text = whole(explanation, bars=bars, zone=zone) if last else lines(explanation, bars=bars, brief=brief, zone=zone)
    for line in text:
        click.echo(line)


def remedies_play() -> Play:
    """What plays a group's past again."""
    # The simulator takes a fifth of a second to import; who shows a trace only does not pay for it.
    from kafka_shim.lab.replaying import play

    return play


def zone_of(utc: bool) -> tzinfo:
    """The zone in which times are shown: UTC, or that of this machine."""
    zone = UTC if utc else datetime.now().astimezone().tzinfo
    assert zone is not None
    return zone


def stop(sentence: str, code: int) -> NoReturn:
    """End with this exit code and a sentence on standard error."""
    click.echo(f"kafka-shim: {sentence}", err=True)
    sys.exit(code)


def _nothing(history: GroupHistory) -> str:
    if not history.rebalances:
        return f"{history.group} did not rebalance."
    first, last = (datetime.fromtimestamp(each.started) for each in (history.rebalances[0], history.rebalances[-1]))
    return (
        f"{history.group} did not rebalance in that time; its {len(history.rebalances)} rebalances are between"
        f" {first:%Y-%m-%d %H:%M:%S} and {last + timedelta(seconds=1):%Y-%m-%d %H:%M:%S}."
    )


def _explain_cause(name: str) -> None:
    try:
        cause = Cause(name.upper())
    except ValueError:
        raise click.ClickException(f"{name} is no cause; there are {', '.join(Cause)}.") from None
    click.echo(f"{cause}: {MEANING[cause]}")
