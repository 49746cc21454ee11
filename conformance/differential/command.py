"""`--against`: compares two targets by random scripts, on the console and as JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kafka_shim.conformance.differential.run import Finding, Report
from kafka_shim.conformance.differential.run import run as run_scripts
from kafka_shim.conformance.differential.script import as_data
from kafka_shim.conformance.invariants import print_violations
from kafka_shim.conformance.targets import TargetError, open_target


def run(
    console: Console,
    first: str,
    second: str,
    scripts: int,
    seed: int | None,
    jobs: int,
    json_path: Path | None,
    kinds: Sequence[str] = (),
) -> int:
    """Compare two targets by scripts of these kinds of groups, without any of all that both have, and print their
    different answers; return the exit code."""
    seed = random.randrange(1_000_000) if seed is None else seed
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(f"{first} against {second}", total=scripts)
            report = run_scripts(
                (open_target(first), open_target(second)),
                scripts,
                seed=seed,
                jobs=jobs,
                kinds=kinds,
                on_script=lambda count: progress.advance(task, count),
                on_finding=lambda finding: print_finding(progress.console, first, second, finding),
            )
    except TargetError as error:
        click.echo(f"cannot use a target: {error}", err=True)
        return 2
    console.print(
        f"{report.scripts} scripts (seed {seed}), {report.steps} steps compared, {len(report.findings)} differences, "
        f"{report.undetermined} scripts ended early where Kafka's choice is random, "
        f"{len(report.violations)} invariants broken"
    )
    for name, plays in report.repeated.items():
        console.print(f"{plays} plays made again: {escape(name)} ceased to coordinate, or answered too late")
    print_violations(console, report.violations)
    if json_path:
        json_path.write_text(json.dumps(as_json(report, seed), indent=1) + "\n")
    return 1 if report.findings or report.violations else 0


def print_finding(console: Console, first: str, second: str, finding: Finding) -> None:
    """Print one finding."""
    difference = finding.difference
    console.print(f"[red]different[/] at step {difference.step}: {escape(difference.about)}", soft_wrap=True)
    for number, step in enumerate(finding.script):
        console.print(f"  {number:2} {escape(str(step))}", soft_wrap=True)
    for name, result in ((first, difference.first), (second, difference.second)):
        console.print(f"  {escape(name)}: {escape(result)}", soft_wrap=True)


def as_json(report: Report, seed: int) -> dict[str, object]:
    """Return a report as plain data."""
    return {
        "targets": report.targets,
        "seed": seed,
        "scripts": report.scripts,
        "steps": report.steps,
        "undetermined": report.undetermined,
        "kinds": dict(report.kinds),
        "repeated": dict(report.repeated),
        "findings": [
            {
                "script": as_data(finding.script),
                "step": finding.difference.step,
                "about": finding.difference.about,
                "results": [finding.difference.first, finding.difference.second],
            }
            for finding in report.findings
        ],
        "violations": report.violations,
    }
