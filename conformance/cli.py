"""The command line of the suite: `kafka-shim conformance`, or `python -m kafka_shim.conformance`.

Checks the combination of options, runs, and writes the reports. Exit code 0: every cell as expected; 1: some are not;
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

from kafka_shim.apis.releases import RELEASES
from kafka_shim.conformance import processes
from kafka_shim.conformance.baseline import ENDINGS, Baseline, write_baseline
from kafka_shim.conformance.broker_options import context_of, sasl_options, tls_options
from kafka_shim.conformance.case import Case
from kafka_shim.conformance.cells import Selection, all_cases
from kafka_shim.conformance.clients import command as clients_command
from kafka_shim.conformance.clients.template import template
from kafka_shim.conformance.differential import command as differential_command
from kafka_shim.conformance.differential.script import PROTOCOLS
from kafka_shim.conformance.expect import Expectations
from kafka_shim.conformance.matrix.command import matrix
from kafka_shim.conformance.peer import OLDEST
from kafka_shim.conformance.record import Record
from kafka_shim.conformance.report import evidence as evidence_report
from kafka_shim.conformance.report.assessment import Assessment
from kafka_shim.conformance.report.console import print_run
from kafka_shim.conformance.report.files import write_badge, write_json, write_junit
from kafka_shim.conformance.report.html import write_html
from kafka_shim.conformance.runner import Result, Run, Runner
from kafka_shim.conformance.secure import secure_of
from kafka_shim.conformance.table import print_table
from kafka_shim.conformance.targets import ForeignTarget, Target, TargetError, open_target
from kafka_shim.conformance.targets.base import PROFILES
from kafka_shim.conformance.targets.capabilities import CAPABILITIES, advice
from kafka_shim.conformance.targets.foreign import KINDS, Place, place_of


class OutputFile(click.Path):
    """The path of an output file. Its folder is created before the run, so that a wrong path does not cost the run."""

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
    """The place of a profile: `NAME=HOST:PORT[,HOST:PORT]` or `NAME=COMMAND`."""

    name = "place"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        profile, equals, place = str(value).partition("=")
        if not equals or profile not in PROFILES:
            self.fail(f"{value} is not NAME=PLACE with a NAME of {', '.join(PROFILES)}", param, ctx)
        return profile, place_of(place)


class BaselineOutput(OutputFile):
    """The path of a baseline to write."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).endswith(ENDINGS):
            self.fail(f"the name must end with {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}", param, ctx)
        return super().convert(value, param, ctx)


OUTPUT: Final = OutputFile(dir_okay=False, writable=True, path_type=Path)
COUNT: Final = click.IntRange(min=1)

_KINDS: Final = {"consumer groups (KIP-848)": "ConsumerGroupHeartbeat", "transactions": "TxnOffsetCommit"}
_SECURE: Final = ("tls_ca", "tls_cert", "tls_key", "sasl", "sasl_password_file")
_FOREIGN: Final = frozenset({"start", "places", "capabilities", "client_id", *_SECURE})
_UNUSED: Final[Mapping[str, frozenset[str]]] = {
    "--client": frozenset(
        {"against", "scripts", "kinds", "badge_path", "rules", "seed", "written_baselines"} | _FOREIGN
    ),
    "--against": frozenset(
        {"client", "patterns", "level", "listing", "dry_run", "junit_path", "html_path", "badge_path"}
        | {"evidence_folder", "repeat", "rules", "baselines", "written_baselines", "adapter"}
        | _FOREIGN
    ),
    "server cases": frozenset({"scripts", "kinds"}),
}
"""The options without a meaning, for each of the three kinds of run."""


class Suite(click.Group):
    """A command group that exits with 2 when the suite itself fails."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception:
            traceback.print_exc()
            sys.exit(2)


def refuse_unused(context: click.Context, clients: bool, differential: bool) -> None:
    """Refuse options without an effect in this kind of run."""
    mode = "--client" if clients else "--against" if differential else "server cases"
    set_options = {
        name for name in _UNUSED[mode] if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }
    unused = [each.opts[0] for each in context.command.params if each.name in set_options]
    if unused:
        raise click.UsageError(f"{', '.join(unused)} has no effect with {mode}")


def refuse_json(_: click.Context, __: click.Parameter, path: str | None) -> None:
    """Name the option that replaced `--json FILE`, which is a flag in all other commands."""
    if path is not None:
        raise click.UsageError(f"--results {path} writes the run as JSON; --json takes no file")


@click.group(cls=Suite, invoke_without_command=True)
@click.option(
    "--target",
    default="shim",
    show_default=True,
    help=f"{KINDS}.",
)
@click.option(
    "--start-command", "start", metavar="COMMAND", default="", help="Command that starts the target on port {port}."
)
@click.option(
    "--profile",
    "places",
    multiple=True,
    type=PlaceOption(),
    metavar="NAME=PLACE",
    help="The target with other settings: addresses, or a command that starts it; may be repeated.",
)
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    type=click.Choice(list(CAPABILITIES)),
    help="Declare a capability that the suite cannot detect; may be repeated.",
)
@click.option("--client-id", default="", help="Client id of the suite's connections.")
@tls_options
@sasl_options
@click.option(
    "--case",
    "patterns",
    multiple=True,
    metavar="GLOB",
    help="Run only matching cases (ID) or cells (ID@VERSION); may be repeated.",
)
@click.option(
    "--level",
    type=click.Choice(["must", "should", "all"]),
    default="all",
    show_default=True,
    help="The cases to run: 'must' alone, 'should' with 'must', or all.",
)
@click.option("--list", "listing", is_flag=True, help="List the cases and end.")
@click.option("--dry-run", is_flag=True, help="Start the target, list the cells that would run, and end.")
@click.option("--results", "json_path", type=OUTPUT, help="Write the run as JSON.")
@click.option("--json", expose_value=False, hidden=True, callback=refuse_json)
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
    "--baseline",
    "baselines",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare with this file: known failures, the JSON of an earlier run, or answers of another target than Apache "
    "Kafka 4.2; may be repeated.",
)
@click.option(
    "--write-baseline",
    "written_baselines",
    multiple=True,
    type=BaselineOutput(dir_okay=False, writable=True, path_type=Path),
    help="Write a file for --baseline: known failures (.toml), verdicts (.json) or all answers (.json.gz); may be "
    "repeated.",
)
@click.option(
    "--repeat",
    type=COUNT,
    metavar="NUMBER",
    default=1,
    show_default=True,
    help="Run each case this many times, in each version of its API.",
)
@click.option(
    "--rules",
    type=click.Choice(RELEASES[RELEASES.index(OLDEST) :]),
    help="Judge by the rules of this release of Kafka; by default those of the newest with the target's versions.",
)
@click.option("--seed", type=int, help="Shuffle the cells with this seed.")
@click.option(
    "--jobs",
    type=COUNT,
    metavar="NUMBER",
    default=16,
    show_default=True,
    help="Number of cases at a time; cases that only wait do not count.",
)
@click.option("--client", help="Run client cases instead of server cases: `all`, or names between commas.")
@click.option(
    "--adapter", metavar="COMMAND", default="", help="Run client cases with your own client, started by this command."
)
@click.option("--against", metavar="TARGET", help="Compare the target with this one by random scripts.")
@click.option(
    "--scripts", type=COUNT, metavar="NUMBER", default=200, show_default=True, help="Random scripts for --against."
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(PROTOCOLS),
    multiple=True,
    help="Kinds of groups in the scripts, by default all that both targets have.",
)
@click.pass_context
def cli(
    context: click.Context,
    target: str,
    start: str,
    places: tuple[tuple[str, Place], ...],
    capabilities: tuple[str, ...],
    client_id: str,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    sasl: str | None,
    sasl_password_file: Path | None,
    patterns: tuple[str, ...],
    level: str,
    listing: bool,
    dry_run: bool,
    json_path: Path | None,
    junit_path: Path | None,
    html_path: Path | None,
    badge_path: Path | None,
    evidence_folder: Path | None,
    baselines: tuple[Path, ...],
    written_baselines: tuple[Path, ...],
    repeat: int,
    rules: str | None,
    seed: int | None,
    jobs: int,
    client: str | None,
    adapter: str,
    against: str | None,
    scripts: int,
    kinds: tuple[str, ...],
) -> None:
    """Check a group coordinator, case by case, over the wire."""
    if threading.current_thread() is threading.main_thread():
        context.with_resource(processes.broken_off_on_signals())
    if context.invoked_subcommand is not None:
        return
    if client is not None and adapter:
        raise click.UsageError("--client and --adapter exclude each other")
    refuse_unused(context, client is not None or bool(adapter), against is not None)
    console = Console()
    if client is not None or adapter:
        choice = clients_command.Choice(
            target=target,
            client=client or "",
            adapter=adapter,
            baselines=baselines,
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
        sys.exit(differential_command.run(console, target, against, scripts, seed, jobs, json_path, kinds))
    selection = Selection(patterns, level)
    cases = selection.cases(all_cases())
    if not cases:
        raise click.UsageError("No case matches; --list shows all.")
    if listing:
        list_cases(console, cases)
        return
    try:
        baseline = Baseline.read(baselines)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        if start and context.get_parameter_source("target") is click.core.ParameterSource.DEFAULT:
            target = ""
        secure = secure_of(context_of(tls_ca, tls_cert, tls_key), sasl, sasl_password_file)
        chosen = open_target(
            target, start=start, places=dict(places), capabilities=capabilities, client_id=client_id, secure=secure
        )
        expected = baseline.expected or expectations_of(chosen)
        runner = Runner(chosen, jobs=jobs, turns=repeat, seed=seed, selection=selection, release=rules or "")
        if dry_run:
            for cell in runner.plan(cases):
                click.echo(cell.name)
            return
        run = run_with_progress(console, runner, cases, expected)
    except TargetError as error:
        click.echo(f"kafka-shim: The target cannot be used: {error}.", err=True)
        sys.exit(2)
    assessment = Assessment(run, expected, baseline.reference or Record.of_kafka(run.release), command_of(context))
    if json_path:
        write_json(assessment, json_path)
    if junit_path:
        write_junit(assessment, junit_path)
    if html_path:
        write_html(assessment, html_path)
    if badge_path:
        write_badge(run, badge_path)
    for path in written_baselines:
        write_baseline(assessment, path)
    if evidence_folder:
        evidence_report.write(assessment, evidence_folder)
    sys.exit(print_run(console, assessment))


cli.add_command(matrix)
cli.add_command(template)


def command_of(context: click.Context) -> list[str]:
    """Return the command that started this run, without the options for cases and reports."""
    command = ["kafka-shim", "conformance"]
    for name in ("target", "start", "places", "capabilities", "client_id", *_SECURE, "rules"):
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        option = next(each for each in context.command.params if each.name == name)
        value = context.params[name]
        for each in value if isinstance(value, tuple) else (value,):
            command += [option.opts[0], f"{each[0]}={each[1]}" if isinstance(each, tuple) else str(each)]
    return command


def expectations_of(target: Target) -> Expectations:
    """Return the expectations in this package; none for a foreign target of any name."""
    if isinstance(target, ForeignTarget):
        path = target.declaration.baseline
        try:
            return Baseline.read([path] if path else []).expected or Expectations([], complete=False)
        except (OSError, ValueError) as error:
            raise TargetError(str(error)) from error
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


def run_with_progress(console: Console, runner: Runner, cases: list[Case], expectations: Expectations) -> Run:
    """Run with a progress bar that counts unexpected results; a second run of a cell may still change them."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"starting {runner.target.name}", total=None)
        surprises: Counter[str] = Counter()

        def planned(cells: int) -> None:
            progress.update(task, total=cells, description=runner.target.name)
            for line in introduction(runner):
                progress.console.print(line, soft_wrap=True, markup=False, highlight=False)

        def is_unexpected(result: Result) -> bool:
            return expectations.surprise(result.cell.case.id, result.cell.version, result.verdict) is not None

        def finished(result: Result) -> None:
            surprises["seen"] += is_unexpected(result)
            description = (
                f"{runner.target.name}, {surprises['seen']} unexpected" if surprises["seen"] else runner.target.name
            )
            progress.update(task, advance=1, description=description)

        return runner.run(cases, planned, finished, is_unexpected)


def introduction(runner: Runner) -> list[str]:
    """Describe a foreign target before the first cell runs: brokers, capabilities, and advice on settings."""
    peer = runner.peers.of("default")
    if peer is None or not isinstance(runner.target, ForeignTarget):
        return []
    brokers = len(peer.routes.brokers)
    can = [name for name in CAPABILITIES if name in peer.instance.capabilities]
    can += [name for name, api in _KINDS.items() if peer.offers(api)]
    count = f"{brokers} broker{'s' * (brokers != 1)}"
    lines = [f"{runner.target.name}: {count}; found {', '.join(can) or 'no optional capability'}"]
    hint = advice(peer.limits)
    return lines + ([hint] if hint else [])


if __name__ == "__main__":
    cli()
