"""Patterns of subscriptions that are too long, or too large when compiled."""

import pytest

from kafka_shim.groups.regex import MAX_PATTERN, RegexError, compiled, matches


@pytest.mark.parametrize("pattern", ["x" * (MAX_PATTERN + 1), r"\pL" * (MAX_PATTERN // 3)])
def test_large_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        compiled(pattern)


def test_pattern_of_many_names_is_accepted() -> None:
    names = [f"orders-{number}" for number in range(300)]
    assert matches("|".join(names), names) == frozenset(names)


def test_stored_pattern_that_is_too_large_matches_nothing() -> None:
    assert matches("x*" * MAX_PATTERN, ["x"]) == frozenset()
