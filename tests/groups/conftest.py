"""A coordinator for each test of groups."""

import pytest

from tests.groups.context import Context


@pytest.fixture
def coordinator() -> Context:
    """Return a coordinator with no groups and default settings."""
    return Context()
