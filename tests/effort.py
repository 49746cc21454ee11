"""Counts of the lines of Python that a call runs, and of the values that it compares: work without a clock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def effort(call: Callable[[], object]) -> int:
    """Return the number of lines that a call runs, each as often as it runs."""
    count = 0

    def traced(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


class _Compared:
    count = 0

    def __eq__(self, other: object) -> bool:
        _Compared.count += 1
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


class ComparedText(_Compared, str):
    """A text with a count of its comparisons."""

    __hash__ = str.__hash__


class ComparedNumber(_Compared, int):
    """A number with a count of its comparisons."""

    __hash__ = int.__hash__


def comparisons(call: Callable[[], object]) -> int:
    """Return the number of comparisons of such texts and numbers that a call makes."""
    before = _Compared.count
    call()
    return _Compared.count - before
