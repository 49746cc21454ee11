"""Kafka's client settings of `--command-config`, with listeners of each protocol, and each wrong setting in a
sentence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.cli import cli
from kafka_shim.security.certificates import TestAuthority
from kafka_shim.security.config import STANDARD_AUTHORIZER
from kafka_shim.sources.offsets_topic.connection import Connection, Unreadable
from kafka_shim.sources.offsets_topic.settings import Security, UnusableSettings, properties, security_of
from kafka_shim.testing import CoordinatorServer
from tests.sources.offsets_topic.test_live import address_of

USERS = {"alice": 'wonder, "land"=\\'}


def written(folder: Path, settings: dict[str, Any]) -> Path:
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={str(value)!s}\n" for name, value in settings.items()))
    return file


def why(server: CoordinatorServer, *options: object, group: str = "billing") -> Any:
    return CliRunner().invoke(cli, ["why", group, "--kafka", server.bootstrap, *map(str, options)])


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_secured_cluster_is_read(protocol: str, mechanism: str, tmp_path: Path) -> None:
    users = {"alice": "wonderland"} if protocol.startswith("SASL") else None
    with CoordinatorServer(security=protocol, users=users) as server:
        file = written(tmp_path, server.client_settings("java", "alice" if users else None, mechanism))
        security = security_of(file)
        assert security.protocol == protocol
        connection = Connection(*address_of(server.bootstrap), security)
        connection.ask(FindCoordinatorRequest(key="billing"), FindCoordinatorResponse, 0)
        connection.close()
        assert why(server, "--command-config", file).stderr.startswith("kafka-shim: There is no group billing in __c")
        without = why(server)
        assert without.exit_code == 5
        wanted = "TLS" if protocol.endswith("SSL") else "SASL"
        assert wanted in without.stderr
        assert "--command-config" in without.stderr


def test_a_wrong_password_is_said_without_the_password(tmp_path: Path) -> None:
    with CoordinatorServer(security="SASL_PLAINTEXT", users={"alice": "wonderland"}) as server:
        settings = server.client_settings("java", "alice", "SCRAM-SHA-256")
        settings["sasl.jaas.config"] = str(settings["sasl.jaas.config"]).replace("wonderland", "mistaken")
        answer = why(server, "--command-config", written(tmp_path, settings))
    assert answer.exit_code == 5
    assert "refuses the user alice: " in answer.stderr
    assert "mistaken" not in answer.stderr


def test_a_certificate_of_another_authority_is_said(tmp_path: Path) -> None:
    other = tmp_path / "ca.pem"
    other.write_text(TestAuthority().certificate)
    with CoordinatorServer(security="SSL") as server:
        settings = {"security.protocol": "SSL", "ssl.truststore.location": other, "ssl.truststore.type": "PEM"}
        answer = why(server, "--command-config", written(tmp_path, settings))
    assert answer.exit_code == 5
    assert "is not trusted" in answer.stderr
    assert "ssl.truststore.location" in answer.stderr


def test_tls_to_a_plain_listener_is_said() -> None:
    import ssl

    with CoordinatorServer() as server, pytest.raises(Unreadable, match="does not take part in TLS"):
        Connection(*address_of(server.bootstrap), Security(ssl.create_default_context()))


def test_a_missing_right_is_said(tmp_path: Path) -> None:
    with CoordinatorServer(
        security="SASL_PLAINTEXT",
        users={"alice": "wonderland"},
        config={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"},
    ) as server:
        server.allow("alice", "DESCRIBE", group="billing")
        file = written(tmp_path, server.client_settings("java", "alice", "PLAIN"))
        answer = why(server, "--command-config", file)
    assert answer.exit_code == 5
    assert answer.stderr.startswith(
        "Error: TOPIC_AUTHORIZATION_FAILED: the user alice has no right to read __consumer_offsets; it needs the ACLs"
    )


def test_a_file_of_settings_is_read_as_java_does() -> None:
    text = (
        "# a comment\n! another\n  security.protocol = SASL_SSL\nsasl.mechanism:PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \\\n    required \\\n"
        '  username="alice" password="\\\\u0041";\nempty\ntail\\=part=\\u0042\\t\n'
    )
    assert properties(text) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="alice" password="\\u0041";',
        "empty": "",
        "tail=part": "B",
    }


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "


def test_a_password_may_have_any_letters(tmp_path: Path) -> None:
    quoted = USERS["alice"].replace("\\", "\\\\").replace('"', '\\"')
    login = f'{PLAIN}username="alice" password="{quoted}" ;'.replace("\\", "\\\\")
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}
    security = security_of(written(tmp_path, settings))
    assert (security.user, security.password) == ("alice", USERS["alice"])
    assert USERS["alice"] not in repr(security)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"security.protocol": "TLS"}, "is TLS; it may be PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."),
        ({"ssl.cipher.suites": "A"}, "has ssl.cipher.suites, a setting of security that is not understood here"),
        ({"sasl.login.class": "A"}, "has sasl.login.class, a setting of security that is not understood here"),
        ({"security.protocol": "SASL_SSL"}, "is GSSAPI; only PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 work here."),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            "PLAIN needs sasl.jaas.config in ",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN + 'user="a";'},
            "has no username, or no password.",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "FILE"}, "no PEM file but JKS: write it as PEM"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/nowhere"}, "which cannot be read: No such file"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "has neither TLSv1.2 nor TLSv1.3."),
        (
            {"security.protocol": "SSL", "ssl.truststore.certificates": "-----BEGIN"},
            "The certificates of ssl.truststore in ",
        ),
    ],
)
def test_wrong_settings_are_one_sentence(settings: dict[str, str], sentence: str, tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    file = written(tmp_path, {name: str(store) if value == "FILE" else value for name, value in settings.items()})
    with pytest.raises(UnusableSettings) as raised:
        security_of(file)
    assert sentence in str(raised.value)
    assert str(raised.value).endswith((".", ";"))


def test_settings_without_security_are_skipped(tmp_path: Path) -> None:
    assert security_of(written(tmp_path, {"client.id": "me", "request.timeout.ms": 5})) == Security()
    assert security_of(None) == Security()


def test_names_of_hosts_are_compared_unless_the_setting_is_empty(tmp_path: Path) -> None:
    for value, compared in (("https", True), ("", False)):
        settings = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": value}
        context = security_of(written(tmp_path, settings)).context
        assert context is not None
        assert context.check_hostname is compared
