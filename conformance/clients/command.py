"""`--client`: the client cases with one client or all, told to a person and as JSON.

What clients are known to do wrong stands in `expect.toml` beside this module; a change in either direction is news.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from conformance.case import Verdict
from conformance.clients.case import ClientCase, all_client_cases, select_clients
from conformance.clients.crew import CLIENTS, OTHER_LANGUAGES
from conformance.clients.runner import ClientResult
from conformance.clients.runner import run as run_cases
from conformance.targets import TargetError, open_target

CLIENTS_AT_A_TIME: Final = 3
"""Every case starts processes; more of them at a time only make each other late."""

EXPECT: Final = Path(__file__).with_name("expect.toml")


def expected_failures() -> dict[tuple[str, str], dict[str, Any]]:
    """The known failures: what is said of each, by client and case."""
    with open(EXPECT, "rb") as file:
        told = tomllib.load(file)
    return {(each["client"], case): each for each in told["expected"] for case in each["cases"]}


def is_surprise(result: ClientResult, known: dict[tuple[str, str], dict[str, Any]]) -> bool:
    """Whether a result is not what was expected of the client."""
    failure = known.get((result.client.name, result.case.id))
    if result.verdict is Verdict.SKIP or (failure is not None and failure.get("sometimes")):
        return False
    return (result.verdict is Verdict.PASS) == (failure is not None)


def run(
    console: Console,
    target: str,
    spec: str,
    patterns: tuple[str, ...],
    listing: bool,
    jobs: int,
    json_path: Path | None,
    evidence: Path | None,
) -> int:
    """Run client cases and tell what came of them; the exit code."""
    cases = [each for each in all_client_cases() if not patterns or each.id in patterns]
    clients = select_clients(CLIENTS | OTHER_LANGUAGES, spec)
    if not cases or not clients:
        raise click.UsageError("no client case matches" if not cases else f"no client is called {spec}")
    if listing:
        tell_cases(console, cases)
        return 0
    known = expected_failures()

    def finished(result: ClientResult) -> None:
        if is_surprise(result, known):
            reason = result.reason.partition("\n")[0] if result.reason else "a known failure is gone"
            console.print(f"{result.verdict} {result.case.id} {result.client.name}  {escape(reason)}", soft_wrap=True)

    try:
        chosen = open_target(target)
        results = run_cases(chosen, cases, clients, jobs=min(jobs, CLIENTS_AT_A_TIME), finished=finished)
    except TargetError as error:
        click.echo(f"the target could not be had: {error}", err=True)
        return 2
    tell_matrix(console, results)
    if json_path:
        json_path.write_text(json.dumps(as_json(target, results), indent=1) + "\n")
    if evidence:
        write_evidence(results, evidence)
    if any(each.verdict is Verdict.HARNESS_ERROR for each in results):
        return 2
    return 1 if any(is_surprise(each, known) for each in results) else 0


def tell_cases(console: Console, cases: list[ClientCase]) -> None:
    """Print the cases."""
    table = Table("case", "needs", "requirement", "source", box=None)
    for case in cases:
        table.add_row(case.id, ", ".join(sorted(case.needs)), escape(case.title), escape(case.source))
    console.print(table)


def tell_matrix(console: Console, results: list[ClientResult]) -> None:
    """Print cases by clients."""
    clients = list(dict.fromkeys(each.client.name for each in results))
    by_cell = {(each.case.id, each.client.name): each.verdict for each in results}
    table = Table("case", *clients, box=None)
    for case in dict.fromkeys(each.case.id for each in results):
        table.add_row(case, *[str(by_cell[case, client]) for client in clients])
    console.print(table)


def as_json(target: str, results: list[ClientResult]) -> dict[str, object]:
    """Results for programs."""
    return {
        "target": target,
        "results": [
            {
                "case": each.case.id,
                "client": each.client.name,
                "verdict": each.verdict,
                "reason": each.reason.partition("\n")[0],
                "seconds": round(each.seconds, 2),
            }
            for each in results
        ],
    }


def write_evidence(results: list[ClientResult], folder: Path) -> None:
    """The frames of every case that did not pass."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in results:
        if each.verdict not in (Verdict.PASS, Verdict.SKIP):
            (folder / f"{each.case.id}-{each.client.name}.txt").write_text(f"{each.reason}\n\n{each.story}\n")
