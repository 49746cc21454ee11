"""Requests pass the stations of docs/architecture.md, and no more functions than a budget allows."""

from tests.walk import BUDGETS, PAGE, counts, walks, written


def test_requests_pass_the_documented_stations() -> None:
    text = PAGE.read_text()
    assert written(text) == text, "draw the pictures again: python -m tests.walk"


def test_ways_keep_their_budgets() -> None:
    over = {name: count for name, count in counts(walks()).items() if count > BUDGETS[name]}
    assert not over
