"""A mutant: one changed rule of our coordinator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One wrong rule. `areas`: patterns of the cases to try first. `tests`: test files of the rule.

    It survives only if all cases and these tests pass. The tests cover rules that no case can wait for, such as a lock
    that expires after 15 s at the earliest.
    """

    name: str
    file: str
    before: str
    after: str
    areas: tuple[str, ...]
    tests: tuple[str, ...] = ()
