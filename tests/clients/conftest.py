"""One server for all tests of a worker process, with a separate group and topics for every test.

`CLIENTS_TARGET` chooses another server to run the same tests against, in the words of the conformance suite's targets:
`kafka`, `kfake`, `HOST:PORT`.
"""

import os
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_shim.conformance.targets import open_target

from .harness import CLIENTS, ClientProcesses

TARGET = os.environ.get("CLIENTS_TARGET", "shim")


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """The address of a running server that permits short sessions and does not delay the first round."""
    target = open_target(TARGET)
    try:
        instance = target.start("default")
        yield f"{instance.host}:{instance.port}"
    finally:
        target.stop()


@pytest.fixture
def name() -> str:
    """Return a name that no other test uses."""
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def make_topic(admin: AdminClient, name: str) -> Callable[..., str]:
    """Return a maker of topics with names of this test alone."""

    def make(partitions: int, suffix: str = "") -> str:
        topic = f"{name}{suffix}"
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)
        return topic

    return make


@pytest.fixture
def processes(bootstrap: str, name: str) -> Iterator[ClientProcesses]:
    members = ClientProcesses(bootstrap, f"{name}-group")
    yield members
    members.end()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that has a `client` with every client that has the features of its `needs` mark."""
    if "client" in metafunc.fixturenames:
        marks = [mark.args[0] for mark in metafunc.definition.iter_markers("needs")]
        fit = [client for client in CLIENTS.values() if all(getattr(client, need) for need in marks)]
        metafunc.parametrize("client", fit, ids=lambda client: client.name)
