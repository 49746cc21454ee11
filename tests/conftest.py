"""Settings of all tests: the profiles of Hypothesis, without a deadline that a busy machine could miss, and the order
of the run. Tests marked `second_stage` run in `make test`, not in `make check`; those marked `everything` run in
`make everything` alone. Marks stand beside the tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
# The same examples each time: a failure tells about the change at hand. `make fuzz` looks for new ones.
settings.register_profile("short", settings.get_profile("any"), derandomize=True, database=None)
settings.register_profile("quick", settings.get_profile("short"), max_examples=20)
settings.register_profile("long", settings.get_profile("any"), max_examples=5000)
settings.load_profile("long" if "FUZZ_SECONDS" in os.environ else os.environ.get("HYPOTHESIS_PROFILE", "short"))

if TYPE_CHECKING:
    from tests.browser import Browser

NEEDING = {"spark"}
"""Fixtures that put a test into the second stage."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a worker."""
    from tests.browser import Browser

    with Browser() as chromium:
        yield chromium


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the second stage, and begin with the longest tests: those of Spark, then the rest of the stage.

    With `--dist worksteal` a worker has a run of neighbours and idle ones take from its end. So one worker alone starts
    a Spark, tests that wait for clients run beside tests that compute, and the last tests are short.
    """
    for item in items:
        if _needs_spark(item):
            item.add_marker(pytest.mark.second_stage("Spark and its time"))
        if item.get_closest_marker("everything"):
            item.add_marker(pytest.mark.second_stage("the mark `everything`"))
    items.sort(key=lambda item: (not _needs_spark(item), item.get_closest_marker("second_stage") is None))


def _needs_spark(item: pytest.Item) -> bool:
    return bool(NEEDING & set(getattr(item, "fixturenames", ())))
