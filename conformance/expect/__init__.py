"""The expected results of each target other than a pass: one TOML file per target, a reason on every line.

Any change is unexpected: a new failure, a pass in place of an expected failure, and also a skip or a missing API,
because a target that refuses everything must not look perfect. Only a foreign target without a file has no
expectations.
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
"""Verdicts that prove nothing about the target."""


_GLOB = frozenset("*?[")


class Kind(StrEnum):
    """The meaning of an expected result other than a pass. Only a fault counts against the target."""

    FAULT = "fault"
    OFF = "off"
    """The target supports it, but this release has it switched off."""
    LATER = "later"
    """Kafka changed it on purpose after the release of this target."""


@dataclass(frozen=True)
class Expectation:
    """`cells`: patterns over `case/id/1@VERSION` or the id. `reason`: the explanation, perhaps with a link."""

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
        """Split the cells into plain names, of which there may be thousands, and patterns."""
        patterns = [each for each in self.cells if _GLOB.intersection(each)]
        return frozenset(self.cells).difference(patterns), patterns


class Expectations:
    """The expectations in one file; the last that covers a cell counts. `complete`: all other cells must pass."""

    def __init__(self, lines: list[Expectation], *, complete: bool = True) -> None:
        self.lines = lines
        self._usual = frozenset({Verdict.PASS}) if complete else NOT_RUN | {Verdict.PASS}

    @classmethod
    def read(cls, path: Path) -> Expectations:
        """Read a file such as

        like = "kafka-3.9"                  # the file beside it that these lines amend, or left out
        [[expected]]
        cells = ["join/first/2", "join/pending/*"]
        verdicts = ["fail"]
        reason = "..."
        kind = "later"                      # or "off", or left out
        """
        table = tomllib.loads(path.read_text())
        if unknown := table.keys() - {"like", "expected"}:
            raise ValueError(f"the only names are like and expected, not {', '.join(sorted(unknown))}")
        amended = cls.read(path.with_name(f"{table['like']}.toml")).lines if "like" in table else []
        lines = table.get("expected", [])
        return cls(
            amended
            + [
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
        """Read the JSON of an earlier run as expectations."""
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
        """Read the expectations in this package for a target: by its name, then by ever shorter prefixes of it."""
        stem = name.replace(":", "-").split("/")[0]
        while stem:
            path = Path(__file__).with_name(f"{stem}.toml")
            if path.exists():
                return cls.read(path)
            stem = stem[: max(stem.rfind("."), stem.rfind("-"), 0)]
        return cls([], complete=False)

    def of_cell(self, case_id: str, version: int) -> Expectation | None:
        """Return the expectation that covers a cell."""
        covering = [line for line in self.lines if line.covers(case_id, version)]
        return covering[-1] if covering else None

    def surprise(self, case_id: str, version: int, verdict: Verdict) -> str | None:
        """Return the reason why a verdict is unexpected; None if it is expected."""
        line = self.of_cell(case_id, version)
        if line is None:
            return None if verdict in self._usual else f"{verdict} where a pass was expected"
        if verdict in line.verdicts:
            return None
        return f"{verdict} where {' or '.join(sorted(line.verdicts))} was expected ({line.reason})"
