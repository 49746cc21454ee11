"""A mutant: one rule of our coordinator, changed. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One wrong rule. `areas`: patterns of the cases to try first, if any knows the rule. It survives only if all cases
    pass, and the `tests` of the rule: files for what no case waits for, such as a lock that runs out after 15 s at the
    earliest."""

    name: str
    file: str
    before: str
    after: str
    areas: tuple[str, ...]
    tests: tuple[str, ...] = ()
