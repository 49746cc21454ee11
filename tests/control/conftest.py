"""A server with its control API, for the tests of a module."""

from collections.abc import Iterator

import pytest

from kafka_shim.testing import CoordinatorServer


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    server = CoordinatorServer(topics={"orders": 4}, control=True)
    # Not by `with`: its end fails if a fault never happened, and some tests only add and list faults.
    server.start()
    yield server
    server.stop()
