"""The command line of the suite: `kafka-shim conformance`, or `python -m kafka_shim.conformance`.

Decides which options go together and what a run is started with. Exit code 0: every cell as expected; 1: some are not;
2: the suite itself failed.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kafka_shim.conformance import processes
from kafka_shim.conformance.case import Case
from kafka_shim.conformance.cells import Selection, all_cases
from kafka_shim.conformance.clients import command as clients_command
from kafka_shim.conformance.clients.template import template
from kafka_shim.conformance.differential import command as differential_command
from kafka_shim.conformance.expect import Expectations
from kafka_shim.conformance.matrix.command import matrix
from kafka_shim.conformance.plain import print_table
from kafka_shim.conformance.record import Record
from kafka_shim.conformance.report import evidence as evidence_report
from kafka_shim.conformance.report.console import tell
from kafka_shim.conformance.report.files import write_badge, write_expectations, write_json, write_junit
from kafka_shim.conformance.report.html import write_html
from kafka_shim.conformance.report.judged import Judged
from kafka_shim.conformance.runner import Result, Run, Runner
from kafka_shim.conformance.targets import ForeignTarget, Target, TargetError, open_target
from kafka_shim.conformance.targets.base import PROFILES
from kafka_shim.conformance.targets.capabilities import CAPABILITIES, advice
from kafka_shim.conformance.targets.foreign import KINDS, Place, place_of


class OutputFile(click.Path):
    """A file that will be written at the end: its folder is made at the beginning, so that no run is lost for it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.fail(f"{path} cannot be written: {error}", param, ctx)
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            self.fail(f"{path} cannot be written", param, ctx)
        return path


class PlaceOption(click.ParamType):  # type: ignore[type-arg]
    """`NAME=HOST:PORT[,HOST:PORT]` or `NAME=COMMAND`."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        profile, equals, place = str(value).partition("=")
        if not equals or profile not in PROFILES:
            self.fail(f"{value} is not NAME=PLACE with a NAME of {', '.join(PROFILES)}", param, ctx)
        return profile, place_of(place)


class PreviousRun(click.Path):
    """The JSON of an earlier run, as what is expected of this one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        try:
            return Expectations.of_run(path)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.fail(f"{path} is no run: {error!r}", param, ctx)


class RecordFile(click.Path):
    """A record of another target, read."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(str(super().convert(value, param, ctx)))
        try:
            return Record.read(path)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.fail(f"{path} is no record: {error!r}", param, ctx)


OUTPUT: Final = OutputFile(dir_okay=False, writable=True, path_type=Path)
COUNT: Final = click.IntRange(min=1)

_KINDS: Final = {"consumer groups (KIP-848)": "ConsumerGroupHeartbeat", "transactions": "TxnOffsetCommit"}
_SERVER: Final = frozenset({"previous", "expect_path", "record_path", "reference"})
_FOREIGN: Final = frozenset({"start", "places", "capabilities", "client_id"})
_UNUSED: Final[Mapping[str, frozenset[str]]] = {
    "--client": frozenset({"against", "scripts", "badge_path", "seed"} | _FOREIGN | _SERVER),
    "--against": frozenset(
        {"client", "patterns", "level", "listing", "dry_run", "junit_path", "html_path", "badge_path"}
        | {"evidence_folder", "repeat", "expect_file", "adapter"}
        | _SERVER
        | _FOREIGN
    ),
    "server cases": frozenset({"scripts"}),
}
"""Options that mean nothing in one of the three kinds of run."""


class Suite(click.Group):
    """A command whose own failure has another exit code, 2, than a target's."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception:
            traceback.print_exc()
            sys.exit(2)


def refuse_unused(context: click.Context, clients: bool, differential: bool) -> None:
    """Refuse options that would have no effect."""
    mode = "--client" if clients else "--against" if differential else "server cases"
    set_options = {
        name for name in _UNUSED[mode] if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    named = [each.opts[0] for each in context.command.params if each.name in set_options]
    if named:
        raise click.UsageError(f"{', '.join(named)} has no meaning with {mode}")


@click.group(cls=Suite, invoke_without_command=True)
@click.option(
    "--target",
    default="shim",
    show_default=True,
    help=f"{KINDS}.",
)
@click.option("--start-command", "start", metavar="COMMAND", default="", help="What starts the target, on port {port}.")
@click.option(
    "--profile",
    "places",
    multiple=True,
    type=PlaceOption(),
    metavar="NAME=PLACE",
    help="Where the target runs with other settings: addresses, or a command that starts it.",
)
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    type=click.Choice(list(CAPABILITIES)),
    help="What the target can do, where that cannot be found out; may be repeated.",
)
@click.option("--client-id", default="", help="The client id of the suite's connections.")
@click.option(
    "--case",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Only cases ID or cells ID@VERSION that match; may be repeated.",
)
@click.option("--level", type=click.Choice(["must", "should", "all"]), default="all", show_default=True)
@click.option("--list", "listing", is_flag=True, help="List the cases and end.")
@click.option("--dry-run", is_flag=True, help="Start the target, list the cells that would run, and end.")
@click.option("--json", "json_path", type=OUTPUT, help="Write the run as JSON.")
@click.option("--junit", "junit_path", type=OUTPUT, help="Write the run as JUnit XML.")
@click.option("--html", "html_path", type=OUTPUT, help="Write the run as one HTML page.")
@click.option("--badge", "badge_path", type=OUTPUT, help="Write a shields endpoint badge.")
@click.option(
    "--evidence",
    "evidence_folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the frames of failed cells into this folder.",
)
@click.option(
    "--expect",
    "expect_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What is expected, as in conformance/expect.",
)
@click.option(
    "--compare",
    "previous",
    type=PreviousRun(exists=True, dir_okay=False),
    help="The JSON of an earlier run: what came out otherwise is news, and nothing else.",
)
@click.option("--write-expect", "expect_path", type=OUTPUT, help="Write what fails now as a file for --expect.")
@click.option("--record", "record_path", type=OUTPUT, help="Write what the target answered, as a file for --reference.")
@click.option(
    "--reference",
    type=RecordFile(exists=True, dir_okay=False),
    help="The record to show differences from; that of Apache Kafka 4.2 by default.",
)
@click.option("--repeat", type=COUNT, default=1, show_default=True, help="Run every cell so many times.")
@click.option("--seed", type=int, help="Shuffle the cells with this seed.")
@click.option(
    "--jobs", type=COUNT, default=16, show_default=True, help="Cells that run at a time, beside those that only wait."
)
@click.option("--client", help="Client cases with all clients, or with those named, instead of server cases.")
@click.option("--adapter", metavar="COMMAND", default="", help="Client cases with a client of one's own.")
@click.option("--against", metavar="TARGET", help="Compare the target with this one, by random scripts.")
@click.option(
    "--scripts", type=COUNT, default=200, show_default=True, help="How many scripts to compare two targets with."
)
@click.pass_context
def cli(
    context: click.Context,
    target: str,
    start: str,
    places: tuple[tuple[str, Place], ...],
    capabilities: tuple[str, ...],
    client_id: str,
    patterns: tuple[str, ...],
    level: str,
    listing: bool,
    dry_run: bool,
    json_path: Path | None,
    junit_path: Path | None,
    html_path: Path | None,
    badge_path: Path | None,
    evidence_folder: Path | None,
    expect_file: Path | None,
    previous: Expectations | None,
    expect_path: Path | None,
    record_path: Path | None,
    reference: Record | None,
    repeat: int,
    seed: int | None,
    jobs: int,
    client: str | None,
    adapter: str,
    against: str | None,
    scripts: int,
) -> None:
    """Check a group coordinator, case by case, over the wire."""
    if threading.current_thread() is threading.main_thread():
        processes.break_off_on_signals()
    if context.invoked_subcommand is not None:
        return
    if client is not None and adapter:
        raise click.UsageError("--client and --adapter are two ways to say whom to try")
    refuse_unused(context, client is not None or bool(adapter), against is not None)
    console = Console()
    if client is not None or adapter:
        choice = clients_command.Choice(
            target=target,
            client=client or "",
            adapter=adapter,
            expect=expect_file,
            patterns=patterns,
            level=level,
            listing=listing,
            dry_run=dry_run,
            jobs=jobs,
            repeat=repeat,
            json_path=json_path,
            junit_path=junit_path,
            html_path=html_path,
            evidence=evidence_folder,
        )
        sys.exit(clients_command.run(console, choice))
    if against is not None:
        sys.exit(differential_command.run(console, target, against, scripts, seed, jobs, json_path))
    selection = Selection(patterns, level)
    cases = selection.cases(all_cases())
    if not cases:
        raise click.UsageError("no case matches")
    if listing:
        list_cases(console, cases)
        return
    try:
        if start and context.get_parameter_source("target") is click.core.ParameterSource.DEFAULT:
            target = ""
        chosen = open_target(target, start=start, places=dict(places), capabilities=capabilities, client_id=client_id)
        expected = expectations_in(expect_file) or previous or expectations_of(chosen)
        runner = Runner(chosen, jobs=jobs, turns=repeat, seed=seed, selection=selection)
        if dry_run:
            for cell in runner.plan(cases):
                click.echo(cell.name)
            return
        run = watched(console, runner, cases, expected)
    except TargetError as error:
        click.echo(f"the target could not be had: {error}", err=True)
        sys.exit(2)
    judged = Judged(run, expected, reference or Record.of_kafka(), command_of(context))
    if json_path:
        write_json(judged, json_path)
    if junit_path:
        write_junit(judged, junit_path)
    if html_path:
        write_html(judged, html_path)
    if badge_path:
        write_badge(run, badge_path)
    if record_path:
        Record(run.description, {each.cell.name: each.story for each in run.results}).write(record_path)
    if expect_path:
        write_expectations(judged, expect_path)
    if evidence_folder:
        evidence_report.write(judged, evidence_folder)
    sys.exit(tell(console, judged))


cli.add_command(matrix)
cli.add_command(template)


def command_of(context: click.Context) -> list[str]:
    """The command that started this run, without the choice of cases and the reports."""
    command = ["kafka-shim", "conformance"]
    for name in ("target", "start", "places", "capabilities", "client_id"):
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        option = next(each for each in context.command.params if each.name == name)
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            command += [option.opts[0], f"{each[0]}={each[1]}" if isinstance(each, tuple) else str(each)]
    return command


def expectations_in(path: Path | None) -> Expectations | None:
    """The expectations of a file, or None."""
    try:
        return None if path is None else Expectations.read(path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise click.UsageError(f"{path} says no expectations: {error!r}") from error


def expectations_of(target: Target) -> Expectations:
    """The expectations that come with this package; none for a target that somebody else started, whatever its name."""
    if isinstance(target, ForeignTarget):
        path = target.declaration.expect
        try:
            return Expectations.read(path) if path else Expectations([], complete=False)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TargetError(f"{path} says no expectations: {error!r}") from error
    return Expectations.of_target(target.name)


def list_cases(console: Console, cases: Sequence[Case]) -> None:
    """Print the cases."""
    rows = []
    for case in cases:
        versions = "all" if case.versions is None else "{}-{}".format(*case.versions)
        of = "" if case.api is None else f"{case.api} {versions}"
        rows.append((case.id, case.level.value, of, case.title, case.source))
    print_table(console, ("case", "level", "versions", "requirement", "source"), rows)
    click.echo(f"{len(rows)} cases")


def watched(console: Console, runner: Runner, cases: list[Case], expectations: Expectations) -> Run:
    """Run with a progress bar that counts surprises; what is run again may turn out as expected after all."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"starting {runner.target.name}", total=None)
        surprises: Counter[str] = Counter()

        def planned(cells: int) -> None:
            progress.update(task, total=cells, description=runner.target.name)
            for line in introduction(runner):
                progress.console.print(line, soft_wrap=True, markup=False, highlight=False)

        def is_news(result: Result) -> bool:
            return expectations.surprise(result.cell.case.id, result.cell.version, result.verdict) is not None

        def finished(result: Result) -> None:
            surprises["seen"] += is_news(result)
            description = (
                f"{runner.target.name}, {surprises['seen']} surprises" if surprises["seen"] else runner.target.name
            )
            progress.update(task, advance=1, description=description)

        return runner.run(cases, planned, finished, is_news)


def introduction(runner: Runner) -> list[str]:
    """What was found out about a target that is not ours, before any cell is run."""
    peer = runner.peers.of("default")
    if peer is None or not isinstance(runner.target, ForeignTarget):
        return []
    brokers = len(peer.routes.brokers)
    can = [name for name in CAPABILITIES if name in peer.instance.capabilities]
    can += [name for name, api in _KINDS.items() if peer.offers(api)]
    count = f"{brokers} broker{'s' * (brokers != 1)}"
    lines = [f"{runner.target.name}: {count}; found {', '.join(can) or 'nothing that only some targets can do'}"]
    hint = advice(peer.limits)
    return lines + ([hint] if hint else [])


if __name__ == "__main__":
    cli()
