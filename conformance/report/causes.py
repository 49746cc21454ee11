"""Which causes the failures of a run have: the first answers that differ from Kafka's, most failures first.

Decides which difference of a cell its failure hangs on. One that many cells have which pass, such as the wording of an
id, is no cause; one that fails most cells it is in is, and then what follows it in the same cell is its consequence.
Where there is no difference to be seen, failures with the same reason have one cause.
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
from kafka_shim.conformance.story import Difference, Step, differences
from kafka_shim.conformance.verdict import NOT_JUDGED, Verdict

HARMFUL: Final = 0.5
"""The part of the cells with a difference that must fail for it to be taken for their cause at first sight."""

_VARIABLE: Final = re.compile(r"'[^']*'|\d+(?:\.\d+)?|\b[0-9a-f]{8,}\b")


@dataclass
class Cause:
    """Why some cells fail. `text` names the wrong field, or the reason; `hanging` are the failures, evidence first."""

    text: str
    hanging: list[Result] = field(default_factory=list)

    @property
    def example(self) -> Result:
        return self.hanging[0]

    @property
    def cases(self) -> dict[Case, list[int]]:
        """The versions that fail, by case, in the order of `hanging`."""
        found: dict[Case, list[int]] = {}
        for result in self.hanging:
            found.setdefault(result.cell.case, []).append(result.cell.version)
        return found


class Differences:
    """The differences of every cell of a run from a record, found once."""

    def __init__(self, results: Iterable[Result], stories: Mapping[str, list[Step]]) -> None:
        self._found: dict[Cell, list[Difference]] = {}
        seen: Counter[tuple[str, str, str]] = Counter()
        failing: Counter[tuple[str, str, str]] = Counter()
        for result in results:
            if result.verdict in NOT_JUDGED:
                continue
            story = stories.get(result.cell.name)
            found = differences(result.story, story) if story is not None else []
            self._found[result.cell] = found
            keys = {each.key for each in found}
            seen.update(keys)
            if result.verdict is not Verdict.PASS:
                failing.update(keys)
        self._harm = {key: failing[key] / count for key, count in seen.items()}

    def of(self, result: Result) -> list[Difference]:
        """All differences of a cell, in the order of its story."""
        return self._found.get(result.cell, [])

    def blamed(self, result: Result) -> Difference | None:
        """The difference that a failure hangs on: the first that is harmful, else the most harmful one."""
        found = self.of(result)
        if not found:
            return None
        first = next((each for each in found if self._harm[each.key] >= HARMFUL), None)
        return first or max(found, key=lambda each: self._harm[each.key])


def causes_of(failures: Iterable[Result], found: Differences) -> list[Cause]:
    """The failures by their causes, the most frequent cause first."""
    causes: dict[object, Cause] = {}
    for result in failures:
        blamed = found.blamed(result)
        key: object = blamed.key if blamed else reason_key(result)
        text = blamed.text if blamed else _headline(result)
        cause = causes.setdefault(key, Cause(text))
        cause.hanging.append(result)
    for cause in causes.values():
        cause.hanging.sort(key=lambda each: _distance(each, found))
        blamed = found.blamed(cause.example)
        cause.text = blamed.text if blamed else _headline(cause.example)
    return sorted(causes.values(), key=lambda each: -len(each.hanging))


def _distance(result: Result, found: Differences) -> tuple[int, int, str, int]:
    """How far a failure is from its cause: the best example is about the very API, and differs in little else."""
    blamed = found.blamed(result)
    is_about = blamed is not None and result.cell.case.api == blamed.api
    return (not is_about, len(found.of(result)), result.cell.case.id, -result.cell.version)


def reason_key(result: Result) -> tuple[str, str | None, str]:
    """What failures with one reason have in common: verdict, API, and the reason without names and numbers."""
    if result.verdict is Verdict.DECLARED_NOT_SERVED or result.due is not None:
        return result.verdict.value, result.cell.case.api, ""
    return result.verdict.value, result.cell.case.api, _VARIABLE.sub("#", result.reason.partition("\n")[0])


def _headline(result: Result) -> str:
    return f"{result.verdict}: {result.reason.partition(chr(10))[0] or result.cell.case.title}"


def folded(case: Case, versions: Iterable[int]) -> str:
    """`join/first/1@0-9` of a case and the versions it failed in."""
    numbers = sorted({each for each in versions if each >= 0})
    return f"{case.id}@{ranges(numbers)}" if case.api and numbers else case.id
