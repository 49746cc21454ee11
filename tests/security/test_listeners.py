"""Listeners and certificates by Kafka's settings."""

import ssl
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_shim.security import tls
from kafka_shim.security.certificates import TestAuthority
from kafka_shim.security.config import public_settings, security_of
from kafka_shim.security.listeners import Listener, Protocol, listeners_of


def test_listeners_have_protocols_and_addresses_of_their_own() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:9092, inside://[::1]:0,SASL_SSL://:9094",
        "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT",
        "advertised.listeners": "SASL_SSL://kafka.example:19094",
    }
    assert listeners_of(settings) == (
        Listener("PLAINTEXT", Protocol.PLAINTEXT, "127.0.0.1", 9092),
        Listener("INSIDE", Protocol.SASL_PLAINTEXT, "::1", 0),
        Listener("SASL_SSL", Protocol.SASL_SSL, "", 9094, ("kafka.example", 19094)),
    )


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"listeners": "PLAINTEXT:9092"}, "NAME://HOST:PORT"),
        ({"listeners": "A://h:1"}, "has no protocol"),
        ({"listeners": "SSL://h:1,ssl://h:2"}, "twice"),
        ({"listeners": "SSL://h:70000"}, "NAME://HOST:PORT"),
        ({"listeners": "SSL://h:1", "listener.security.protocol.map": "A:TLS"}, "NAME:PROTOCOL"),
        ({"listeners": "SSL://h:1", "advertised.listeners": "A://h:1"}, "not in listeners"),
        ({"listeners": "SASL_SSL://h:1"}, "sasl.enabled.mechanisms"),
        ({"listeners": "SASL_SSL://h:1", "sasl.enabled.mechanisms": "GSSAPI"}, "not served"),
        ({"listeners": "SSL://h:1", "connections.max.reauth.ms": "x"}, "not a number"),
        (
            {
                "listeners": "SASL_SSL://h:1",
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_ssl.plain.connections.max.reauth.ms": "soon",
            },
            "not a number",
        ),
        ({"listeners": ""}, "no listener"),
        ({"authorizer.class.name": "A"}, "authorizer.class.name has no effect without the setting listeners"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        security_of(settings)


def test_a_mechanism_of_a_listener_has_its_own_longest_session() -> None:
    security = security_of(
        {
            "listeners": "SASL_PLAINTEXT://h:1,SASL_SSL://h:2",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "connections.max.reauth.ms": "60000",
            "listener.name.SASL_SSL.PLAIN.connections.max.reauth.ms": "1500",
        }
    )
    assert security is not None
    assert [security.lifetimes(listener) for listener in security.listeners] == [
        {"PLAIN": 60.0, "SCRAM-SHA-256": 60.0},
        {"PLAIN": 1.5, "SCRAM-SHA-256": 60.0},
    ]


def test_users_of_a_jaas_setting_have_their_passwords() -> None:
    made = security_of(
        {
            "listeners": "SASL_PLAINTEXT://h:1",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.SASL_PLAINTEXT.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
            r'PlainLoginModule required username="b" password="b" user_alice="sec\"ret" user_bob="x";',
        }
    )
    assert made is not None
    assert made.users.has_password("alice", 'sec"ret')
    assert made.users.has_password("bob", "x")
    assert not made.users.has_password("b", "b")
    assert "sec" not in repr(made)


def test_settings_with_secrets_are_not_public() -> None:
    settings = {
        "listeners": "SSL://h:1",
        "ssl.keystore.key": "KEY",
        "listener.name.a.plain.sasl.jaas.config": "PASSWORD",
        "num.partitions": "3",
    }
    assert public_settings(settings) == {"listeners": "SSL://h:1", "num.partitions": "3"}


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", "CN=alice,O=Acme", "CN=alice,O=Acme"),
        ("RULE:^CN=(.*?),O=Acme$/$1/, DEFAULT", "CN=alice,O=Acme", "alice"),
        ("RULE:^CN=(.*?),O=Acme$/$1/U", "CN=alice,O=Acme", "ALICE"),
        ("RULE:^CN=(.*?),O=Acme$/$1@acme/L", "CN=Alice,O=Acme", "alice@acme"),
        ("RULE:^CN=(.*?),O=Acme$/$1/", "CN=alice,O=Other", None),
    ],
)
def test_rules_map_names_as_in_kafka(rules: str, name: str, principal: str | None) -> None:
    assert tls.mapping(rules)(name) == principal


@given(st.text(max_size=60))
def test_any_rules_are_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        tls.mapping(text)("CN=alice")


def test_names_are_in_the_order_and_the_text_of_rfc_2253() -> None:
    certificate = {"subject": ((("organizationName", "Acme, Inc."),), (("commonName", "#alice "),))}
    assert tls.name_of(certificate) == r"CN=\#alice\ ,O=Acme\, Inc."


def test_a_context_takes_the_key_from_settings() -> None:
    authority = TestAuthority()
    issued = authority.server()
    settings = {
        "ssl.keystore.key": issued.key,
        "ssl.keystore.certificate.chain": issued.certificate,
        "ssl.truststore.certificates": authority.certificate,
        "ssl.client.auth": "required",
    }
    context = tls.context_of(settings)
    assert context.verify_mode is ssl.CERT_REQUIRED
    for name in ("ssl.keystore.key", "ssl.truststore.certificates", "ssl.keystore.type"):
        with pytest.raises(ValueError, match=r"ssl\.") as caught:
            tls.context_of(settings | {name: "unfit"})
        assert issued.key[30:60] not in str(caught.value)


def test_java_reads_the_truststore_of_a_test_authority() -> None:
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = pkcs12.load_pkcs12(TestAuthority().java_truststore("changeit"), b"changeit")
    assert [each.friendly_name for each in store.additional_certs] == [b"kafka-shim"]
