"""`coordinator_fixture`: a coordinator for each test, class, module, package or session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest

from kafka_shim.testing.awaitable import AsyncCoordinator
from kafka_shim.testing.server import CoordinatorServer


def coordinator_fixture(
    *,
    scope: Literal["function", "class", "module", "package", "session"] = "function",
    name: str | None = None,
    awaitable: bool = False,
    **arguments: Any,
) -> Any:
    """Make a fixture that is a `CoordinatorServer`, or an `AsyncCoordinator` if `awaitable`, with these arguments.

    kafka = coordinator_fixture(scope="module", topics={"orders": 4}, config={"group.max.size": 3})
    """

    @pytest.fixture(scope=scope, name=name)
    def fixture() -> Iterator[CoordinatorServer | AsyncCoordinator]:
        server = AsyncCoordinator(**arguments) if awaitable else CoordinatorServer(**arguments)
        server.start()
        try:
            yield server
        finally:
            server.stop()

    return fixture
