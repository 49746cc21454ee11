"""The relay in front of a cluster with TLS and SASL."""

import base64
import subprocess
import sys
from pathlib import Path

from kafka import KafkaConsumer

from kafka_shim.testing import CoordinatorServer, polling
from tests.relay.recording import recording

PASSWORD = "the password of alice"


def test_clients_authenticate_through_the_relay_and_leave_no_secret(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with CoordinatorServer(topics={"orders": 1}, security="SASL_SSL", users={"alice": PASSWORD}) as server:
        assert server.ca_file is not None
        with recording(server.bootstrap, trace, "--tls-ca", server.ca_file) as bootstrap:
            settings = server.client_settings("kafka-python", "alice") | {"security_protocol": "SASL_PLAINTEXT"}
            consumer = KafkaConsumer("orders", bootstrap_servers=bootstrap, group_id="billing", **settings)
            with polling(consumer):
                server.group("billing").stable(members=1)
            principals = server.call(lambda: {each.client.principal for each in server.kit.cluster.sessions()})
            assert "User:alice" in principals
            consumer.close()
    text = trace.read_text()
    assert '"round"' in text
    assert "billing" in text
    token = f"\0alice\0{PASSWORD}".encode()
    for secret in (PASSWORD, base64.b64encode(token).decode(), token.hex()):
        assert secret not in text


def test_a_cluster_that_is_not_trusted_is_one_sentence(tmp_path: Path) -> None:
    with CoordinatorServer(security="SSL") as server:
        command = [sys.executable, "-m", "kafka_shim", "trace", "record", "--upstream", server.bootstrap]
        command += ["--tls-ca", "system", "--listen", "127.0.0.1:0", "--trace", str(tmp_path / "trace.jsonl")]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "cannot be reached" in done.stderr
    assert "certificate verify failed" in done.stderr
    assert done.stderr.count("\n") == 1
