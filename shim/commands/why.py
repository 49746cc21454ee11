"""`kafka-shim why`: causes, slow members, costs and remedies of a group's rebalances.

The package `why/` computes the answer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn

import click

from kafka_shim.apis.readable import LONGEST_LINE, readable
from kafka_shim.commands.damaged import reads_files
from kafka_shim.commands.events import control_option, events_of, limits_of_server, source_name
from kafka_shim.commands.logs import ALL_LINES, Logs, ends_of, list_groups, listing_of, zone_option
from kafka_shim.commands.parameters import ParamType, Whole
from kafka_shim.commands.topic import Both, Topic, kafka_options, offsets_option
from kafka_shim.trace.completeness import Missing
from kafka_shim.trace.history import GroupHistory, History
from kafka_shim.why.explanation import as_json, explain
from kafka_shim.why.pages import PAGES, page_of
from kafka_shim.why.remedies import Play
from kafka_shim.why.text import brief_line, lines, whole

NO_SUCH_GROUP: Final = 3
NOTHING_IN_RANGE: Final = 4


class Moment(ParamType[float]):
    """A wall-clock time (`14:02`, `2026-11-22 14:02:07`) or a duration before now (`10m`, `2h`, `90s`); seconds of Unix
    time.
    """

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the value. Raises click.BadParameter."""
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
            self.fail(
                f"{text!r} is not a time: write 14:02, 2026-11-22T14:02:07, or 10m for ten minutes ago.", param, ctx
            )


@click.command("why")
@click.argument("group", required=False)
@click.argument("traces", nargs=-1, type=click.Path(path_type=Path, allow_dash=True))
@control_option
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="PATH",
    help="Read the log of a broker or a client in place of a trace: a file, a folder, a pattern, - for standard input;"
    " repeatable.",
)
@zone_option
@kafka_options
@offsets_option
@click.option("--follow", is_flag=True, help="With --kafka: go on with each rebalance as it happens, until Ctrl-C.")
@click.option("--since", type=Moment(), help="From this time on: 14:02, an ISO time, or 10m for ten minutes ago.")
@click.option("--until", type=Moment(), help="Leave out the events after this time.")
@click.option("--last", type=Whole(1), help="Show the last N rebalances in full.")
@click.option("--brief", is_flag=True, help="One line for each rebalance.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON.")
@click.option("--utc", is_flag=True, help="Show times in UTC.")
@click.option(
    "--no-replay",
    is_flag=True,
    help="Do not try each proposed setting on the simulator: quicker, and without its effect.",
)
@click.option("--explain", "cause", metavar="CAUSE", help="Explain a cause or a finding, with an example.")
@reads_files
def why(
    group: str | None,
    traces: Sequence[Path],
    control: str | None,
    logs: Sequence[str],
    log_zone: tzinfo,
    kafka: Sequence[tuple[str, int]] | None,
    command_config: Path | None,
    segments: Sequence[str],
    follow: bool,
    since: float | None,
    until: float | None,
    last: int | None,
    brief: bool,
    as_json_: bool,
    utc: bool,
    no_replay: bool,
    cause: str | None,
) -> None:
    """Explain why GROUP rebalanced, from TRACES (`-` is standard input; .gz and .zst too) or from a running server.

    An only group needs no name. Without traces or a server it reads trace.jsonl in the current folder, or asks the
    control server. Where nothing of ours ran, --log reads logs, --kafka and --offsets read __consumer_offsets, and
    together they show more; then, without GROUP, it lists the groups that rebalanced, the sickest first.
    """
    if cause is not None:
        _explain_cause(cause)
        return
    if group is not None and (group == "-" or os.path.isfile(group)):
        # A trace may come first if its only group needs no name.
        traces = (Path(group), *traces)
        group = None
    if follow and (not kafka or group is None or logs or as_json_):
        raise click.UsageError("--follow needs a GROUP and --kafka, and neither --log nor --json.")
    source = _source(group, traces, logs, log_zone, kafka, command_config, segments)
    history, missing = History(), Missing()
    for event in limits_of_server(traces, control) if source is None else ():
        history.add(event)
    for event in events_of(traces, control, group=group, missing=missing) if source is None else source.events():
        history.add(event)
    if source is not None:
        source.finish(history)
    name = source_name(traces, control) if source is None else source.name
    if source is not None and not source.groups and not history.groups:
        stop(source.silence, NO_SUCH_GROUP)
    if group is None:
        if source is not None and len(history.groups) > 1:
            list_groups(history, as_json=as_json_)
            source.report()
            return
        group = _only(list(history.groups or (source.groups if isinstance(source, Logs) else ())), name, missing)
    if isinstance(source, Logs) and group in source.groups and group not in history.groups:
        stop(source.scantiness(group), NOTHING_IN_RANGE)
    group_history = history.groups.get(group)
    if group_history is None:
        # Standard input cannot be read a second time.
        others = [] if Path("-") in traces or source is not None else _groups(traces, control)
        others = others if source is None else source.groups
        if source is not None and source.has_offsets_alone(group):
            stop(f"{_no_members(group, source.name)}", NOTHING_IN_RANGE)
        stop(f"There is no group {group} in {name}{_but(missing)}.{_hint(group, others)}", NO_SUCH_GROUP)
    missing.oldest = group_history.missing.oldest
    group_history.missing = missing
    chosen = [
        each
        for each in group_history.rebalances
        if (since is None or each.started >= since) and (until is None or each.started <= until)
    ]
    explanation = None
    if chosen or (since is None and until is None):
        explanation = explain(group_history, chosen, None if no_replay else remedies_play())
    if explanation is None:
        stop(f"{_nothing(group_history)[:-1]}{_but(missing)}.", NOTHING_IN_RANGE)
    if as_json_:
        click.echo(json.dumps(as_json(explanation), indent=1))
        if source is not None:
            source.report()
        return
    zone = zone_of(utc)
    bars = sys.stdout.isatty() or "COLUMNS" in os.environ
    if last:
        text = whole(explanation, last, bars=bars, zone=zone)
    else:
        text = lines(explanation, bars=bars, brief=brief, zone=zone)
    for line in text:
        click.echo(line)
    if source is not None:
        source.report()
    if follow and isinstance(source, Topic):
        _follow(source, history, group, zone)


def _source(
    group: str | None,
    traces: Sequence[Path],
    logs: Sequence[str],
    zone: tzinfo,
    kafka: Sequence[tuple[str, int]] | None,
    command_config: Path | None,
    segments: Sequence[str],
) -> Logs | Topic | Both | None:
    """Return the source of events where nothing of ours ran; None if that is a trace or a server."""
    # A shell expands a pattern after --log or --offsets to several paths.
    more = [str(each) for each in traces] if logs or segments else []
    folders = [each for each in more if segments and (not logs or Path(each).is_dir())]
    topic = None
    if kafka or segments or command_config is not None:
        if traces and not more:
            raise click.UsageError("Name traces, or a cluster with --kafka, not both.")
        topic = Topic(kafka, command_config, [*segments, *folders], group)
    if not logs:
        return topic
    of_logs = Logs([*logs, *(each for each in more if each not in folders)], zone, group)
    return of_logs if topic is None else Both(of_logs, topic)


def _follow(source: Topic, history: History, group: str, zone: tzinfo) -> None:
    """Print each rebalance as it happens, until Ctrl-C."""
    count = len(history.groups[group].rebalances)
    click.echo(f"Following {source.name}; Ctrl-C ends it.", err=True)
    try:
        for event in source.following():
            history.add(event)
            group_history = history.groups[group]
            rebalances = list(group_history.rebalances)
            if len(rebalances) <= count or rebalances[-1].over is None:
                continue
            count = len(rebalances)
            explanation = explain(group_history, rebalances)
            if explanation is not None:
                click.echo(brief_line(explanation, rebalances[-1], zone))
                sys.stdout.flush()
    except KeyboardInterrupt:
        source.close()


def _no_members(group: str, place: str) -> str:
    return (
        f"{group} has committed offsets in {place}, but no record of members: its consumers assign partitions by"
        " themselves, or the group was empty for long and compaction removed its records."
    )


def remedies_play() -> Play:
    """Return the function that simulates a group's past."""
    # The simulator takes a fifth of a second to import; commands that only print a trace do not need it.
    from kafka_shim.lab.replaying import play

    return play


def zone_of(utc: bool) -> tzinfo:
    """Return the zone of printed times: UTC, or that of this machine."""
    zone = UTC if utc else datetime.now().astimezone().tzinfo
    assert zone is not None
    return zone


def stop(sentence: str, code: int) -> NoReturn:
    """Print a sentence on standard error and exit with this code."""
    click.echo(readable(f"kafka-shim: {sentence}", LONGEST_LINE), err=True)
    sys.exit(code)


def _groups(traces: Sequence[Path], control: str | None) -> list[str]:
    """Return the names of all groups."""
    events = events_of(traces, control, missing=Missing())
    return list(dict.fromkeys(event["group"] for event in events if event.get("group")))


def _but(missing: Missing) -> str:
    """Return a clause about the gaps of traces; empty without any."""
    return f", but {', and '.join(missing.sentences)}" if missing.sentences else ""


def _only(groups: Sequence[str], source: str, missing: Missing) -> str:
    """Return the only group; print a sentence and exit if there is not exactly one."""
    if len(groups) == 1:
        return groups[0]
    if not groups:
        stop(f"There is no group in {source}{_but(missing)}.", NO_SUCH_GROUP)
    raise click.UsageError(f"Name a group: {listing_of(groups)}.")


def _hint(name: str, groups: Sequence[str]) -> str:
    """Return a sentence about the groups that are there: the one with a similar name, or the first."""
    similar = get_close_matches(name, groups, n=1)
    if similar:
        return f" Did you mean {readable(similar[0])}?"
    return f" Groups are {listing_of(groups)}." if groups else ""


def _nothing(history: GroupHistory) -> str:
    if not history.rebalances and history.is_of_topic:
        newest = datetime.fromtimestamp(history.last)
        return (
            f"No rebalance of {history.group} shows: its records are of generation or epoch {history.generation} alone,"
            f" at {newest:%Y-%m-%d %H:%M:%S}; if there were some before, compaction has removed them."
        )
    if not history.rebalances:
        count = len(ends_of(history))
        if history.is_of_log and count:
            ends = "1 member left or expired" if count == 1 else f"{count} members left or expired"
            return f"{ends} in {history.group}, but the lines of the rebalance are not there: {ALL_LINES}."
        if history.is_of_log:
            return (
                f"The lines about {history.group} show no rebalance. That does not say that it had none: add more of"
                " the log, and the logs of its members."
            )
        return _did_not(history, "")
    first, last = (datetime.fromtimestamp(each.started) for each in (history.rebalances[0], history.rebalances[-1]))
    return (
        f"{_did_not(history, ' in that time')[:-1]}; its {len(history.rebalances)} rebalances are between"
        f" {first:%Y-%m-%d %H:%M:%S} and {last + timedelta(seconds=1):%Y-%m-%d %H:%M:%S}."
    )


def _did_not(history: GroupHistory, when: str) -> str:
    """Return the sentence for a group without rebalances at some time: that it had none, if no event is missing."""
    if history.missing.has_gaps:
        return f"No rebalance of {history.group}{when} shows."
    return f"{history.group} did not rebalance{when}."


def _explain_cause(name: str) -> None:
    code = name.upper().replace("-", "_")
    if code not in PAGES:
        similar = get_close_matches(code, PAGES, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else f"; causes are {', '.join(PAGES)}."
        raise click.ClickException(f"{readable(name)} is not a cause{hint}")
    for line in page_of(code):
        click.echo(line)
