"""The tables of `docs/results.md`, between two marks, from the data of the matrix."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from kafka_shim.conformance.matrix.data import THEMES, counted, counted_clients, excused

BEGIN: Final = "<!-- matrix: begin; written by kafka-shim conformance matrix -->"
END: Final = "<!-- matrix: end -->"


def tables(matrix: Mapping[str, Any]) -> str:
    """Return the tables of passed cells: targets by themes, and clients by scenarios."""
    servers = matrix["servers"]
    earlier = ", ".join(f"{run['description']} ({run['date']})" for run in servers if run["date"] != matrix["date"])
    also = f" Of an earlier day, and without the cases that were new after it: {earlier}." if earlier else ""
    lines = [
        f"Cells passed of those run, {matrix['date']}; a cell is a case in one version.{also}",
        "",
        "| | " + " | ".join(each["description"] for each in servers) + " |",
        "| --- |" + " ---: |" * len(servers),
    ]
    for theme, areas in {**THEMES, **_others(matrix)}.items():
        lines.append(f"| {theme} | " + " | ".join(counted(each, areas).text for each in servers) + " |")
    if any(map(excused, servers)):
        counts = " | ".join(str(excused(each) or "–") for each in servers)
        lines.append(f"| *not counted:* switched off in the release, or changed on purpose later | {counts} |")
    for run in matrix["clients"]:
        counts = ", ".join(f"{client} {counted_clients(cases).text}" for client, cases in run["clients"].items())
        lines += [
            "",
            f"Scenarios that clients passed of those run, {run['protocol']} protocol, on {run['target']},"
            f" {run['date']}: {counts}.",
        ]
    return "\n".join(lines)


def _others(matrix: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return a row for the areas of cases that are in no other, or nothing."""
    patterns = [pattern for areas in THEMES.values() for pattern in areas]
    areas = {case_id.partition("/")[0] for case_id in matrix["cases"]}
    others = sorted(area for area in areas if not any(fnmatchcase(area, pattern) for pattern in patterns))
    return {"others": tuple(others)} if others else {}


def with_tables(page: str, matrix: Mapping[str, Any]) -> str:
    """Return the page with its tables renewed. Raises ValueError without the two marks."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n{tables(matrix)}\n{END}{tail}"
