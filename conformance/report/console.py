"""Prints a run on the console: first the causes of unexpected failures, then the figures."""

from __future__ import annotations

from collections import Counter
from typing import Final

import click
from rich.console import Console
from rich.markup import escape

from kafka_shim.conformance.invariants import print_violations
from kafka_shim.conformance.report.assessment import Assessment
from kafka_shim.conformance.report.causes import Cause, folded
from kafka_shim.conformance.runner import TARGET_STOPPED, Result, Run
from kafka_shim.conformance.sources import public_source
from kafka_shim.conformance.table import print_table
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict

_PRINTED_CAUSES: Final = 20
_PRINTED_CASES: Final = 6
_LINE: Final = 160


def print_run(console: Console, assessment: Assessment) -> int:
    """Print a run; return the exit code."""
    run = assessment.run
    title = f"{run.target}: {run.description}" if run.description != run.target else run.target
    console.print(escape(title), soft_wrap=True)
    print_causes(console, assessment)
    print_other_unexpected(console, assessment)
    areas: dict[str, Counter[Verdict]] = {}
    for result in run.results:
        areas.setdefault(result.cell.case.id.split("/")[0], Counter())[result.verdict] += 1
    seen = [verdict for verdict in Verdict if any(counts[verdict] for counts in areas.values())]
    rows = [[area, *[str(counts[verdict] or "") for verdict in seen]] for area, counts in sorted(areas.items())]
    print_table(console, ("area", *seen), rows)
    for each in run.results:
        if each.first:
            console.print(
                f"passed with more time: {escape(each.cell.name)}, at first {escape(each.first)}", soft_wrap=True
            )
    stopped = sum(each.reason == TARGET_STOPPED for each in run.results)
    if stopped:
        console.print(f"[red]the target stopped listening[/]: {stopped} cells were not judged")
    counts = unjudged(run)
    for reason, cells in counts.most_common():
        console.print(f"not judged: {cells} cells, {escape(reason)}", soft_wrap=True, highlight=False)
    cases = len({each.cell.case.id for each in run.results})
    console.print(
        f"{cases} cases, {len(run.results)} cells, {sum(counts.values())} not judged, "
        f"{len(assessment.unexpected)} not as expected, {run.seconds:.1f} s"
    )
    print_violations(console, run.violations)
    if any(each.verdict is Verdict.HARNESS_ERROR for each in run.results):
        return 2
    return 1 if assessment.unexpected or run.violations or stopped else 0


def print_causes(console: Console, assessment: Assessment) -> None:
    """Print the causes: the wrong field, the requirement, its source, and the command that runs it again."""
    causes = assessment.causes
    if not causes:
        return
    cells = sum(len(each.failures) for each in causes)
    console.print(f"[red]{cells} cells fail, by {len(causes)} {'cause' if len(causes) == 1 else 'causes'}[/]")
    for number, cause in enumerate(causes[:_PRINTED_CAUSES], 1):
        console.print(
            f"[bold]{number}. {escape(_shortened(cause.text))}[/]: {scope_of(cause)}", soft_wrap=True, highlight=False
        )
        case = cause.example.cell.case
        lines = [f"{case.id}: {case.title}", public_source(case).partition("\n")[0], assessment.again(cause.example)]
        for line in lines:
            click.echo(f"   {_shortened(line)}" if line is not lines[-1] else f"   {line}")
    if len(causes) > _PRINTED_CAUSES:
        click.echo(f"{len(causes) - _PRINTED_CAUSES} more causes are in the reports")


def scope_of(cause: Cause) -> str:
    """Return the number of cells with a cause, and the first cases with their versions."""
    cases = cause.cases
    names = [folded(case, versions) for case, versions in cases.items()]
    names_text = ", ".join(names[:_PRINTED_CASES])
    more = f" and {len(names) - _PRINTED_CASES} more cases" if len(names) > _PRINTED_CASES else ""
    cells = len(cause.failures)
    return f"{cells} {'cell' if cells == 1 else 'cells'}, {names_text}{more}"


def print_other_unexpected(console: Console, assessment: Assessment) -> None:
    """Print the unexpected results that are not failures: passes, skips, and errors of the suite."""
    alike: dict[tuple[Verdict, str], list[Result]] = {}
    for result in assessment.unexpected:
        if result.verdict is Verdict.PASS or result.verdict in NOT_JUDGED:
            why = result.reason.strip().rpartition("\n")[2] or assessment.surprise(result) or ""
            alike.setdefault((result.verdict, why), []).append(result)
    for (verdict, why), results in alike.items():
        console.print(f"{verdict} {scope_of(Cause(why, results))}: {escape(why)}", soft_wrap=True, highlight=False)


def unjudged(run: Run) -> Counter[str]:
    """Count the cells that prove nothing about the target, by reason."""
    reasons: Counter[str] = Counter()
    for each in run.results:
        if each.verdict is Verdict.UNIMPLEMENTED:
            name = each.reason.removeprefix("the target does not advertise ").removesuffix(" is not advertised")
            reasons[f"{name} is not advertised"] += 1
        elif each.verdict in NOT_JUDGED:
            reasons[each.reason.partition("\n")[0]] += 1
    return reasons


def _shortened(text: str) -> str:
    return text if len(text) <= _LINE else text[: _LINE - 3] + "..."
