"""A server with its control API, for the tests of a module."""

from collections.abc import Iterator

import pytest

from kafka_shim.testing import CoordinatorServer


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    server = CoordinatorServer(topics={"orders": 4}, control=True)
    # Not by `with`, whose end asks that every fault happened: some are only put in and listed.
    server.start()
    yield server
    server.stop()
