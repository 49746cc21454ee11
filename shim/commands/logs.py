"""Events for commands from logs, and `kafka-shim trace from-log`, which writes them as a trace."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import BinaryIO, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.commands.damaged import reads_files
from kafka_shim.commands.parameters import ParamType
from kafka_shim.persistence.files import private
from kafka_shim.sources.lines import UnreadableLog, files_of
from kafka_shim.sources.mixture import PROGRAMS, Mixture
from kafka_shim.sources.reading import Reading
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.trace.members import Member
from kafka_shim.trace.reading import Event
from kafka_shim.why.explanation import Explanation, explain

_LISTED: Final = 5
"""Number of groups that a sentence names."""
ALL_LINES: Final = "add all lines of kafka.coordinator.group (org.apache.kafka.coordinator.group since 4.0)"


class Zone(ParamType[tzinfo]):
    """A time zone by its name: `Europe/Berlin`, `UTC`."""

    name = "zone"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tzinfo:
        """Find the zone. Raises click.BadParameter."""
        if isinstance(value, tzinfo):
            return value
        try:
            return ZoneInfo(str(value))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self.fail(f"{value!r} is not a time zone: write a name such as Europe/Berlin, or UTC.", param, ctx)


zone_option: Final = click.option(
    "--log-zone", type=Zone(), default="UTC", show_default=True, help="Time zone of stamps without one."
)


def list_groups(history: History, *, as_json: bool) -> None:
    """Print the groups of a history that rebalanced, the sickest first."""
    answers = [explain(each, list(each.rebalances)) for each in history.groups.values()]
    sick = sorted(filter(None, answers), key=_sickness)
    if as_json:
        rows = [
            {
                "group": each.history.group,
                "kind": each.history.kind,
                "members": each.history.size,
                "rebalances": len(each.rebalances),
                "causes": _causes(each),
                "calm": each.calm,
                "verdict": each.verdict,
            }
            for each in sick
        ]
        click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        return
    table = Table("group", "members", "rebalances", "causes", "verdict")
    for each in sick:
        causes = ", ".join(f"{count} {cause}" for cause, count in _causes(each).items())
        members = "?" if each.history.size is None else str(each.history.size)
        cells = (each.history.group, members, str(len(each.rebalances)), causes, each.verdict)
        table.add_row(*(Text(readable(cell, LONGEST_LINE)) for cell in cells))
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    click.echo("kafka-shim why GROUP, with the same options, explains why, and advises.")
    of_lines = [each for each in history.groups.values() if each.is_of_log and not each.is_of_topic]
    cut = [each.group for each in of_lines if not each.rebalances and ends_of(each)]
    if cut:
        click.echo(
            f"Members of {listing_of(cut)} left or expired, but the lines of the rebalance are not there: {ALL_LINES}."
        )


def listing_of(groups: Sequence[str]) -> str:
    """Return the names of groups for a sentence, the first few."""
    first = [readable(each) for each in groups[:_LISTED]]
    more = f" and {len(groups) - _LISTED} more" if len(groups) > _LISTED else ""
    return f"{', '.join(first)}{more}"


def ends_of(history: GroupHistory) -> list[Member]:
    """Return the members that left or expired."""
    return [each for each in history.members.values() if each.how in ("left", "expired", "removed")]


def _sickness(explanation: Explanation) -> tuple[bool, bool, float, int, str]:
    cost = sum(each.cost for each in explanation.troubles)
    return (
        explanation.is_calm or explanation.is_open,
        not explanation.storm,
        -cost,
        -len(explanation.rebalances),
        explanation.history.group,
    )


def _causes(explanation: Explanation) -> dict[str, int]:
    return dict(Counter(str(each.cause) or "unknown" for each in explanation.rebalances).most_common())


class Logs:
    """Logs as a source of events, of one group or of all."""

    def __init__(self, names: Sequence[str], zone: tzinfo, group: str | None = None) -> None:
        self._names = names
        self._group = group
        self._mixture = Mixture(group)
        self.reading = Reading(PROGRAMS, group=group, zone=zone)

    def events(self) -> Iterator[Event]:
        """Yield the events of the logs, in order of time. Raises click.ClickException."""
        try:
            yield from self._mixture.events(self.reading.signs(files_of(self._names)))
        except UnreadableLog as error:
            raise click.ClickException(str(error)) from None

    def finish(self, history: History) -> None:
        """Complete the histories of all groups, after all events."""
        for each in history.groups.values():
            self._mixture.finish(each)

    def report(self) -> None:
        """Print on standard error how many lines were understood, with an example of the others."""
        reading = self.reading
        of_group = "about groups" if self._group is None else f"about {self._group}"
        sentence = f"{reading.understood:,} lines {of_group} were understood, {reading.unknown:,} were not"
        sentence += f", such as {reading.example}" if reading.example else "."
        for each in (sentence, *self._mixture.notes):
            click.echo(readable(f"kafka-shim: {each}", LONGEST_LINE), err=True)

    @property
    def groups(self) -> list[str]:
        """The groups with lines."""
        return list(self.reading.groups)

    def has_offsets_alone(self, group: str) -> bool:
        """False: lines of logs are about members."""
        return False

    @property
    def name(self) -> str:
        """The logs and their brokers, for a sentence."""
        brokers = sorted(self.reading.brokers, key=lambda each: (len(each), each))
        of_brokers = f" (of broker {' and '.join(brokers)})" if brokers else ""
        return f"{', '.join('standard input' if each == '-' else each for each in self._names)}{of_brokers}"

    def scantiness(self, group: str) -> str:
        """Return the sentence about logs with too few lines of a group."""
        return (
            f"The lines about {group} in {', '.join(self._names)} show the begin and the end of no rebalance. That does"
            " not say that it had none: add more of the log, or the log of the broker."
        )

    @property
    def silence(self) -> str:
        """The sentence about logs without a line of a coordinator of groups, or of a client about its group."""
        return (
            f"No line of a group coordinator is in {', '.join(self._names)}, and none of a client about its group:"
            " it is not the log of a broker of Kafka, another broker was the coordinator, or the level of its loggers"
            " is WARN. It does not say that no group rebalanced. librdkafka has lines about its group with debug=cgrp."
        )


@click.command("from-log")
@click.argument("logs", nargs=-1, required=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, allow_dash=True, dir_okay=False),
    default="-",
    help="The trace; standard output by default.",
)
@click.option("--group", help="Only this group.")
@zone_option
@reads_files
def from_log(logs: Sequence[str], out: Path, group: str | None, log_zone: tzinfo) -> None:
    """Write a trace from the LOGS of brokers: files, folders, patterns, .gz, .zst, `-` for standard input."""
    source = Logs(logs, log_zone, group)
    write_trace(source.events(), out)
    if not source.reading.groups:
        raise click.ClickException(source.silence)
    source.report()


def write_trace(events: Iterator[Event], out: Path) -> None:
    """Write events as a trace; `-` is standard output. Raises click.ClickException."""
    try:
        if str(out) == "-":
            _write(events, sys.stdout.buffer)
        else:
            with open(out, "wb", opener=private) as file:
                _write(events, file)
    except OSError as error:
        raise click.ClickException(f"{out} cannot be written: {error.strerror}.") from None


def _write(events: Iterator[Event], file: BinaryIO) -> None:
    for event in events:
        file.write(orjson.dumps(event) + b"\n")
