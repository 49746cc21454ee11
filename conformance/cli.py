"""The command line of the suite: `kafka-shim conformance`, or `python -m conformance`.

Exit code 0: every cell as expected; 1: some are not; 2: the suite itself failed.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from conformance.case import Case, Verdict, all_cases, select
from conformance.clients import command as clients_command
from conformance.differential import command as differential_command
from conformance.expect import Expectations
from conformance.invariants import tell_violations
from conformance.matrix.command import matrix
from conformance.report import evidence as evidence_report
from conformance.report.files import write_badge, write_json, write_junit
from conformance.report.html import write_html
from conformance.runner import Result, Run, Runner
from conformance.targets import TargetError, open_target

_COLOURS = {
    Verdict.PASS: "green",
    Verdict.FAIL: "red",
    Verdict.TIMEOUT: "red",
    Verdict.DECLARED_NOT_SERVED: "red",
    Verdict.NON_STRICT: "yellow",
    Verdict.HARNESS_ERROR: "magenta",
}


@click.group(invoke_without_command=True)
@click.option(
    "--target",
    default="shim",
    show_default=True,
    help="shim[:STORE], kafka[:VERSION], kfake, rdkafka-mock or HOST:PORT.",
)
@click.option("--case", "patterns", multiple=True, metavar="GLOB", help="Only cases whose id matches; may be repeated.")
@click.option("--level", type=click.Choice(["must", "should", "all"]), default="all", show_default=True)
@click.option("--list", "listing", is_flag=True, help="List the cases and end.")
@click.option("--dry-run", is_flag=True, help="Start the target, list the cells that would run, and end.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the run as JSON.")
@click.option("--junit", "junit_path", type=click.Path(path_type=Path), help="Write the run as JUnit XML.")
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="Write the run as one HTML page.")
@click.option("--badge", "badge_path", type=click.Path(path_type=Path), help="Write a shields endpoint badge.")
@click.option(
    "--evidence", "evidence_folder", type=click.Path(path_type=Path), help="Write the frames of failed cells."
)
@click.option("--expect", "expect_path", type=click.Path(exists=True, path_type=Path), help="Expectations to use.")
@click.option("--repeat", default=1, show_default=True, help="Run every cell so many times.")
@click.option("--seed", type=int, help="Shuffle the cells with this seed.")
@click.option("--jobs", default=16, show_default=True, help="Cells that run at a time.")
@click.option("--client", help="Client cases with all clients, or with those named, instead of server cases.")
@click.option("--against", metavar="TARGET", help="Compare the target with this one, by random scripts.")
@click.option("--scripts", default=200, show_default=True, help="How many scripts to compare two targets with.")
@click.pass_context
def cli(
    context: click.Context,
    target: str,
    patterns: tuple[str, ...],
    level: str,
    listing: bool,
    dry_run: bool,
    json_path: Path | None,
    junit_path: Path | None,
    html_path: Path | None,
    badge_path: Path | None,
    evidence_folder: Path | None,
    expect_path: Path | None,
    repeat: int,
    seed: int | None,
    jobs: int,
    client: str | None,
    against: str | None,
    scripts: int,
) -> None:
    """Check a group coordinator, case by case, over the wire."""
    if threading.current_thread() is threading.main_thread():
        # Leave through the clean-up, so that no target is left behind.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(2))
    if context.invoked_subcommand is not None:
        return
    console = Console()
    if client is not None:
        choice = clients_command.Choice(
            target=target,
            client=client,
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
    cases = select(all_cases(), patterns, level)
    if not cases:
        raise click.UsageError("no case matches")
    if listing:
        list_cases(console, cases)
        return
    try:
        chosen = open_target(target)
        expectations = Expectations.read(expect_path) if expect_path else Expectations.of_target(chosen.name)
        runner = Runner(chosen, jobs=jobs, turns=repeat, seed=seed)
        if dry_run:
            for cell in runner.plan(cases):
                click.echo(cell.name)
            return
        run = watched(console, runner, cases, expectations)
    except TargetError as error:
        click.echo(f"the target could not be had: {error}", err=True)
        sys.exit(2)
    if json_path:
        write_json(run, expectations, json_path)
    if junit_path:
        write_junit(run, expectations, junit_path)
    if html_path:
        write_html(run, expectations, html_path)
    if badge_path:
        write_badge(run, badge_path)
    if evidence_folder:
        evidence_report.write(run, evidence_folder)
    sys.exit(tell(console, run, expectations))


cli.add_command(matrix)


def list_cases(console: Console, cases: Sequence[Case]) -> None:
    """Print the cases."""
    table = Table("case", "level", "versions", "requirement", "source", box=None)
    for case in cases:
        versions = (
            ""
            if case.api is None
            else f"{case.api} " + ("all" if case.versions is None else "{}-{}".format(*case.versions))
        )
        table.add_row(case.id, case.level, versions, escape(case.title), escape(case.source))
    console.print(table)
    console.print(f"{len(cases)} cases")


def watched(console: Console, runner: Runner, cases: list[Case], expectations: Expectations) -> Run:
    """Run with a progress bar, telling surprises as they come."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"starting {runner.target.name}", total=None)

        def planned(cells: int) -> None:
            progress.update(task, total=cells, description=runner.target.name)

        def finished(result: Result) -> None:
            progress.advance(task)
            surprise = expectations.surprise(result.cell.case.id, result.cell.version, result.verdict)
            if surprise is not None:
                colour = _COLOURS.get(result.verdict, "white")
                progress.console.print(
                    f"[{colour}]{result.verdict}[/] {escape(result.cell.name)}  {escape(result.reason)}", soft_wrap=True
                )

        return runner.run(cases, planned, finished)


def tell(console: Console, run: Run, expectations: Expectations) -> int:
    """Print the summary; the exit code."""
    areas: dict[str, Counter[Verdict]] = {}
    for result in run.results:
        areas.setdefault(result.cell.case.id.split("/")[0], Counter())[result.verdict] += 1
    seen = [verdict for verdict in Verdict if any(counts[verdict] for counts in areas.values())]
    table = Table("area", *seen, title=f"{run.target}: {run.description}", title_justify="left", box=None)
    for area, counts in sorted(areas.items()):
        table.add_row(area, *[str(counts[verdict] or "") for verdict in seen])
    console.print(table)
    surprises = [
        each
        for each in run.results
        if expectations.surprise(each.cell.case.id, each.cell.version, each.verdict) is not None
    ]
    cases = len({each.cell.case.id for each in run.results})
    console.print(f"{cases} cases, {len(run.results)} cells, {len(surprises)} not as expected, {run.seconds:.1f} s")
    tell_violations(console, run.violations)
    if any(each.verdict is Verdict.HARNESS_ERROR for each in run.results):
        return 2
    return 1 if surprises or run.violations else 0


if __name__ == "__main__":
    cli()
