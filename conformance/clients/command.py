"""`--client`: runs the client cases with one client or all, on the console and in files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kafka_shim.conformance.clients import report
from kafka_shim.conformance.clients.adapter import AdapterError, clients_of
from kafka_shim.conformance.clients.case import ClientCase
from kafka_shim.conformance.clients.catalogue import select_client_cases, select_clients
from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT, Client
from kafka_shim.conformance.clients.expected import EXPECT, Expectations
from kafka_shim.conformance.clients.runner import ClientResult, ClientRun
from kafka_shim.conformance.clients.runner import run as run_cases
from kafka_shim.conformance.table import print_table
from kafka_shim.conformance.targets import Target, TargetError, open_target
from kafka_shim.conformance.verdict import Verdict

CLIENTS_AT_A_TIME: Final = 3
"""Every case starts processes; more of them at a time only delay each other."""

_PRINTED_VIOLATIONS: Final = 20


@dataclass(frozen=True)
class Choice:
    """The options of a run of client cases."""

    target: str
    client: str
    adapter: str
    baselines: tuple[Path, ...]
    patterns: tuple[str, ...]
    level: str
    listing: bool
    dry_run: bool
    jobs: int
    repeat: int
    json_path: Path | None
    junit_path: Path | None
    html_path: Path | None
    evidence: Path | None


def run(console: Console, choice: Choice) -> int:
    """Run client cases and print the results; return the exit code."""
    try:
        clients = clients_of(choice.adapter) if choice.adapter else select_clients(EVERY_CLIENT, choice.client)
    except AdapterError as error:
        raise click.UsageError(str(error)) from error
    if not clients:
        raise click.UsageError(f"there is no client {choice.client}; the clients are {', '.join(EVERY_CLIENT)}")
    protocols = {client.protocol for client in clients}
    cases = [each for each in select_client_cases(choice.patterns, choice.level) if each.protocol in protocols]
    if not cases:
        raise click.UsageError("no client case matches")
    if choice.listing:
        print_cases(console, cases)
        return 0
    if choice.dry_run:
        for client in clients:
            for case in cases:
                if case.protocol == client.protocol:
                    click.echo(f"{case.id} {client.name}")
        return 0
    if len(choice.baselines) > 1:
        raise click.UsageError("clients have one --baseline: their known failures")
    path = choice.baselines[0] if choice.baselines else None if choice.adapter else EXPECT
    try:
        expectations = Expectations.read(path) if path else Expectations({})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{path} is not a baseline for clients: {error!r}") from error
    try:
        finished = run_with_progress(console, open_target(choice.target), cases, clients, expectations, choice)
    except TargetError as error:
        click.echo(f"cannot use the target: {error}", err=True)
        return 2
    if choice.json_path:
        report.write_json(finished, expectations, choice.json_path)
    if choice.junit_path:
        report.write_junit(finished, expectations, choice.junit_path)
    if choice.html_path:
        report.write_html(finished, expectations, choice.html_path)
    if choice.evidence:
        report.write_evidence(finished, expectations, choice.evidence)
    return print_summary(console, finished, expectations)


def run_with_progress(
    console: Console,
    target: Target,
    cases: list[ClientCase],
    clients: list[Client],
    expectations: Expectations,
    choice: Choice,
) -> ClientRun:
    """Run with a progress bar; print unexpected results as they come."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"clients against {target.name}", total=None)

        def finished(result: ClientResult) -> None:
            progress.advance(task)
            surprise = expectations.surprise(result)
            if surprise is not None:
                reason = result.reason.partition("\n")[0] or surprise
                line = f"{result.verdict} {result.case.id} {result.client.name}  {escape(reason)}"
                progress.console.print(line, soft_wrap=True)

        return run_cases(
            target,
            cases,
            clients,
            jobs=min(choice.jobs, CLIENTS_AT_A_TIME),
            turns=choice.repeat,
            planned=lambda cells: progress.update(task, total=cells),
            finished=finished,
        )


def print_cases(console: Console, cases: list[ClientCase]) -> None:
    """Print the cases."""
    rows = [
        (each.id, each.protocol, each.level.value, ", ".join(sorted(each.needs)), each.title, each.source)
        for each in cases
    ]
    print_table(console, ("case", "protocol", "level", "needs", "requirement", "source"), rows)
    click.echo(f"{len(rows)} cases")


def print_summary(console: Console, run: ClientRun, expectations: Expectations) -> int:
    """Print the summary, clients by verdicts; return the exit code."""
    counts: dict[str, Counter[Verdict]] = {}
    for each in run.results:
        counts.setdefault(each.client.name, Counter())[each.verdict] += 1
    seen = [verdict for verdict in Verdict if any(by_verdict[verdict] for by_verdict in counts.values())]
    console.print(escape(f"{run.target}: {run.description}"), soft_wrap=True)
    rows = [[client, *[str(by_verdict[verdict] or "") for verdict in seen]] for client, by_verdict in counts.items()]
    print_table(console, ("client", *seen), rows)
    for each in run.results:
        if each.verdict not in (Verdict.PASS, Verdict.SKIP, Verdict.UNIMPLEMENTED):
            why = expectations.reason(each)
            reason = f"known: {why}" if why else each.reason.partition("\n")[0]
            console.print(f"{each.verdict} {each.case.id} {each.client.name}  {escape(reason)}", soft_wrap=True)
    for client, why in run.missing.items():
        console.print(f"{client} was skipped: {escape(why)}", soft_wrap=True)
    others = sorted({each.target for each in run.results} - {run.target})
    for other in others:
        console.print(f"the consumer protocol ran on {other}: {run.target} does not serve it")
    unexpected = [each for each in run.results if expectations.surprise(each) is not None]
    console.print(f"{len(run.results)} cells, {len(unexpected)} not as expected, {run.seconds:.1f} s")
    summary = (
        "every invariant holds in the trace" if not run.violations else f"{len(run.violations)} invariants violated"
    )
    console.print(summary if run.target.startswith("shim") else "the target writes no trace to check invariants in")
    for violation in run.violations[:_PRINTED_VIOLATIONS]:
        console.print(f"[red]violated[/] {escape(violation)}", soft_wrap=True)
    if any(each.verdict is Verdict.HARNESS_ERROR for each in run.results):
        return 2
    return 1 if unexpected or run.violations else 0
