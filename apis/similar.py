"""The name that a person may have meant by an unknown one.

Such names come from clients, and to compare two takes time that grows with both. So a long name has no answer, nor has
one among very many.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LONGEST: Final = 100
"""Characters of an unknown name at most."""
MOST: Final = 1_000_000
"""Limit of the product of its characters and those of all names that there are."""
_LIKENESS: Final = 0.6


def similar_name(name: str, names: Iterable[str], likeness: float = _LIKENESS) -> str | None:
    """Return the most similar of some names, or None; `likeness` is from 0 to 1."""
    if len(name) > LONGEST:
        return None
    all_names = list(names)
    if len(name) * sum(map(len, all_names)) > MOST:
        return None
    near = get_close_matches(name, all_names, 1, likeness)
    return near[0] if near else None
