"""`--client`: the client cases with one client or all, on the console and in files."""

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
from kafka_shim.conformance.clients.crew import EVERY_CLIENT, Client
from kafka_shim.conformance.clients.expected import Expectations
from kafka_shim.conformance.clients.runner import ClientResult, ClientRun
from kafka_shim.conformance.clients.runner import run as run_cases
from kafka_shim.conformance.plain import print_table
from kafka_shim.conformance.targets import Target, TargetError, open_target
from kafka_shim.conformance.verdict import Verdict

CLIENTS_AT_A_TIME: Final = 3
"""Every case starts processes; more of them at a time only make each other late."""

_VIOLATIONS_TOLD: Final = 20


@dataclass(frozen=True)
class Choice:
    """What the command line asks of a run of client cases."""

    target: str
    client: str
    adapter: str
    expect: Path | None
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
    """Run client cases and tell what came of them; the exit code."""
    try:
        clients = clients_of(choice.adapter) if choice.adapter else select_clients(EVERY_CLIENT, choice.client)
    except AdapterError as error:
        raise click.UsageError(str(error)) from error
    if not clients:
        raise click.UsageError(f"no client is called {choice.client}; there are {', '.join(EVERY_CLIENT)}")
    protocols = {client.protocol for client in clients}
    cases = [each for each in select_client_cases(choice.patterns, choice.level) if each.protocol in protocols]
    if not cases:
        raise click.UsageError("no client case matches")
    if choice.listing:
        tell_cases(console, cases)
        return 0
    if choice.dry_run:
        for client in clients:
            for case in cases:
                if case.protocol == client.protocol:
                    click.echo(f"{case.id} {client.name}")
        return 0
    try:
        expectations = (
            Expectations.read(choice.expect)
            if choice.expect
            else Expectations({})
            if choice.adapter
            else Expectations.read()
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{choice.expect} says no expectations of clients: {error!r}") from error
    try:
        finished = watched(console, open_target(choice.target), cases, clients, expectations, choice)
    except TargetError as error:
        click.echo(f"the target could not be had: {error}", err=True)
        return 2
    if choice.json_path:
        report.write_json(finished, expectations, choice.json_path)
    if choice.junit_path:
        report.write_junit(finished, expectations, choice.junit_path)
    if choice.html_path:
        report.write_html(finished, expectations, choice.html_path)
    if choice.evidence:
        report.write_evidence(finished, expectations, choice.evidence)
    return tell(console, finished, expectations)


def watched(
    console: Console,
    target: Target,
    cases: list[ClientCase],
    clients: list[Client],
    expectations: Expectations,
    choice: Choice,
) -> ClientRun:
    """Run with a progress bar, telling surprises as they come."""
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


def tell_cases(console: Console, cases: list[ClientCase]) -> None:
    """Print the cases."""
    rows = [
        (each.id, each.protocol, each.level.value, ", ".join(sorted(each.needs)), each.title, each.source)
        for each in cases
    ]
    print_table(console, ("case", "protocol", "level", "needs", "requirement", "source"), rows)
    click.echo(f"{len(rows)} cases")


def tell(console: Console, run: ClientRun, expectations: Expectations) -> int:
    """Print the summary, clients by verdicts; the exit code."""
    counts: dict[str, Counter[Verdict]] = {}
    for each in run.results:
        counts.setdefault(each.client.name, Counter())[each.verdict] += 1
    seen = [verdict for verdict in Verdict if any(found[verdict] for found in counts.values())]
    console.print(escape(f"{run.target}: {run.description}"), soft_wrap=True)
    rows = [[client, *[str(found[verdict] or "") for verdict in seen]] for client, found in counts.items()]
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
        console.print(f"the consumer protocol was tried on {other}: {run.target} does not serve it")
    surprises = [each for each in run.results if expectations.surprise(each) is not None]
    console.print(f"{len(run.results)} cells, {len(surprises)} not as expected, {run.seconds:.1f} s")
    summary = (
        "every invariant holds in the trace" if not run.violations else f"{len(run.violations)} invariants violated"
    )
    console.print(summary if run.target.startswith("shim") else "the target writes no trace to check invariants in")
    for violation in run.violations[:_VIOLATIONS_TOLD]:
        console.print(f"[red]violated[/] {escape(violation)}", soft_wrap=True)
    if any(each.verdict is Verdict.HARNESS_ERROR for each in run.results):
        return 2
    return 1 if surprises or run.violations else 0
