"""`kafka-shim certificates`: real clients and a server use the files by the settings that the command prints."""

import os
import subprocess
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
from kafka import KafkaConsumer

from kafka_shim.cli import cli
from kafka_shim.conformance.clients.builds import ClientMissing
from kafka_shim.conformance.clients.client_processes import OTHER_LANGUAGES
from kafka_shim.testing import CoordinatorServer


def made(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, ["certificates", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def settings(output: str, title: str) -> dict[str, Any]:
    """Return the settings under a title."""
    lines = output.splitlines()
    block = lines[lines.index(f"{title}:") + 1 :]
    pairs = [line.strip().partition("=") for line in takewhile(lambda line: line.startswith("  "), block)]
    return {name: value for name, _, value in pairs}


def test_clients_connect_by_the_printed_settings(tmp_path: Path) -> None:
    output = made(tmp_path / "made", "--client", "alice, the first", "--host", "broker.test")
    assert r"The client is User:CN=alice\, the first." in output
    # Only the principal of the certificate may see the topic. A list of connections would not show it: librdkafka
    # closes the one that it bootstraps by before it opens another.
    config = settings(output, "Settings of kafka-shim serve (--config) or Kafka") | {
        "listeners": "SSL://127.0.0.1:0",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": r"User:CN=alice\, the first",
    }
    with CoordinatorServer(topics={"orders": 1}, config=config) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap} | settings(output, "confluent-kafka"))
        assert "orders" in admin.list_topics(timeout=10).topics
        consumer = KafkaConsumer(bootstrap_servers=server.bootstrap, **settings(output, "kafka-python"))
        assert consumer.topics() == {"orders"}
        consumer.close()


KAFKAJS = """
const fs = require('fs')
const { Kafka } = require('kafkajs')
LINES
const admin = kafka.admin()
admin.connect().then(() => admin.listTopics()).then(console.log).then(() => admin.disconnect())
"""


@pytest.mark.everything("Go and Node.js")
def test_kafkajs_connects_by_the_printed_lines(tmp_path: Path) -> None:
    output = made(tmp_path / "made", "--client", "alice")
    config = settings(output, "Settings of kafka-shim serve (--config) or Kafka") | {"listeners": "SSL://127.0.0.1:0"}
    (client,) = [each for each in OTHER_LANGUAGES.values() if each.name.startswith("kafkajs")]
    try:
        built = Path(client.command()[-1]).parent
    except ClientMissing as missing:
        pytest.skip(str(missing))
    lines = output.splitlines()
    text = "\n".join(lines[lines.index("KafkaJS:") + 1 : lines.index("franz-go:")])
    with CoordinatorServer(topics={"orders": 1}, config=config) as server:
        text = text.replace("new Kafka({ ...,", f"const kafka = new Kafka({{ brokers: ['{server.bootstrap}'],")
        (tmp_path / "list.js").write_text(KAFKAJS.replace("LINES", text))
        environment = os.environ | {"NODE_PATH": str(built / "node_modules")}
        command = [client.command()[0], str(tmp_path / "list.js")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "orders" in done.stdout, done.stderr


def test_files_are_whole_and_for_their_owner(tmp_path: Path) -> None:
    output = made(tmp_path, "--days", "2", "--host", "broker.test", "--host", "10.0.0.7")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    java = settings(output, "Java, with stores")
    store = pkcs12.load_pkcs12(Path(java["ssl.keystore.location"]).read_bytes(), java["ssl.keystore.password"].encode())
    assert store.cert is not None
    assert store.cert.certificate.public_bytes(Encoding.PEM).decode() in (tmp_path / "client.pem").read_text()
    trusted = pkcs12.load_pkcs12((tmp_path / "truststore.p12").read_bytes(), b"changeit").additional_certs
    assert [each.certificate.public_bytes(Encoding.PEM) for each in trusted] == [(tmp_path / "ca.pem").read_bytes()]
    served = x509.load_pem_x509_certificate((tmp_path / "server.pem").read_bytes())
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "broker.test"]
    assert "10.0.0.7" in map(str, names.get_values_for_type(x509.IPAddress))


@pytest.mark.parametrize("unfit", [("--host", "bücher.test"), ("--client", ""), ("--client", "x" * 65)])
def test_impossible_names_are_refused_before_a_file_is_written(tmp_path: Path, unfit: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, ["certificates", str(tmp_path / "made"), *unfit])
    assert result.exit_code == 1
    assert "A certificate has hosts in ASCII" in result.output
    assert not (tmp_path / "made").exists()


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "client.p12").write_text("mine")
    result = CliRunner().invoke(cli, ["certificates", str(tmp_path)])
    assert f"{tmp_path / 'client.p12'} already exists." in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["client.p12"]
