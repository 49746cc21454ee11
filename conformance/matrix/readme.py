"""The compact tables of the README, between two marks, out of the matrix's data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka_shim.conformance.matrix.data import THEMES, counted, counted_clients, excused

BEGIN: Final = "<!-- matrix: begin; written by kafka-shim conformance matrix -->"
END: Final = "<!-- matrix: end -->"


def tables(matrix: Mapping[str, Any]) -> str:
    """Cells passed of those run: targets by themes, and clients by scenarios."""
    servers = matrix["servers"]
    lines = [
        f"Cells passed of those run, {matrix['date']}; a cell is a case in one version.",
        "",
        "| | " + " | ".join(each["description"] for each in servers) + " |",
        "| --- |" + " ---: |" * len(servers),
    ]
    for theme, areas in THEMES.items():
        lines.append(f"| {theme} | " + " | ".join(counted(each, areas).text for each in servers) + " |")
    if any(map(excused, servers)):
        counts = " | ".join(str(excused(each) or "–") for each in servers)
        lines.append(f"| *not counted:* switched off in the release, or changed on purpose later | {counts} |")
    for run in matrix["clients"]:
        counts = ", ".join(f"{client} {counted_clients(cases).text}" for client, cases in run["clients"].items())
        lines += [
            "",
            f"Scenarios that clients passed of those run, {run['protocol']} protocol, on {run['target']}: {counts}.",
        ]
    return "\n".join(lines)


def written(readme: str, matrix: Mapping[str, Any]) -> str:
    """A README with its tables made anew. Raises ValueError if it has no place for them."""
    head, begin, rest = readme.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}\n{tables(matrix)}\n{END}{tail}"
