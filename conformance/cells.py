"""Selection of the cases for a run, each in every version of its API, by pattern and by level (must, should, all)."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import kafka_shim.conformance.cases
from kafka_shim.conformance.case import CASES, Case
from kafka_shim.conformance.protocol import BY_NAME
from kafka_shim.conformance.verdict import Level


def all_cases() -> list[Case]:
    """Load every case module and return all cases, sorted by id."""
    for module in pkgutil.iter_modules(kafka_shim.conformance.cases.__path__):
        importlib.import_module(f"kafka_shim.conformance.cases.{module.name}")
    return sorted(CASES.values(), key=lambda each: each.id)


@dataclass(frozen=True)
class Cell:
    """One case at one version of its API; `turn` counts repetitions."""

    case: Case
    version: int
    turn: int = 0

    @property
    def name(self) -> str:
        return f"{self.case.id}@{self.version}" if self.case.api else self.case.id


@dataclass(frozen=True)
class Selection:
    """Selects cases and cells: `patterns` over `case/id/1` or `case/id/1@VERSION`; no pattern selects all.

    `level`: the lowest level that runs, `must`, `should` or `all`.
    """

    patterns: tuple[str, ...] = ()
    level: str = "all"

    def cases(self, cases: Iterable[Case]) -> list[Case]:
        """Return the cases that have a selected cell."""
        levels = {"must": {Level.MUST}, "should": {Level.MUST, Level.SHOULD}}.get(self.level, set(Level))
        ids = [pattern.partition("@")[0] for pattern in self.patterns]
        return [
            each
            for each in cases
            if each.level in levels and (not ids or any(fnmatchcase(each.id, pattern) for pattern in ids))
        ]

    def has(self, cell: Cell) -> bool:
        """Return True if a cell of a selected case is selected too."""
        names = (cell.case.id, f"{cell.case.id}@{cell.version}")
        return not self.patterns or any(fnmatchcase(name, pattern) for pattern in self.patterns for name in names)


def cells_of(cases: Iterable[Case], advertised: dict[int, tuple[int, int]], turns: int = 1) -> list[Cell]:
    """Return the cells of the cases: one for every version of its API that case, target and suite share.

    A case whose API the target lacks in all these versions keeps one cell, reported as UNIMPLEMENTED.
    """
    cells = []
    for case in cases:
        versions = [0]
        if case.api is not None:
            ours = BY_NAME[case.api].request.versions
            low, high = case.versions or (ours[0], ours[-1])
            offered = advertised.get(BY_NAME[case.api].key, (1, 0))
            both = range(max(low, ours[0], offered[0]), min(high, ours[-1], offered[1]) + 1)
            versions = list(both) or [-1]
        cells += [Cell(case, version, turn) for version in versions for turn in range(turns)]
    return cells
