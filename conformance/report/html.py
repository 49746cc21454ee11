"""A single-file page of a run: every case a row, every version a cell, the evidence behind it."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Final

from kafka_shim.conformance.expect import Expectations
from kafka_shim.conformance.report.evidence import annotated
from kafka_shim.conformance.runner import Result, Run
from kafka_shim.conformance.verdict import Verdict

_STYLE: Final = """
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1b1f24;background:#fff}
table{border-collapse:collapse;width:100%}td,th{border-bottom:1px solid #d8dee4;padding:.3rem .5rem;text-align:left;
vertical-align:top}h2{margin-top:2rem}code{font-size:12px}summary{cursor:pointer}pre{overflow:auto;background:#f6f8fa;
padding:.6rem;font-size:12px}.v{display:inline-block;min-width:1.5rem;padding:0 .3rem;margin:1px;border-radius:3px;
text-align:center;font-size:12px;color:#fff}.pass{background:#1a7f37}.fail,.timeout,.declared-not-served{background:#cf222e}
.non-strict{background:#9a6700}.skip,.unimplemented{background:#8c959f}.harness-error{background:#8250df}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}pre{background:#161b22}td,th{border-color:#30363d}}
"""


def write_html(run: Run, expectations: Expectations, path: Path) -> None:
    """Write the page of one run."""
    by_case: dict[str, list[Result]] = defaultdict(list)
    for result in run.results:
        by_case[result.cell.case.id].append(result)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Group conformance of {escape(run.target)}</title><style>{_STYLE}</style>",
        f"<h1>Group conformance of {escape(run.target)}</h1><p>{escape(run.description)}; {len(by_case)} cases, "
        f"{len(run.results)} cells, {run.seconds:.0f} s</p>",
    ]
    for area, ids in groupby(sorted(by_case), key=lambda each: each.split("/")[0]):
        parts.append(f"<h2>{escape(area)}</h2><table>")
        for case_id in ids:
            results = by_case[case_id]
            parts.append(_row(case_id, results, expectations))
        parts.append("</table>")
    path.write_text("\n".join(parts) + "\n")


def _row(case_id: str, results: list[Result], expectations: Expectations) -> str:
    case = results[0].cell.case
    marks = "".join(
        f"<span class='v {result.verdict}' title='{escape(result.verdict)} {escape(result.reason[:200], quote=True)}'>"
        f"{result.cell.version if case.api and result.cell.version >= 0 else '&middot;'}</span>"
        for result in results
    )
    details = ""
    for result in results:
        if result.verdict in (Verdict.PASS, Verdict.SKIP, Verdict.UNIMPLEMENTED):
            continue
        line = expectations.of_cell(case_id, result.cell.version)
        known = f" &mdash; expected: {escape(line.reason)}" if line else ""
        said = f"{escape(result.verdict)}: {escape(result.reason[:300])}{known}"
        head = f"{escape(result.cell.name)}: {said}"
        details += f"<details><summary>{head}</summary><pre>{escape(annotated(result))}</pre></details>"
    return (
        f"<tr><td><code>{escape(case_id)}</code><td>{escape(case.level)}<td>{escape(case.title)}<br>"
        f"<small>{escape(case.source)}</small>{details}<td>{marks}"
    )
