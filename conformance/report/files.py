"""The machine-readable reports of a run: JSON (schema-versioned), JUnit XML, and a shields endpoint badge."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from kafka_shim.conformance.expect import NOT_RUN, Expectation, Expectations
from kafka_shim.conformance.report.assessment import Assessment
from kafka_shim.conformance.report.evidence import annotated
from kafka_shim.conformance.runner import Result, Run
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict

SCHEMA: Final = 1
_NO_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def as_json(assessment: Assessment) -> dict[str, Any]:
    """Return the run as plain data."""
    run = assessment.run
    return {
        "schema": SCHEMA,
        "target": run.target,
        "description": run.description,
        "command": shlex.join(assessment.command),
        "seconds": round(run.seconds, 3),
        "violations": run.violations,
        "counts": dict(Counter(result.verdict.value for result in run.results)),
        "causes": [
            {"text": cause.text, "cells": [result.cell.name for result in cause.failures]}
            for cause in assessment.all_causes
        ],
        "cells": [
            {
                "case": result.cell.case.id,
                "version": result.cell.version if result.cell.case.api else None,
                "api": result.cell.case.api,
                "title": result.cell.case.title,
                "source": result.cell.case.source,
                "level": result.cell.case.level.value,
                "verdict": result.verdict.value,
                "reason": result.reason,
                "cause": assessment.cause_of(result) or None,
                "expected": line.reason if (line := line_of(result, assessment.expectations)) else None,
                "surprise": assessment.surprise(result),
                "first": result.first or None,
                "seconds": round(result.seconds, 4),
            }
            for result in run.results
        ],
    }


def line_of(result: Result, expectations: Expectations) -> Expectation | None:
    """Return the expectation for a cell that does not pass."""
    return (
        expectations.of_cell(result.cell.case.id, result.cell.version) if result.verdict is not Verdict.PASS else None
    )


def write_json(assessment: Assessment, path: Path) -> None:
    path.write_text(json.dumps(as_json(assessment), indent=1) + "\n")


def write_junit(assessment: Assessment, path: Path) -> None:
    """Write one test case per cell; an unexpected cell is a failure, with its evidence."""
    run = assessment.run
    suite = ElementTree.Element("testsuite", name=f"conformance {run.target}", tests=str(len(run.results)))
    counts: Counter[str] = Counter()
    for result in run.results:
        element = ElementTree.SubElement(
            suite,
            "testcase",
            classname=result.cell.case.id.split("/")[0],
            name=result.cell.name,
            time=f"{result.seconds:.3f}",
        )
        surprise = assessment.surprise(result)
        if result.verdict is Verdict.HARNESS_ERROR:
            counts["errors"] += 1
            ElementTree.SubElement(element, "error", message="harness").text = _printable(result.reason)
        elif surprise is not None:
            counts["failures"] += 1
            message = _printable(assessment.cause_of(result) or result.reason.partition("\n")[0] or surprise)
            ElementTree.SubElement(element, "failure", message=message, type=result.verdict.value).text = _printable(
                annotated(result, assessment)
            )
        elif result.verdict in NOT_JUDGED:
            counts["skipped"] += 1
            ElementTree.SubElement(element, "skipped", message=_printable(result.reason))
    for kind in ("failures", "errors", "skipped"):
        suite.set(kind, str(counts[kind]))
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """Replace characters that XML does not allow."""
    return _NO_XML.sub("?", text)


def write_expectations(assessment: Assessment, path: Path) -> None:
    """Write known failures and cells that are not judged as TOML, one entry per verdict and cause or reason.

    A case whose cells all have one verdict is written once, without versions.
    """
    entries: list[tuple[str, Verdict, list[Result]]] = []
    for cause in assessment.all_causes:
        for verdict in sorted({each.verdict for each in cause.failures}):
            entries.append((cause.text, verdict, [each for each in cause.failures if each.verdict is verdict]))
    unjudged: dict[tuple[str, Verdict], list[Result]] = {}
    for each in assessment.run.results:
        if each.verdict in NOT_RUN:
            unjudged.setdefault((each.reason.partition("\n")[0], each.verdict), []).append(each)
    entries += [(reason, verdict, results) for (reason, verdict), results in unjudged.items()]
    all_cells: dict[str, list[Result]] = {}
    for each in assessment.run.results:
        all_cells.setdefault(each.cell.case.id, []).append(each)
    lines = [f"# What {assessment.run.target} does otherwise; written by --write-baseline. Say why on every line."]
    for reason, verdict, results in entries:
        names: set[str] = set()
        for each in results:
            are_alike = len({beside.verdict for beside in all_cells[each.cell.case.id]}) == 1
            names.add(each.cell.case.id if are_alike else each.cell.name)
        cells = [f"    {json.dumps(name)}," for name in sorted(names)]
        lines += ["", "[[expected]]", "cells = [", *cells, "]", f'verdicts = ["{verdict}"]']
        lines.append(f"reason = {json.dumps(reason, ensure_ascii=False)}")
    path.write_text("\n".join(lines) + "\n")


def write_badge(run: Run, path: Path) -> None:
    """Write the endpoint JSON of a shields badge: passed and judged cases, and the number of cases not fully judged."""
    holds: dict[str, bool] = {}
    unjudged: set[str] = set()
    for result in run.results:
        case_id = result.cell.case.id
        if result.verdict in NOT_JUDGED:
            unjudged.add(case_id)
        else:
            holds[case_id] = holds.get(case_id, True) and result.verdict is Verdict.PASS
    passed = sum(holds.values())
    colour = "brightgreen" if passed == len(holds) else "yellow" if passed * 10 > len(holds) * 9 else "red"
    message = f"{passed}/{len(holds)}" + (f", {len(unjudged)} not judged" if unjudged else "")
    badge = {"schemaVersion": 1, "label": "group conformance", "message": message, "color": colour}
    path.write_text(json.dumps(badge) + "\n")
