"""A run on the console: first the causes of what is news, then the figures."""

from __future__ import annotations

from collections import Counter
from typing import Final

import click
from rich.console import Console
from rich.markup import escape

from kafka_shim.conformance.invariants import tell_violations
from kafka_shim.conformance.plain import print_table
from kafka_shim.conformance.report.causes import Cause, folded
from kafka_shim.conformance.report.judged import Judged
from kafka_shim.conformance.runner import GONE, Result, Run
from kafka_shim.conformance.sources import public_source
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict

_CAUSES_SHOWN: Final = 20
_CASES_SHOWN: Final = 6
_LINE: Final = 160


def tell(console: Console, judged: Judged) -> int:
    """Print what came of a run; the exit code."""
    run = judged.run
    named = f"{run.target}: {run.description}" if run.description != run.target else run.target
    console.print(escape(named), soft_wrap=True)
    tell_causes(console, judged)
    tell_other_news(console, judged)
    areas: dict[str, Counter[Verdict]] = {}
    for result in run.results:
        areas.setdefault(result.cell.case.id.split("/")[0], Counter())[result.verdict] += 1
    seen = [verdict for verdict in Verdict if any(counts[verdict] for counts in areas.values())]
    rows = [[area, *[str(counts[verdict] or "") for verdict in seen]] for area, counts in sorted(areas.items())]
    print_table(console, ("area", *seen), rows)
    for each in run.results:
        if each.first:
            console.print(
                f"held with more time: {escape(each.cell.name)}, at first {escape(each.first)}", soft_wrap=True
            )
    gone = sum(each.reason == GONE for each in run.results)
    if gone:
        console.print(f"[red]the target stopped listening[/]: {gone} cells were not judged")
    counts = unjudged(run)
    for reason, cells in counts.most_common():
        console.print(f"not judged: {cells} cells, {escape(reason)}", soft_wrap=True, highlight=False)
    cases = len({each.cell.case.id for each in run.results})
    console.print(
        f"{cases} cases, {len(run.results)} cells, {sum(counts.values())} not judged, "
        f"{len(judged.news)} not as expected, {run.seconds:.1f} s"
    )
    tell_violations(console, run.violations)
    if any(each.verdict is Verdict.HARNESS_ERROR for each in run.results):
        return 2
    return 1 if judged.news or run.violations or gone else 0


def tell_causes(console: Console, judged: Judged) -> None:
    """Print the causes: of each the wrong field, what must hold, its source, and the line that runs it again."""
    causes = judged.causes
    if not causes:
        return
    cells = sum(len(each.hanging) for each in causes)
    console.print(f"[red]{cells} cells fail, by {len(causes)} {'cause' if len(causes) == 1 else 'causes'}[/]")
    for number, cause in enumerate(causes[:_CAUSES_SHOWN], 1):
        console.print(
            f"[bold]{number}. {escape(_cut(cause.text))}[/]: {extent(cause)}", soft_wrap=True, highlight=False
        )
        case = cause.example.cell.case
        lines = [f"{case.id}: {case.title}", public_source(case).partition("\n")[0], judged.again(cause.example)]
        for line in lines:
            click.echo(f"   {_cut(line)}" if line is not lines[-1] else f"   {line}")
    if len(causes) > _CAUSES_SHOWN:
        click.echo(f"{len(causes) - _CAUSES_SHOWN} causes more are in the reports")


def extent(cause: Cause) -> str:
    """How much hangs on a cause: the cells, and the first cases with their versions."""
    cases = cause.cases
    names = [folded(case, versions) for case, versions in cases.items()]
    shown = ", ".join(names[:_CASES_SHOWN])
    more = f" and {len(names) - _CASES_SHOWN} cases more" if len(names) > _CASES_SHOWN else ""
    cells = len(cause.hanging)
    return f"{cells} {'cell' if cells == 1 else 'cells'}, {shown}{more}"


def tell_other_news(console: Console, judged: Judged) -> None:
    """Print what is news and no failure: passes, skips and errors of the suite where something else was expected."""
    alike: dict[tuple[Verdict, str], list[Result]] = {}
    for result in judged.news:
        if result.verdict is Verdict.PASS or result.verdict in NOT_JUDGED:
            why = result.reason.strip().rpartition("\n")[2] or judged.surprise(result) or ""
            alike.setdefault((result.verdict, why), []).append(result)
    for (verdict, why), results in alike.items():
        console.print(f"{verdict} {extent(Cause(why, results))}: {escape(why)}", soft_wrap=True, highlight=False)


def unjudged(run: Run) -> Counter[str]:
    """How many cells say nothing of the target, by the reason."""
    reasons: Counter[str] = Counter()
    for each in run.results:
        if each.verdict is Verdict.UNIMPLEMENTED:
            name = each.reason.removeprefix("the target does not advertise ").removesuffix(" is not advertised")
            reasons[f"{name} is not advertised"] += 1
        elif each.verdict in NOT_JUDGED:
            reasons[each.reason.partition("\n")[0]] += 1
    return reasons


def _cut(text: str) -> str:
    return text if len(text) <= _LINE else text[: _LINE - 3] + "..."
