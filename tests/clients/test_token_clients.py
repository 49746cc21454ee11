"""Java's tools create, show, renew and end a delegation token, and consumers of Java and Go log in by one."""

from __future__ import annotations

import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_shim.apis.create_delegation_token import CreateDelegationTokenRequest
from kafka_shim.conformance.clients.client_processes import OTHER_LANGUAGES
from kafka_shim.groups.interface import Client
from kafka_shim.security.token_requests import create_token
from kafka_shim.testing import CoordinatorServer

from .harness import ClientProcesses, all_of
from .test_kafka_tools import run_tool, tools_class_path

__all__ = ["tools_class_path"]

pytestmark = pytest.mark.second_stage("real clients")

TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
RECORDS = 3
KEY = {"delegation.token.secret.key": "a key of many words"}
USERS = {"alice": "wonderland", "bob": "builder"}

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 1}, security="SASL_PLAINTEXT", users=USERS, config=KEY) as made:
        for number in range(RECORDS):
            made.produce("orders", b"%d" % number, partition=0)
        yield made


@pytest.fixture
def tool(tools_class_path: str, server: CoordinatorServer, tmp_path: Path) -> Tool:
    """Return a function that runs a tool with the settings of a client, and returns its output."""

    def run(name: str, settings: dict[str, str], *arguments: str) -> str:
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return run_tool(tools_class_path, server.bootstrap, name, "--command-config", str(file), *arguments)

    return run


def by_token(token_id: str, hmac: str) -> dict[str, str]:
    """Return the settings of a client with a token."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token_id}" password="{hmac}" tokenauth="true";',
    }


def listed(output: str) -> list[list[str]]:
    """Return the columns of the tokens in a table of the tool."""
    return [line.split() for line in output.splitlines() if re.match(r"[\w-]{22}\s", line)]


@pytest.mark.everything("a JVM for each of its commands")
def test_java_makes_a_token_and_consumes_by_it(tool: Tool, server: CoordinatorServer) -> None:
    alice, bob = (server.client_settings("java", user, "SCRAM-SHA-512") for user in ("alice", "bob"))
    ((token_id, hmac, owner, requester, renewers, *_),) = listed(
        tool(TOKENS, alice, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    )
    assert (owner, requester, renewers.strip("[]")) == ("User:alice", "User:alice", "User:bob")
    # Without an owner the tool sends an empty list, for which Kafka has no tokens.
    owned = "--describe", "--owner-principal", "User:alice"
    ((again, same, *_),) = listed(tool(TOKENS, bob, *owned))
    assert (again, same) == (token_id, hmac)
    assert "Completed renew operation" in tool(TOKENS, bob, "--renew", "--renew-time-period", "-1", "--hmac", hmac)

    settings = by_token(token_id, hmac)
    options = ["--topic", "orders", "--group", "billing", "--from-beginning", "--max-messages", str(RECORDS)]
    assert sorted(tool(CONSUMER, settings, *options, "--timeout-ms", "30000").split()) == ["0", "1", "2"]

    tool(TOKENS, alice, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert listed(tool(TOKENS, alice, *owned)) == []
    with pytest.raises(AssertionError, match="invalid credentials with SASL mechanism SCRAM-SHA-512"):
        tool("org.apache.kafka.tools.TopicCommand", settings, "--list")


@pytest.mark.parametrize(
    "adapters",
    [("Adapter.java",), pytest.param(("Adapter.java", "franz.go"), marks=pytest.mark.everything("Go and Node.js"))],
    ids="-".join,
)
def test_clients_of_other_languages_consume_by_a_token(adapters: tuple[str, ...]) -> None:
    topics = {"orders": 4}
    with CoordinatorServer(topics=topics, security="SASL_SSL", users=USERS, config=KEY) as server:
        for number in range(8):
            server.produce("orders", b"%d" % number, partition=number % 4)
        assert server.security is not None
        config = server.security.config
        assert config is not None
        now, alice = int(time.time() * 1000), Client("", "", "User:alice", is_proved=True)
        made = server.call(lambda: create_token(CreateDelegationTokenRequest(), alice, config.tokens, now))
        user, password = made.token_id, b64encode(made.hmac).decode()
        processes = ClientProcesses(server.bootstrap, "billing")
        java = server.client_settings("java", "bob", "SCRAM-SHA-512") | by_token(user, password)
        try:
            members = [
                processes.start(
                    client,
                    topics=["orders"],
                    assignors=["roundrobin"],
                    security={
                        "ca": server.ca_file,
                        "mechanism": "SCRAM-SHA-512",
                        "user": user,
                        "password": password,
                        "is_token": True,
                    },
                    options=java | {"security.protocol": "SASL_SSL"},
                )
                for client in OTHER_LANGUAGES.values()
                if client.adapter in adapters
            ]
            processes.shared(members, all_of(topics), [4 // len(members)] * len(members))
            processes.consumed(members, "orders", 8)
            principals = server.call(
                lambda: {(each.client.client_id, each.client.principal) for each in server.kit.cluster.sessions()}
            )
            for member in members:
                assert (member.name, "User:alice") in principals
                member.close()
        finally:
            processes.end()
