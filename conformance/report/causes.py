"""Groups the failures of a run by cause: the first answer that differs from Kafka's. Most failures first.

A difference that also occurs in many passing cells, such as the format of an id, is not a cause. A difference whose
cells mostly fail is one, and later differences in the same cell are its consequences. Failures without any difference
share a cause if they have the same reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafka_shim.conformance.case import Case
from kafka_shim.conformance.cells import Cell
from kafka_shim.conformance.plain import ranges
from kafka_shim.conformance.runner import Result
from kafka_shim.conformance.story import Difference, Step
from kafka_shim.conformance.story import differences as differences_of
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict

HARMFUL: Final = 0.5
"""The share of failing cells among all cells with a difference from which on the difference counts as a cause."""

_VARIABLE: Final = re.compile(r"'[^']*'|\d+(?:\.\d+)?|\b[0-9a-f]{8,}\b")


@dataclass
class Cause:
    """The cause of some failures. `text` names the wrong field, or the reason; `failures[0]` is the example."""

    text: str
    failures: list[Result] = field(default_factory=list)

    @property
    def example(self) -> Result:
        return self.failures[0]

    @property
    def cases(self) -> dict[Case, list[int]]:
        """The failing versions by case, in the order of `failures`."""
        versions: dict[Case, list[int]] = {}
        for result in self.failures:
            versions.setdefault(result.cell.case, []).append(result.cell.version)
        return versions


class Differences:
    """The differences of every cell of a run from a record, computed once."""

    def __init__(self, results: Iterable[Result], stories: Mapping[str, list[Step]]) -> None:
        self._by_cell: dict[Cell, list[Difference]] = {}
        seen: Counter[tuple[str, str, str]] = Counter()
        failing: Counter[tuple[str, str, str]] = Counter()
        for result in results:
            if result.verdict in NOT_JUDGED:
                continue
            story = stories.get(result.cell.name)
            differences = differences_of(result.story, story) if story is not None else []
            self._by_cell[result.cell] = differences
            keys = {each.key for each in differences}
            seen.update(keys)
            if result.verdict is not Verdict.PASS:
                failing.update(keys)
        self._harm = {key: failing[key] / count for key, count in seen.items()}

    def of(self, result: Result) -> list[Difference]:
        """Return all differences of a cell, in the order of its story."""
        return self._by_cell.get(result.cell, [])

    def main_difference(self, result: Result) -> Difference | None:
        """Return the difference that explains a failure: the first harmful one, else the most harmful one."""
        differences = self.of(result)
        if not differences:
            return None
        first = next((each for each in differences if self._harm[each.key] >= HARMFUL), None)
        return first or max(differences, key=lambda each: self._harm[each.key])


def causes_of(results: Iterable[Result], differences: Differences) -> list[Cause]:
    """Group failures by cause, the most frequent cause first."""
    causes: dict[object, Cause] = {}
    for result in results:
        main = differences.main_difference(result)
        key: object = main.key if main else reason_key(result)
        text = main.text if main else _headline(result)
        cause = causes.setdefault(key, Cause(text))
        cause.failures.append(result)
    for cause in causes.values():
        cause.failures.sort(key=lambda each: _distance(each, differences))
        main = differences.main_difference(cause.example)
        cause.text = main.text if main else _headline(cause.example)
    return sorted(causes.values(), key=lambda each: -len(each.failures))


def _distance(result: Result, differences: Differences) -> tuple[int, int, str, int]:
    """Rank a failure as an example: best is one about the API of the cause, with few other differences."""
    main = differences.main_difference(result)
    is_about = main is not None and result.cell.case.api == main.api
    return (not is_about, len(differences.of(result)), result.cell.case.id, -result.cell.version)


def reason_key(result: Result) -> tuple[str, str | None, str]:
    """Return the common part of equal reasons: verdict, API, and the reason without names and numbers."""
    if result.verdict is Verdict.DECLARED_NOT_SERVED or result.due is not None:
        return result.verdict.value, result.cell.case.api, ""
    return result.verdict.value, result.cell.case.api, _VARIABLE.sub("#", result.reason.partition("\n")[0])


def _headline(result: Result) -> str:
    return f"{result.verdict}: {result.reason.partition(chr(10))[0] or result.cell.case.title}"


def folded(case: Case, versions: Iterable[int]) -> str:
    """Return `join/first/1@0-9` for a case and its failing versions."""
    numbers = sorted({each for each in versions if each >= 0})
    return f"{case.id}@{ranges(numbers)}" if case.api and numbers else case.id
