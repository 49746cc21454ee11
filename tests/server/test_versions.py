"""Every version that a release advertises is served, and no other."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.profiles import PROFILES, is_served
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.server import ServerConfig
from kafka_shim.testing import CoordinatorServer
from tests.server.wire import Client

PRODUCE = 0


@pytest.fixture(scope="module", params=PROFILES)
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, CoordinatorServer]]:
    config = ServerConfig(cluster=ClusterConfig(release=request.param))
    with CoordinatorServer(server_config=config) as server:
        yield request.param, server


def plain(key: int) -> Message:
    """Return a simple request that is answered at once, possibly with an error."""
    message = APIS[key].request()
    if key == PRODUCE:
        message.acks = 1
    return message


def test_each_version_that_is_advertised_is_answered(served: tuple[str, CoordinatorServer]) -> None:
    release, server = served
    answered = 0
    for key, (lowest, highest) in PROFILES[release].items():
        for version in range(lowest, highest + 1):
            if not is_served(release, key, version):
                # Kafka 4 advertises Produce from version 0 for old clients, and serves it from version 3.
                assert (key, version < 3) == (PRODUCE, True)
                continue
            with Client(server.bootstrap) as client:
                kind = APIS[key].response
                assert isinstance(client.ask(plain(key), version, kind), kind)
                answered += 1
    assert answered > 100


def test_unadvertised_versions_end_the_connection(served: tuple[str, CoordinatorServer]) -> None:
    release, server = served
    for key, (lowest, highest) in PROFILES[release].items():
        for version in (lowest - 1, highest + 1):
            if key == ApiKey.API_VERSIONS:
                continue
            header = encode_request_header(key, version, 1, "test")
            with Client(server.bootstrap) as client:
                client.socket.sendall(frame(header + struct.pack(">16x")))
                assert client.is_closed_by_server(), (APIS[key].name, version)
