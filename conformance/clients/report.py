"""The reports of a run of client cases: JSON, JUnit XML, one HTML page, and evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from kafka_shim.conformance.clients.expected import Expectations
from kafka_shim.conformance.clients.relay import Exchange
from kafka_shim.conformance.clients.runner import QUIET, ClientResult, ClientRun
from kafka_shim.conformance.report.evidence import hex_lines
from kafka_shim.conformance.verdict import Verdict

SCHEMA: Final = 1
_TRACE_LINES: Final = 2_000
_STYLE: Final = """ body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:90rem;padding:0
1rem;color:#1b1f24;background:#fff} table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid
#d8dee4;padding:.2rem .5rem;text-align:left;
vertical-align:top}summary{cursor:pointer}pre{overflow:auto;background:#f6f8fa;padding:.6rem;font-size:12px}
.pass{background:#d8f0d8}.fail,.harness-error{background:#f8d7d7}.non-strict{background:#fdf3c8}
.skip,.unimplemented{color:#8c959f}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}pre{background:#161b22}td,th{border-color:#30363d}
.pass{background:#12361d}.fail,.harness-error{background:#4a1519}.non-strict{background:#453a0c}}
"""


def as_json(run: ClientRun, expectations: Expectations) -> dict[str, Any]:
    """Return the run as plain data."""
    return {
        "schema": SCHEMA,
        "target": run.target,
        "description": run.description,
        "seconds": round(run.seconds, 3),
        "counts": dict(Counter(each.verdict.value for each in run.results)),
        "violations": run.violations,
        "missing": run.missing,
        "results": [
            {
                "case": each.case.id,
                "client": each.client.name,
                "target": each.target,
                "protocol": each.case.protocol,
                "title": each.case.title,
                "source": each.case.source,
                "level": each.case.level.value,
                "verdict": each.verdict.value,
                "reason": each.reason.partition("\n")[0],
                "expected": expectations.reason(each),
                "surprise": expectations.surprise(each),
                "violations": each.violations,
                "seconds": round(each.seconds, 2),
            }
            for each in run.results
        ],
    }


def write_json(run: ClientRun, expectations: Expectations, path: Path) -> None:
    path.write_text(json.dumps(as_json(run, expectations), indent=1) + "\n")


def write_junit(run: ClientRun, expectations: Expectations, path: Path) -> None:
    """Write one test case per cell, and one for the invariants; an unexpected result is a failure."""
    suite = ElementTree.Element("testsuite", name=f"clients against {run.target}")
    for each in run.results:
        element = ElementTree.SubElement(
            suite, "testcase", classname=each.client.name, name=each.case.id, time=f"{each.seconds:.3f}"
        )
        surprise = expectations.surprise(each)
        if each.verdict is Verdict.HARNESS_ERROR:
            ElementTree.SubElement(element, "error", message="harness").text = each.reason
        elif surprise is not None:
            ElementTree.SubElement(element, "failure", message=surprise).text = each.reason
        elif each.verdict in (Verdict.SKIP, Verdict.UNIMPLEMENTED):
            ElementTree.SubElement(element, "skipped", message=each.reason)
    invariants = ElementTree.SubElement(suite, "testcase", classname=run.target, name="invariants")
    if run.violations:
        failure = ElementTree.SubElement(invariants, "failure", message=f"{len(run.violations)} violations")
        failure.text = "\n".join(run.violations)
    suite.set("tests", str(len(run.results) + 1))
    for kind in ("failure", "error", "skipped"):
        plural = {"failure": "failures", "error": "errors", "skipped": "skipped"}[kind]
        suite.set(plural, str(len(suite.findall(f"testcase/{kind}"))))
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def write_html(run: ClientRun, expectations: Expectations, path: Path) -> None:
    """Write a table of cases by clients, and the evidence of failures."""
    clients = list(dict.fromkeys(each.client.name for each in run.results))
    by_case: dict[tuple[str, str], dict[str, list[ClientResult]]] = {}
    for each in run.results:
        by_case.setdefault((each.case.id, each.case.protocol), {}).setdefault(each.client.name, []).append(each)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Clients against {escape(run.target)}</title><style>{_STYLE}</style>",
        f"<h1>Clients against {escape(run.target)}</h1><p>{escape(run.description)}; {len(by_case)} cases, "
        f"{len(run.results)} cells, {run.seconds:.0f} s</p><table><tr><th>case<th>level<th>requirement",
        *[f"<th>{escape(client)}" for client in clients],
    ]
    for case_id, protocol in sorted(by_case):
        cells = by_case[case_id, protocol]
        case = next(iter(cells.values()))[0].case
        parts.append(f"<tr><td>{escape(case_id)}<br><small>{escape(protocol)}</small>")
        parts.append(f"<td>{escape(case.level)}<td>{escape(case.title)}<br>")
        parts.append(f"<small>{escape(case.source)}</small>")
        parts += [_cell(cells.get(client, []), expectations) for client in clients]
    parts.append("</table><h2>Evidence</h2>")
    parts += [
        f"<details><summary>{escape(_summary(each, expectations))}</summary>"
        f"<pre>{escape(annotated(each, expectations))}</pre></details>"
        for each in run.results
        if each.verdict not in QUIET or each.violations
    ]
    parts += [f"<p>violated: {escape(line)}</p>" for line in run.violations]
    path.write_text("\n".join(parts) + "\n")


def _cell(results: list[ClientResult], expectations: Expectations) -> str:
    if not results:
        return "<td>"
    worst = next((each for each in results if each.verdict not in QUIET), results[0])
    tip = expectations.reason(worst) or worst.reason[:200]
    return f"<td class='{worst.verdict}' title='{escape(tip, quote=True)}'>{escape(worst.verdict)}"


def frames(exchanges: Iterable[Exchange]) -> list[str]:
    """Return every frame at the client's side of the relay: time, connection, fields, bytes."""
    exchanges = list(exchanges)
    start = exchanges[0].at if exchanges else 0.0
    timed_lines: list[tuple[float, list[str]]] = []
    for each in exchanges:
        head = f"c{each.connection:<3} {each.client_id}"
        lines = [f"{(each.at - start) * 1000:10.3f} ms  {head} > {each.api} v{each.version} {each.request or ''}"]
        timed_lines.append((each.at, lines + hex_lines(each.request_frame, 512)))
        if each.answered is not None:
            plan = " (by plan)" if each.by_plan else ""
            line = f"{(each.answered - start) * 1000:10.3f} ms  {head} < {each.api}{plan} {each.response or ''}"
            timed_lines.append((each.answered, [line, *hex_lines(each.response_frame, 512)]))
    return [line for _, lines in sorted(timed_lines, key=lambda each: each[0]) for line in lines]


def _summary(result: ClientResult, expectations: Expectations) -> str:
    why = expectations.reason(result)
    line = f"{result.case.id} {result.client.name}: {_first_line(result)}"
    return f"{line}; known: {why}" if why else line


def _first_line(result: ClientResult) -> str:
    return result.reason.partition("\n")[0] or "it holds"


def annotated(result: ClientResult, expectations: Expectations) -> str:
    """Return the text of one cell's evidence: frames, reports and logs of the members, the coordinator's trace."""
    case = result.case
    lines = [
        f"{case.id} {result.client.name} against {result.target}: {result.verdict}",
        f"must hold: {case.title}",
        f"source:    {case.source}",
        f"verdict:   {_first_line(result) if result.verdict is not Verdict.HARNESS_ERROR else result.reason}",
        f"known:     {expectations.reason(result) or 'no'}",
        *[f"violated:  {line}" for line in result.violations],
        "",
        "The group's frames",
        result.story,
        "",
        "Every frame",
        *frames(result.exchanges),
    ]
    for log in result.logs:
        lines += ["", "A member", log]
    lines += ["", "The coordinator's trace of the group", *(result.trace[:_TRACE_LINES] or ["the target writes none"])]
    return "\n".join(lines) + "\n"


def write_evidence(run: ClientRun, expectations: Expectations, folder: Path) -> None:
    """Write one file per cell that did not pass, or whose trace breaks an invariant."""
    folder.mkdir(parents=True, exist_ok=True)
    for each in run.results:
        if each.verdict not in QUIET or each.violations:
            turn = f"-{each.turn}" if each.turn else ""
            (folder / f"{each.case.id}-{each.client.name}{turn}.txt").write_text(annotated(each, expectations))
