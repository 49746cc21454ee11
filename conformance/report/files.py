"""The machine-readable reports of a run: JSON (schema-versioned), JUnit XML, and a shields endpoint badge."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from kafka_shim.conformance.expect import Expectation, Expectations
from kafka_shim.conformance.runner import Result, Run
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict

SCHEMA: Final = 1


def as_json(run: Run, expectations: Expectations) -> dict[str, Any]:
    """The run as plain data."""
    return {
        "schema": SCHEMA,
        "target": run.target,
        "description": run.description,
        "seconds": round(run.seconds, 3),
        "violations": run.violations,
        "counts": dict(Counter(result.verdict.value for result in run.results)),
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
                "expected": line.reason if (line := line_of(result, expectations)) else None,
                "surprise": expectations.surprise(result.cell.case.id, result.cell.version, result.verdict),
                "first": result.first or None,
                "seconds": round(result.seconds, 4),
            }
            for result in run.results
        ],
    }


def line_of(result: Result, expectations: Expectations) -> Expectation | None:
    """The line about what is known of a cell that is not a pass."""
    return (
        expectations.of_cell(result.cell.case.id, result.cell.version) if result.verdict is not Verdict.PASS else None
    )


def write_json(run: Run, expectations: Expectations, path: Path) -> None:
    path.write_text(json.dumps(as_json(run, expectations), indent=1) + "\n")


def write_junit(run: Run, expectations: Expectations, path: Path) -> None:
    """One test case per cell; a failure is a cell that is not as expected."""
    suite = ElementTree.Element("testsuite", name=f"conformance {run.target}", tests=str(len(run.results)))
    failures = errors = 0
    for result in run.results:
        element = ElementTree.SubElement(
            suite,
            "testcase",
            classname=result.cell.case.id.split("/")[0],
            name=result.cell.name,
            time=f"{result.seconds:.3f}",
        )
        surprise = expectations.surprise(result.cell.case.id, result.cell.version, result.verdict)
        if result.verdict is Verdict.HARNESS_ERROR:
            errors += 1
            ElementTree.SubElement(element, "error", message="harness").text = result.reason
        elif surprise is not None:
            failures += 1
            ElementTree.SubElement(element, "failure", message=surprise).text = result.reason
        elif result.verdict in NOT_JUDGED:
            ElementTree.SubElement(element, "skipped", message=result.reason)
    suite.set("failures", str(failures))
    suite.set("errors", str(errors))
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def write_badge(run: Run, path: Path) -> None:
    """The endpoint form of a shields badge: cases passed of those judged, and how many were not, or not in full."""
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
