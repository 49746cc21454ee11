"""One page of many runs: targets by areas, clients by scenarios. `python -m conformance.report.matrix PAGE REPORT...`

Reads the JSON that `--json` writes, of server runs and of client runs alike. Decides what a cell shows: how many cells
passed of those that were run, or the verdict. It runs nothing; the command that repeats a cell stands in its tooltip.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, Final

import click

_STYLE: Final = """
body { font: 14px system-ui, sans-serif; margin: 2rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 2rem }
th, td { border: 1px solid #ccc; padding: .2rem .5rem; text-align: center }
th:first-child { text-align: left }
.pass { background: #d8f0d8 } .part { background: #fdf3c8 } .fail { background: #f8d7d7 } .none { color: #999 }
"""
_NEUTRAL: Final = frozenset({"skip", "unimplemented"})


def table_of(corner: str, rows: dict[str, dict[str, tuple[str, str, str]]], columns: list[str]) -> str:
    """A table; a cell is its class, its text and its tooltip."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = []
    for name, cells in rows.items():
        told = (cells.get(column, ("none", "", "")) for column in columns)
        line = "".join(f'<td class="{kind}" title="{escape(tip)}">{escape(text)}</td>' for kind, text, tip in told)
        body.append(f"<tr><th>{escape(name)}</th>{line}</tr>")
    return f"<table><tr><th>{escape(corner)}</th>{head}</tr>{''.join(body)}</table>"


def areas(run: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    """A server run by area."""
    counts: dict[str, Counter[str]] = {}
    for cell in run["cells"]:
        counts.setdefault(cell["case"].split("/")[0], Counter())[cell["verdict"]] += 1
    shown = {}
    for area, verdicts in counts.items():
        ran = sum(count for verdict, count in verdicts.items() if verdict not in _NEUTRAL)
        passed = verdicts["pass"]
        kind = "none" if not ran else "pass" if passed == ran else "part" if passed else "fail"
        command = f"kafka-shim conformance --target {run['target']} --case '{area}/*'"
        shown[area] = (kind, f"{passed}/{ran}" if ran else "–", command)
    return shown


def scenarios(run: dict[str, Any]) -> dict[str, dict[str, tuple[str, str, str]]]:
    """A client run by client."""
    shown: dict[str, dict[str, tuple[str, str, str]]] = {}
    for each in run["results"]:
        verdict = each["verdict"]
        kind = {"pass": "pass", "skip": "none"}.get(verdict, "fail")
        command = f"kafka-shim conformance --target {run['target']} --client {each['client']} --case {each['case']}"
        shown.setdefault(each["client"], {})[each["case"]] = (kind, "–" if verdict == "skip" else verdict, command)
    return shown


def page_of(runs: list[dict[str, Any]], date: str) -> str:
    """The page."""
    servers = {run["description"] or run["target"]: areas(run) for run in runs if "cells" in run}
    clients: dict[str, dict[str, tuple[str, str, str]]] = {}
    for run in runs:
        clients |= scenarios(run) if "results" in run else {}
    by_area = sorted({area for cells in servers.values() for area in cells})
    turned = {area: {name: cells[area] for name, cells in servers.items() if area in cells} for area in by_area}
    cases = sorted({case for cells in clients.values() for case in cells})
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Conformance</title><style>{_STYLE}</style>'
        f"<h1>Conformance</h1><p>{escape(date)}. Cells passed of those run; a tooltip says how to repeat one.</p>"
        f"<h2>Coordinators</h2>{table_of('area', turned, list(servers))}"
        f"<h2>Clients</h2>{table_of('client', clients, cases)}</html>\n"
    )


@click.command()
@click.argument("page", type=click.Path(path_type=Path))
@click.argument("reports", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def main(page: Path, reports: tuple[Path, ...]) -> None:
    """Write PAGE from the JSON REPORTS of runs."""
    runs = [json.loads(report.read_text()) for report in reports]
    page.write_text(page_of(runs, datetime.now(UTC).strftime("%Y-%m-%d")))


if __name__ == "__main__":
    main()
