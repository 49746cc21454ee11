"""The matrix as one self-contained HTML page: areas and cases by targets, scenarios by clients.

Without scripts it is a plain table with the reasons in tooltips.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from html import escape
from itertools import groupby
from typing import Any, Final

from kafka_shim.conformance.matrix.data import NOT_RUN, Count, counted, counted_clients, excused
from kafka_shim.conformance.matrix.look import SCRIPT, STYLE

_KINDS: Final = {
    "pass": ("pass", "✓"),
    "fail": ("fail", "✗"),
    "timeout": ("fail", "⏱"),
    "declared-not-served": ("fail", "⊘"),
    "non-strict": ("part", "≈"),
    "harness-error": ("part", "!"),
    "skip": ("none", "–"),
    "unimplemented": ("none", "·"),
    "off": ("none", "○"),
    "later": ("none", "△"),
}
"""The colour and the sign of each verdict; the sign serves readers without sight of colours."""

_LEGEND: Final = (
    ("pass", "it holds"),
    ("fail", "it does not, and some client will notice"),
    ("non-strict", "it does not, below level must"),
    ("declared-not-served", "advertised, and never answered or refused"),
    ("timeout", "an answer that was due never came"),
    ("unimplemented", "the API is not advertised"),
    ("skip", "the target cannot be brought there"),
    ("off", "this release has it switched off"),
    ("later", "Kafka changed it on purpose after this release"),
)


def page_of(matrix: Mapping[str, Any]) -> str:
    """Return the HTML text of a matrix from `matrix.json`."""
    servers, clients = matrix["servers"], matrix["clients"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Conformance of group coordinators and their clients</title><style>{STYLE}</style></head><body>",
        "<header><h1>Group coordinators and their clients</h1>",
        f"<p>{len(matrix['cases'])} cases on {len(servers)} targets, "
        f"{sum(len(run['scenarios']) for run in clients)} scenarios with "
        f"{sum(len(run['clients']) for run in clients)} clients, run by <code>kafka-shim conformance matrix</code>, "
        f"<time>{escape(matrix['date'])}</time>, sources at <code>{escape(matrix['commit'][:12])}</code>. "
        "A cell counts the versions that passed of those that were run. Choose one to see why, and the command that "
        "repeats it.</p>",
        _legend(),
        "</header><main>",
        _runs(matrix),
        '<section aria-labelledby="areas"><h2 id="areas">Coordinators</h2>',
        _filters(),
        _areas(matrix),
        _cases(matrix),
        "</section>",
        _client_section(matrix),
        "</main>",
        '<dialog id="detail" aria-labelledby="detail-name"><h3 id="detail-name"></h3><p id="detail-title"></p>'
        '<dl id="detail-facts"></dl><p>Again: <code id="detail-command"></code></p><pre id="detail-evidence"></pre>'
        '<form method="dialog"><button>Close</button></form></dialog>',
        f'<script type="application/json" id="data">{_data(matrix)}</script><script>{SCRIPT}</script></body></html>',
    ]
    return "\n".join(parts) + "\n"


def _client_section(matrix: Mapping[str, Any]) -> str:
    if not matrix["clients"]:
        return ""
    return f'<section aria-labelledby="clients"><h2 id="clients">Clients</h2>{_clients(matrix)}</section>'


def _legend() -> str:
    marks = (
        f'<li><span class="mark {_KINDS[verdict][0]}">{_KINDS[verdict][1]}</span> <b>{verdict}</b> {escape(text)}</li>'
        for verdict, text in _LEGEND
    )
    return f'<details class="legend"><summary>What the signs mean</summary><ul>{"".join(marks)}</ul></details>'


def _runs(matrix: Mapping[str, Any]) -> str:
    rows = []
    for run in matrix["servers"]:
        count = counted(run, ["*"])
        command = f"kafka-shim conformance --target {run['target']}"
        rows.append(_run_row(run, f"{len(run['cases'])} cases", count, excused(run), command))
    for run in matrix["clients"]:
        total = [counted_clients(cases) for cases in run["clients"].values()]
        count = Count(sum(each.passed for each in total), sum(each.ran for each in total), 0)
        command = f"kafka-shim conformance --target {run['target']} --client all"
        row_run = run | {"description": f"{run['target']}, {run['protocol']} protocol"}
        rows.append(_run_row(row_run, f"{len(run['clients'])} clients", count, 0, command))
    names = ("target", "what ran", "passed", "off or changed later", "not as expected", "s")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return (
        '<details class="runs"><summary>The runs behind this page</summary><div class="wide"><table><thead><tr>'
        f'{head}<th scope="col">date</th><th scope="col">again</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
        "</div></details>"
    )


def _run_row(run: Mapping[str, Any], what: str, count: Count, excused: int, command: str) -> str:
    return (
        f'<tr><th scope="row">{escape(run["description"])}</th><td>{what}</td><td>{count.text}</td>'
        f"<td>{excused}</td><td>{run['news']}</td><td>{run['seconds']}</td><td>{escape(run['date'])}</td>"
        f"<td><code>{escape(command)}</code></td></tr>"
    )


def _filters() -> str:
    return (
        '<form id="filters" role="search"><label>Find <input type="search" name="text" placeholder="join/round, '
        'static, KIP-848 …"></label><label>Level <select name="level"><option value="">any</option>'
        "<option>must</option>"
        "<option>should</option><option>may</option></select></label>"
        '<label>Verdict <select name="verdict"><option value="">any</option>'
        + "".join(f"<option>{verdict}</option>" for verdict in _KINDS)
        + '</select></label><label><input type="checkbox" name="differ"> only where targets differ</label>'
        '<output id="found" aria-live="polite"></output></form>'
    )


def _head(corner: str, names: list[str]) -> str:
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    return f'<thead><tr><th scope="col">{escape(corner)}</th>{columns}</tr></thead>'


def _areas(matrix: Mapping[str, Any]) -> str:
    servers = matrix["servers"]
    rows = []
    for area in sorted({case_id.split("/")[0] for case_id in matrix["cases"]}):
        cells = []
        for run in servers:
            count = counted(run, [area])
            command = f"kafka-shim conformance --target {run['target']} --case '{area}/*'"
            cells.append(f'<td class="{count.kind}" title="{escape(command, quote=True)}">{count.text}</td>')
        rows.append(f'<tr><th scope="row"><a href="#area-{area}">{area}</a></th>{"".join(cells)}</tr>')
    names = [run["description"] for run in servers]
    return (
        '<div class="wide"><table class="grid"><caption>Cells passed of those run, by area</caption>'
        f"{_head('area', names)}<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cases(matrix: Mapping[str, Any]) -> str:
    servers = matrix["servers"]
    names = [run["description"] for run in servers]
    parts = []
    for area, ids in groupby(sorted(matrix["cases"]), key=lambda case_id: case_id.split("/")[0]):
        rows = []
        for case_id in ids:
            case = matrix["cases"][case_id]
            cells = [_case_cell(run["cases"].get(case_id), number) for number, run in enumerate(servers)]
            counts_by_server = [run["cases"].get(case_id, {"counts": {}})["counts"] for run in servers]
            verdicts = " ".join(sorted({verdict for counts in counts_by_server for verdict in counts}))
            alike = len({frozenset(counts) - NOT_RUN for counts in counts_by_server}) == 1
            rows.append(
                f'<tr data-case="{case_id}" data-level="{case["level"]}" data-verdicts="{verdicts}"'
                f'{"" if alike else " data-differ"}><th scope="row"><code>{case_id}</code>'
                f'<span class="level">{case["level"]}</span><br><small>{escape(case["title"])} '
                f"<i>{escape(case['source'])}</i></small></th>{''.join(cells)}</tr>"
            )
        parts.append(
            f'<details class="area" id="area-{area}"><summary>{area} <small>{len(rows)} cases</small></summary>'
            f'<div class="wide"><table class="grid">{_head("case", names)}<tbody>{"".join(rows)}</tbody></table></div>'
            "</details>"
        )
    return "\n".join(parts)


def _case_cell(outcome: Mapping[str, Any] | None, number: int) -> str:
    if outcome is None:
        return '<td class="none"></td>'
    counts: Counter[str] = Counter(outcome["counts"])
    ran = sum(count for verdict, count in counts.items() if verdict not in NOT_RUN)
    worst = next(iter([v for v in _KINDS if v != "pass" and v not in NOT_RUN and counts[v]]), "")
    verdict = worst or ("pass" if ran else next(iter(counts)))
    kind, sign = _KINDS[verdict]
    if worst and counts["pass"]:
        kind = "part"
    text = f"{sign} {counts['pass']}/{ran}" if worst else f"{sign} {ran}" if ran else sign
    tip = f"{verdict}: {outcome['why']}" if "why" in outcome else verdict
    return (
        f'<td class="{kind}"><button type="button" data-run="{number}" title="{escape(tip, quote=True)}" '
        f'aria-label="{escape(verdict)}, {counts["pass"]} of {ran} passed">{text}</button></td>'
    )


def _clients(matrix: Mapping[str, Any]) -> str:
    parts = []
    for number, run in enumerate(matrix["clients"]):
        scenarios = sorted(run["scenarios"])
        rows = []
        for client, cases in run["clients"].items():
            cells = [_client_cell(cases.get(scenario), number, scenario) for scenario in scenarios]
            count = counted_clients(cases)
            rows.append(
                f'<tr data-client="{escape(client)}"><th scope="row">{escape(client)}</th>'
                f'<td class="{count.kind}">{count.text}</td>{"".join(cells)}</tr>'
            )
        columns = "".join(
            f'<th scope="col"><abbr title="{escape(run["scenarios"][each]["title"], quote=True)}">{each}</abbr></th>'
            for each in scenarios
        )
        listed = "".join(
            f"<dt><code>{escape(each)}</code></dt><dd>{escape(row['title'])} <i>{escape(row['source'])}</i></dd>"
            for each, row in sorted(run["scenarios"].items())
        )
        parts.append(
            f'<div class="wide"><table class="grid"><caption>Scenarios of the {escape(run["protocol"])} protocol, on '
            f'{escape(run["target"])}</caption><thead><tr><th scope="col">client</th><th scope="col">passed</th>'
            f"{columns}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
            f"<details><summary>These scenarios</summary><dl>{listed}</dl></details>"
        )
    return "\n".join(parts)


def _client_cell(outcome: Mapping[str, Any] | None, number: int, scenario: str) -> str:
    if outcome is None:
        return '<td class="none"></td>'
    kind, sign = _KINDS[outcome["verdict"]]
    tip = f"{outcome['verdict']}: {outcome['why']}" if "why" in outcome else outcome["verdict"]
    return (
        f'<td class="{kind}"><button type="button" data-clients="{number}" data-scenario="{escape(scenario)}" '
        f'title="{escape(tip, quote=True)}" aria-label="{escape(outcome["verdict"])}">{sign}</button></td>'
    )


def _data(matrix: Mapping[str, Any]) -> str:
    """Return the data for the script of the page: all outcomes except plain passes."""
    servers = [
        {
            "target": run["target"],
            "description": run["description"],
            "cases": {
                case_id: outcome for case_id, outcome in run["cases"].items() if set(outcome["counts"]) != {"pass"}
            },
        }
        for run in matrix["servers"]
    ]
    clients = [
        {
            "target": run["target"],
            "scenarios": run["scenarios"],
            "clients": {
                client: {case: outcome for case, outcome in cases.items() if outcome["verdict"] != "pass"}
                for client, cases in run["clients"].items()
            },
        }
        for run in matrix["clients"]
    ]
    outcome = {"servers": servers, "clients": clients}
    return json.dumps(outcome, separators=(",", ":")).replace("</", "<\\/")
