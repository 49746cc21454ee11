"""A mutant: one rule of our coordinator, changed. Decides nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One wrong rule. `areas`: patterns of the cases to try first; all are tried before it is said to survive."""

    name: str
    file: str
    before: str
    after: str
    areas: tuple[str, ...]
