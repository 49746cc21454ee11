"""Clients in Java, Go and JavaScript authenticate with each mechanism over TLS.

Those in Java and Go are in one group. KafkaJS has no assignor in common with them, and is in its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_shim.conformance.clients.client_processes import OTHER_LANGUAGES
from kafka_shim.security.config import MECHANISMS
from kafka_shim.testing import CoordinatorServer
from kafka_shim.testing.secured import unsecured_token

from .harness import ClientProcesses, all_of

pytestmark = pytest.mark.second_stage("real clients")

USERS = {"alice": "wonder land", "bob": "builder"}
RECORDS = 12
GROUPS = [
    ("Adapter.java",),
    *(
        pytest.param(adapters, marks=pytest.mark.everything("Go and Node.js"))
        for adapters in (("Adapter.java", "franz.go"), ("kafkajs.js",))
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    topics = {f"orders-{each}": 4 for each in MECHANISMS}
    with CoordinatorServer(topics=topics, security="SASL_SSL", users=USERS) as made:
        for topic in topics:
            for number in range(RECORDS):
                made.produce(topic, b"%d" % number, partition=number % 4)
        yield made


@pytest.mark.parametrize("adapters", GROUPS, ids="-".join)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_of_other_languages_authenticate(
    server: CoordinatorServer, mechanism: str, adapters: tuple[str, ...]
) -> None:
    topic = f"orders-{mechanism}"
    processes = ClientProcesses(server.bootstrap, f"group-{mechanism}-{'-'.join(adapters)}")
    security = {"ca": server.ca_file, "mechanism": mechanism, "user": "bob", "password": USERS["bob"]}
    if mechanism == "OAUTHBEARER":
        security["token"] = unsecured_token("bob")
    try:
        members = [
            processes.start(
                client,
                topics=[topic],
                assignors=["roundrobin"],
                security=security,
                options=server.client_settings("java", "alice", mechanism),
            )
            for client in OTHER_LANGUAGES.values()
            if client.adapter in adapters
        ]
        processes.shared(members, all_of({topic: 4}), [4 // len(members)] * len(members))
        processes.consumed(members, topic, RECORDS)
        principals = server.call(
            lambda: {(each.client.client_id, each.client.principal) for each in server.kit.cluster.sessions()}
        )
        for member in members:
            assert (member.name, "User:alice" if member.name.startswith("java") else "User:bob") in principals
            member.close()
    finally:
        processes.end()
