"""Real clients authenticate with each mechanism over TLS, in one group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import GroupAuthorizationFailedError as AioGroupAuthorizationFailedError
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaError
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.errors import GroupAuthorizationFailedError, KafkaTimeoutError, SaslAuthenticationFailedError

from kafka_shim.security.config import MECHANISMS
from kafka_shim.testing import CoordinatorServer, polling

RECORDS = 8


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    users = {"alice": 'wonder"land', "bob": "b=u,ilder"}
    with CoordinatorServer(topics={"orders": 4}, security="SASL_SSL", users=users) as made:
        made.produce("orders", *(b"%d" % number for number in range(RECORDS)))
        yield made


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_of_one_group_authenticate(server: CoordinatorServer, mechanism: str) -> None:
    group = f"group-{mechanism}"
    settings = server.client_settings("kafka-python", "alice", mechanism)
    ours = KafkaConsumer("orders", bootstrap_servers=server.bootstrap, group_id=group, **settings)
    theirs = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        | server.client_settings("confluent-kafka", "bob", mechanism)
    )
    theirs.subscribe(["orders"])

    async def third() -> int:
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=server.bootstrap,
            group_id=f"{group}-3",
            auto_offset_reset="earliest",
            **server.client_settings("aiokafka", "alice", mechanism),
        )
        await consumer.start()
        try:
            return len([await consumer.getone() for _ in range(RECORDS)])
        finally:
            await consumer.stop()

    try:
        with polling(ours, theirs) as polled:
            # A leader that does not know the topic yet assigns nothing, and the group is stable for a moment.
            members = server.group(group).consuming(members=2, timeout=60).members
            assert [len(member.owned["orders"]) for member in members] == [2, 2]
            polled.call(ours.commit)
        principals = server.call(lambda: {each.client.principal for each in server.kit.cluster.sessions()})
        assert {"User:alice", "User:bob"} <= principals
    finally:
        theirs.close()
        ours.close()
    assert asyncio.run(third()) == RECORDS


def test_librdkafka_reports_a_wrong_password(server: CoordinatorServer) -> None:
    errors: list[Any] = []
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "wrong", "error_cb": errors.append}
        | server.client_settings("confluent-kafka", "alice", "SCRAM-SHA-512")
        | {"sasl.password": "wrong"}
    )
    try:
        while not any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            consumer.poll(0.1)
    finally:
        consumer.close()
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in str(errors)


def test_anything_is_accepted_on_request() -> None:
    with CoordinatorServer(topics={"orders": 1}, security="SASL_SSL", accept="anything") as server:
        settings = server.client_settings("kafka-python") | {
            "sasl_plain_username": "service",
            "sasl_plain_password": "from the vault",
        }
        consumer = KafkaConsumer(bootstrap_servers=server.bootstrap, **settings)
        assert consumer.topics() == {"orders"}
        consumer.close()


def test_clients_show_the_certificate_that_a_listener_asks_for() -> None:
    config = {
        "ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": r"User:CN=alice;User:CN=bob\, the builder",
    }
    with CoordinatorServer(topics={"orders": 1}, security="SSL", config=config) as server:
        admin = AdminClient(
            {"bootstrap.servers": server.bootstrap} | server.client_settings("confluent-kafka", "alice")
        )
        assert "orders" in admin.list_topics(timeout=10).topics
        consumer = KafkaConsumer(
            bootstrap_servers=server.bootstrap, **server.client_settings("kafka-python", "bob, the builder")
        )
        assert consumer.topics() == {"orders"}
        consumer.close()


def test_python_clients_report_a_wrong_password(server: CoordinatorServer, caplog: pytest.LogCaptureFixture) -> None:
    settings = server.client_settings("kafka-python", "alice", "PLAIN") | {"sasl_plain_password": "wrong"}
    # It tries again until its deadline. An answer that comes together with the end of the connection gets lost in it.
    with caplog.at_level(logging.WARNING):
        while "Invalid username or password" not in caplog.text:
            with pytest.raises((SaslAuthenticationFailedError, KafkaTimeoutError)):
                KafkaConsumer(bootstrap_servers=server.bootstrap, bootstrap_timeout_ms=1000, **settings)

    async def start() -> None:
        settings = server.client_settings("aiokafka", "alice", "PLAIN") | {"sasl_plain_password": "wrong"}
        consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap, **settings)
        try:
            await consumer.start()
        finally:
            await consumer.stop()

    with pytest.raises(KafkaConnectionError):
        asyncio.run(start())


def test_clients_say_that_a_group_is_denied_and_come_back() -> None:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with CoordinatorServer(topics={"orders": 1}, security="SASL_SSL", users={"alice": "a"}, config=config) as strict:
        strict.produce("orders", b"1")

        strict.deny("alice", "READ", group="billing")
        ours = KafkaConsumer(
            "orders",
            bootstrap_servers=strict.bootstrap,
            group_id="billing",
            auto_offset_reset="earliest",
            **strict.client_settings("kafka-python", "alice"),
        )
        with pytest.raises(GroupAuthorizationFailedError):
            ours.poll(timeout_ms=20_000)
        strict.clear_acls()
        while not ours.poll(timeout_ms=1000):
            pass
        ours.close()

        strict.deny("alice", "READ", group="shipping")
        theirs = Consumer(
            {"bootstrap.servers": strict.bootstrap, "group.id": "shipping", "auto.offset.reset": "earliest"}
            | strict.client_settings("confluent-kafka", "alice")
        )
        theirs.subscribe(["orders"])
        assert next_message(theirs).error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        strict.clear_acls()
        while (message := next_message(theirs)).error() is not None:
            pass
        assert message.value() == b"1"
        theirs.close()

        strict.deny("alice", "READ", group="audit")
        # Its start or its first read raises the refusal.
        with pytest.raises(AioGroupAuthorizationFailedError):
            asyncio.run(first_value(strict))
        strict.clear_acls()
        assert asyncio.run(first_value(strict)) == b"1"


def next_message(consumer: Consumer) -> Any:
    message = None
    while message is None:
        message = consumer.poll(0.1)
    return message


async def first_value(strict: CoordinatorServer) -> bytes:
    """Return the first record that a new consumer of aiokafka gets."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=strict.bootstrap,
        group_id="audit",
        auto_offset_reset="earliest",
        **strict.client_settings("aiokafka", "alice"),
    )
    try:
        await consumer.start()
        return bytes((await consumer.getone()).value)
    finally:
        await consumer.stop()
