"""Listeners by name of processes that share a PostgreSQL: addresses, certificates of each other, ACLs and users."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafka_shim.apis.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kafka_shim.apis.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataResponse
from kafka_shim.conformance.targets.base import free_port
from kafka_shim.security.certificates import TestAuthority
from kafka_shim.security.config import STANDARD_AUTHORIZER
from kafka_shim.security.operations import Operation, Resource
from tests import postgres
from tests.server.shared import Process
from tests.server.test_delegation_tokens import create, described, expire, log_in, renew
from tests.server.test_secured import choose, prove
from tests.server.wire import Client
from tests.waiting import PATIENCE_S, until

pytestmark = [
    pytest.mark.second_stage("several servers on PostgreSQL"),
    pytest.mark.skipif(postgres.binaries() is None, reason="PostgreSQL's initdb is not installed"),
]

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="a" user_alice="a" user_eve="a";'


class Secured(Process):
    """A process with a listener for clients, and one with certificates of clients for the other processes."""

    def __init__(self, url: str, node_id: int, folder: Path) -> None:
        self.login, self.inside = free_port(), free_port()
        settings = {
            "listeners": f"LOGIN://127.0.0.1:{self.login},INSIDE://127.0.0.1:{self.inside}",
            "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT,INSIDE:SSL",
            "inter.broker.listener.name": "INSIDE",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.login.plain.sasl.jaas.config": JAAS,
            "listener.name.inside.ssl.client.auth": "required",
            "ssl.keystore.location": str(folder / "node.pem"),
            "ssl.truststore.location": str(folder / "ca.pem"),
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:CN=kafka-shim;User:admin",
            "delegation.token.secret.key": "a key of many words",
            "delegation.token.expiry.check.interval.ms": "500",
        }
        options = [word for name, value in settings.items() for word in ("--config", f"{name}={value}")]
        super().__init__(url, node_id, "--lease", "3", "--topic", "orders:6", *options, listen=False)


class As(Client):
    """A connection of a user to the listener for clients."""

    def __init__(self, process: Secured, user: str) -> None:
        super().__init__(f"127.0.0.1:{process.login}")
        assert choose(self).error_code == 0
        assert prove(self, f"\0{user}\0a".encode()).error_code == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority = TestAuthority()
    issued = authority.server()
    (folder / "ca.pem").write_text(authority.certificate)
    (folder / "node.pem").write_text(issued.key + issued.certificate)
    return folder


@pytest.fixture(scope="module")
def both(folder: Path) -> Iterator[list[Secured]]:
    with postgres.postgres_server() as url:
        made = [Secured(url, node_id, folder) for node_id in (1, 2)]
        try:
            for process in made:
                process.start()
            for process in made:
                process.ready()
            query = (
                "SELECT count(*) FROM kafka_shim_leases leases JOIN kafka_shim_nodes USING (incarnation) "
                "WHERE leases.expires > now() GROUP BY incarnation"
            )
            with psycopg.connect(url, autocommit=True) as connection:
                until(lambda: [row[0] for row in connection.execute(query)] == [25, 25])
            for process in made:
                until(lambda process=process: coordinators_of(process) >= {1, 2} and len(brokers_of(process)) == 2)
            yield made
        finally:
            for process in made:
                process.kill()


def brokers_of(process: Secured) -> dict[int, int]:
    """Return the port of each broker, as a client of the process sees it."""
    with As(process, "admin") as client:
        answer = client.ask(MetadataRequest([]), 9, MetadataResponse)
    return {each.node_id: each.port for each in answer.brokers}


def coordinators_of(process: Secured) -> set[int]:
    """Return the nodes that coordinate some groups; none if one has no coordinator."""
    request = FindCoordinatorRequest(coordinator_keys=["g", *(f"group-{number}" for number in range(20))])
    with As(process, "admin") as client:
        found = client.ask(request, 4, FindCoordinatorResponse).coordinators
    return set() if any(each.error_code for each in found) else {each.node_id for each in found}


def test_each_process_knows_the_others_by_the_listener_of_the_client(both: list[Secured]) -> None:
    expected = {process.node_id: process.login for process in both}
    assert [brokers_of(process) for process in both] == [expected, expected]
    with As(both[0], "admin") as client:
        for group in range(20):
            request = FindCoordinatorRequest(coordinator_keys=[f"group-{group}"])
            (found,) = client.ask(request, 4, FindCoordinatorResponse).coordinators
            assert expected[found.node_id] == found.port
    assert both[0].bootstrap == f"127.0.0.1:{both[0].login}"


def creation(user: str, resource: int, name: str, operation: int) -> AclCreation:
    return AclCreation(resource, name, 3, f"User:{user}", "*", operation, 3)


def test_an_acl_of_one_process_counts_at_the_other(both: list[Secured]) -> None:
    made = CreateAclsRequest([creation("alice", Resource.GROUP, "g", Operation.READ)])
    with As(both[0], "admin") as admin:
        assert [each.error_code for each in admin.ask(made, 3, CreateAclsResponse).results] == [0]
        every = DescribeAclsRequest(1, None, 1, "User:alice", None, 1, 1)
        assert len(admin.ask(every, 3, DescribeAclsResponse).resources) == 1

    def seen() -> Any:
        with As(both[1], "admin") as admin:
            return admin.ask(every, 3, DescribeAclsResponse).resources

    until(seen)
    with As(both[1], "alice") as alice, As(both[1], "eve") as eve:
        request = FindCoordinatorRequest(coordinator_keys=["g"])
        codes = [each.ask(request, 4, FindCoordinatorResponse).coordinators[0].error_code for each in (alice, eve)]
    assert codes == [0, 30]


def test_a_transaction_of_both_processes_commits(both: list[Secured]) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{both[0].login}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "a",
    }
    producer = Producer(settings | {"transactional.id": "sale"})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    for partition in range(6):
        producer.produce("orders", b"sold", partition=partition)
    producer.commit_transaction(PATIENCE_S)
    consumer = Consumer(settings | {"group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("orders", partition) for partition in range(6)])
    found = [consumer.poll(PATIENCE_S) for _ in range(6)]
    assert sorted(message.partition() for message in found if message is not None) == [*range(6)]
    consumer.close()


def test_a_password_that_one_process_has_set_counts_at_the_other(both: list[Secured]) -> None:
    def settings(process: Secured, user: str, password: str, mechanism: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": f"127.0.0.1:{process.login}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 0,
        }

    admin = AdminClient(settings(both[0], "admin", "a", "PLAIN"))
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    for future in admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", info, b"word")]).values():
        future.result(PATIENCE_S)
    at_the_other = AdminClient(settings(both[1], "bob", "word", "SCRAM-SHA-256"))
    assert len(at_the_other.list_topics(timeout=PATIENCE_S).brokers) == 2


@pytest.mark.parametrize("certified", [None, "other", "node"])
def test_the_listener_of_the_processes_takes_certificates_of_its_authority(
    both: list[Secured], folder: Path, tmp_path: Path, certified: str | None
) -> None:
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if certified == "other":
        issued = TestAuthority().client("node")
        (tmp_path / "other.pem").write_text(issued.key + issued.certificate)
        context.load_cert_chain(tmp_path / "other.pem")
    elif certified == "node":
        context.load_cert_chain(folder / "node.pem")
    served = False
    with socket.create_connection(("127.0.0.1", both[0].inside), PATIENCE_S) as raw:
        try:
            with context.wrap_socket(raw, server_hostname="127.0.0.1") as wire:
                # ApiVersions, version 0
                wire.sendall(bytes.fromhex("0000000a00120000000000010000"))
                served = bool(wire.recv(4))
        except OSError:
            served = False
    assert served == (certified == "node")


def test_a_token_of_one_process_counts_at_both_until_its_removal(both: list[Secured]) -> None:
    with As(both[0], "alice") as alice:
        made, other = create(alice, "eve"), create(alice)

    def logs_in(process: Secured) -> bool:
        with Client(f"127.0.0.1:{process.login}") as client:
            return log_in(client, made, "SCRAM-SHA-256").error_code == 0

    for process in both:
        until(lambda process=process: logs_in(process))
    with As(both[1], "eve") as eve:
        assert described(eve) == [made.token_id]
        assert renew(eve, made.hmac) == 0
        assert renew(eve, other.hmac) == 63
        assert expire(eve, made.hmac) == 0
    for process in both:
        until(lambda process=process: not logs_in(process))
    with As(both[0], "alice") as alice, As(both[1], "alice") as again:
        assert expire(alice, other.hmac, 0) == 0
        for client in (alice, again):
            until(lambda client=client: described(client) == [])
