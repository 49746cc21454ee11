"""A mutant: one rule of our coordinator, changed. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One wrong rule. `areas`: patterns of the cases to try first; it survives only if all cases pass."""

    name: str
    file: str
    before: str
    after: str
    areas: tuple[str, ...]
