"""`--against`: two targets compared by random scripts, on the console and as JSON."""

from __future__ import annotations

import json
import random
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from kafka_shim.conformance.differential.run import Finding, Report
from kafka_shim.conformance.differential.run import run as run_scripts
from kafka_shim.conformance.differential.script import described
from kafka_shim.conformance.invariants import tell_violations
from kafka_shim.conformance.targets import TargetError, open_target


def run(
    console: Console, left: str, right: str, scripts: int, seed: int | None, jobs: int, json_path: Path | None
) -> int:
    """Compare two targets and tell what they say differently; the exit code."""
    seed = random.randrange(1_000_000) if seed is None else seed
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(f"{left} against {right}", total=scripts)
            report = run_scripts(
                (open_target(left), open_target(right)),
                scripts,
                seed=seed,
                jobs=jobs,
                played=lambda count: progress.advance(task, count),
                discovered=lambda finding: tell(progress.console, left, right, finding),
            )
    except TargetError as error:
        click.echo(f"a target could not be had: {error}", err=True)
        return 2
    console.print(
        f"{report.scripts} scripts (seed {seed}), {report.steps} steps compared, {len(report.findings)} differences, "
        f"{report.undetermined} scripts ended early at a choice that is free, "
        f"{len(report.violations)} invariants broken"
    )
    tell_violations(console, report.violations)
    if json_path:
        json_path.write_text(json.dumps(as_json(report, seed), indent=1) + "\n")
    return 1 if report.findings or report.violations else 0


def tell(console: Console, left: str, right: str, finding: Finding) -> None:
    """Print one finding."""
    difference = finding.difference
    console.print(f"[red]different[/] at step {difference.step}: {escape(difference.about)}", soft_wrap=True)
    for number, step in enumerate(finding.script):
        console.print(f"  {number:2} {escape(str(step))}", soft_wrap=True)
    for name, result in ((left, difference.left), (right, difference.right)):
        console.print(f"  {escape(name)}: {escape(result)}", soft_wrap=True)


def as_json(report: Report, seed: int) -> dict[str, object]:
    """A report for programs."""
    return {
        "targets": report.targets,
        "seed": seed,
        "scripts": report.scripts,
        "steps": report.steps,
        "undetermined": report.undetermined,
        "kinds": dict(report.kinds),
        "findings": [
            {
                "script": described(finding.script),
                "step": finding.difference.step,
                "about": finding.difference.about,
                "results": [finding.difference.left, finding.difference.right],
            }
            for finding in report.findings
        ],
        "violations": report.violations,
    }
