"""The expected result of each target where it is not a pass: one TOML file per target, a reason on every line.

A change in either direction is news: a cell that fails unexpectedly, and one that passes where a failure was expected.
So is a cell that was skipped, or whose API is not there any more: a target that refuses everything must not look fine.
Only a target without a file, somebody's own, has no expectations.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from kafka_shim.conformance.verdict import Verdict

NOT_RUN = frozenset({Verdict.SKIP, Verdict.UNIMPLEMENTED})
"""Verdicts that say nothing about what the target does."""


_GLOB = frozenset("*?[")


class Kind(StrEnum):
    """What a cell that is no pass says of its target. Only a fault counts against it."""

    FAULT = "fault"
    OFF = "off"
    """The target has it, and this release has it switched off."""
    LATER = "later"
    """Kafka changed it on purpose after the release that the target is."""


@dataclass(frozen=True)
class Expectation:
    """`cells`: patterns over `case/id/1@VERSION`, or over the id alone. `reason`: why, with a link if there is one."""

    cells: tuple[str, ...]
    verdicts: frozenset[Verdict]
    reason: str
    kind: Kind = Kind.FAULT

    def covers(self, case_id: str, version: int) -> bool:
        names = (case_id, f"{case_id}@{version}")
        exact, patterns = self._sorted
        return not exact.isdisjoint(names) or any(fnmatchcase(name, each) for each in patterns for name in names)

    @cached_property
    def _sorted(self) -> tuple[frozenset[str], list[str]]:
        """Plain names, of which there may be thousands, and patterns."""
        patterns = [each for each in self.cells if _GLOB.intersection(each)]
        return frozenset(self.cells).difference(patterns), patterns


class Expectations:
    """The lines of one file; the last that covers a cell counts. `complete`: what is not in them passes."""

    def __init__(self, lines: list[Expectation], *, complete: bool = True) -> None:
        self.lines = lines
        self._usual = frozenset({Verdict.PASS}) if complete else NOT_RUN | {Verdict.PASS}

    @classmethod
    def read(cls, path: Path) -> Expectations:
        """The expectations of a file such as

        [[expected]]
        cells = ["join/first/2", "join/pending/*"]
        verdicts = ["fail"]
        reason = "..."
        kind = "later"                      # or "off", or left out
        """
        lines = tomllib.loads(path.read_text()).get("expected", [])
        return cls(
            [
                Expectation(
                    tuple(line["cells"]),
                    frozenset(map(Verdict, line["verdicts"])),
                    line["reason"],
                    Kind(line.get("kind", Kind.FAULT)),
                )
                for line in lines
            ]
        )

    @classmethod
    def of_run(cls, path: Path) -> Expectations:
        """What came of an earlier run, from its JSON, as what is expected now."""
        lines: dict[str, list[str]] = {}
        for cell in json.loads(path.read_text())["cells"]:
            version = 0 if cell["version"] is None else cell["version"]
            lines.setdefault(cell["verdict"], []).append(f"{cell['case']}@{version}")
        return cls(
            [
                Expectation(tuple(cells), frozenset({Verdict(verdict)}), "as in the earlier run")
                for verdict, cells in lines.items()
            ],
            complete=False,
        )

    @classmethod
    def of_target(cls, name: str) -> Expectations:
        """The expectations kept here for a target: by its name, then by ever shorter beginnings of it; none at last."""
        stem = name.replace(":", "-").split("/")[0]
        while stem:
            path = Path(__file__).with_name(f"{stem}.toml")
            if path.exists():
                return cls.read(path)
            stem = stem[: max(stem.rfind("."), stem.rfind("-"), 0)]
        return cls([], complete=False)

    def of_cell(self, case_id: str, version: int) -> Expectation | None:
        """The line that covers a cell."""
        covering = [line for line in self.lines if line.covers(case_id, version)]
        return covering[-1] if covering else None

    def surprise(self, case_id: str, version: int, verdict: Verdict) -> str | None:
        """Why a verdict is news; None if it is as expected."""
        line = self.of_cell(case_id, version)
        if line is None:
            return None if verdict in self._usual else f"{verdict} where a pass was expected"
        if verdict in line.verdicts:
            return None
        return f"{verdict} where {' or '.join(sorted(line.verdicts))} was expected ({line.reason})"
