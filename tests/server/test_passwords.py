"""Passwords in settings: no frame, journal, trace, log or answer of a run has one."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from base64 import b64encode
from pathlib import Path

import pytest

from kafka_shim.apis.alter_configs import AlterableConfig as ReplacedConfig
from kafka_shim.apis.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kafka_shim.apis.alter_configs import AlterConfigsResource as ReplacedResource
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResponse
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_shim.apis.wire import Message
from kafka_shim.broker.topics import Node as Address
from kafka_shim.persistence.memory import MemoryStore
from kafka_shim.server.cluster import ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.frames import FrameHistory
from kafka_shim.server.journal import Journal
from tests.server.wire import Client, Wire, cluster, request
from tests.waiting import PATIENCE_S

TOPIC, BROKER = 2, 4
PASSWORD = "correct horse battery staple"


def incremental(name: str, value: str = PASSWORD, kind: int = BROKER, of: str = "") -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest([AlterConfigsResource(kind, of, [AlterableConfig(name, 0, value)])])


def replacing(name: str) -> AlterConfigsRequest:
    return AlterConfigsRequest([ReplacedResource(BROKER, "", [ReplacedConfig(name, PASSWORD)])])


def shows(data: bytes, password: str = PASSWORD) -> bool:
    """Return True if bytes have the password: as text, as hex, or in base64, where it may begin at any bit."""
    secret = password.encode()
    forms = [secret, secret.hex().encode()]
    for before in range(3):
        text = b64encode(bytes(before) + secret)
        forms.append(text[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6])
    return any(form in data for form in forms)


@pytest.mark.parametrize("before", range(4))
def test_a_password_is_found_in_each_form(before: int) -> None:
    text = b"x" * before + PASSWORD.encode() + b"y"
    assert shows(text)
    assert shows(text.hex().encode())
    assert shows(b64encode(text))
    assert not shows(b64encode(text[: before + 20]))


CHANGES = [
    pytest.param(incremental("ssl.keystore.password"), 1, id="password"),
    pytest.param(incremental("sasl.jaas.config"), 0, id="sasl.jaas.config"),
    pytest.param(incremental("listener.name.a.ssl.key.password"), 1, id="of a listener"),
    pytest.param(incremental("ssl.keystore.password", kind=TOPIC, of="t"), 1, id="of a topic by mistake"),
    pytest.param(replacing("ssl.truststore.password"), 2, id="AlterConfigs"),
]


@pytest.mark.parametrize(("change", "version"), CHANGES)
def test_frames_with_a_password_are_not_kept(change: Message, version: int) -> None:
    wire = Wire(cluster(topics={"t": 1}))
    history = FrameHistory(wire.cluster.nodes.values)
    with history.watching():
        wire.receive(request(change, version))
        wire.receive(request(incremental("retention.ms", "5", TOPIC, "t"), 1, 2))
        malformed = bytearray(request(change, version))[:-4]
        malformed[:4] = (len(malformed) - 4).to_bytes(4)
        wire.receive(bytes(malformed))
        assert [pair.correlation_id for pair in history] == [2]
        assert not shows(json.dumps([pair.as_dict() for pair in history]).encode())


@pytest.mark.parametrize("cut", [None, 8, 60])
@pytest.mark.parametrize(("change", "version"), CHANGES)
def test_a_journal_ends_before_a_request_with_a_password(
    tmp_path: Path, change: Message, version: int, cut: int | None
) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        made = make_cluster(
            [Address(1, "localhost", 9092)], ClusterConfig(topics={"t": 1}, journal=journal), MemoryStore()
        )
        made.load_at_once()
        wire = Wire(made)
        wire.receive(request(incremental("retention.ms", "5", TOPIC, "t"), 1))
        assert not journal.ended
        data = request(change, version)
        for part in (data[:cut], data[cut:]) if cut else (data,):
            wire.receive(part)
        assert journal.end_reason == "a client's request may hold a password"
        assert len(wire.answers()) == 2
    assert b'"in":"bytes"' in path.read_bytes()
    assert not shows(path.read_bytes())


def test_a_run_leaves_no_password_behind(tmp_path: Path) -> None:
    for run in (1, 2):
        files = {name: tmp_path / f"{name}{run}" for name in ("journal", "trace", "log")}
        command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
        command += ["--store", f"sqlite:{tmp_path / 'store'}", "--lab"]
        command += ["--journal", str(files["journal"]), "--trace", str(files["trace"])]
        with files["log"].open("wb") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None
            ready = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
            if run == 1:
                leave_passwords(ready["kafka"], ready["control"])
            else:
                assert "ssl.keystore.password" in described(ready["kafka"])
        finally:
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        assert b'"in":"topics"' in files["journal"].read_bytes()
    leaks = {path.name: shows(path.read_bytes()) for path in tmp_path.iterdir() if not path.name.startswith("store")}
    assert leaks == dict.fromkeys(["journal1", "trace1", "log1", "journal2", "trace2", "log2"], False)


def leave_passwords(kafka: str, control: str) -> None:
    with Client(kafka) as client:
        client.ask(incremental("ssl.keystore.password"), 1, IncrementalAlterConfigsResponse)
        client.ask(replacing("ssl.keystore.password"), 2, AlterConfigsResponse)
    body = json.dumps({"config": {"ssl.key.password": PASSWORD, "message.max.bytes": 5000}}).encode()
    asked = urllib.request.Request(f"{control}/v1/config", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
        assert json.load(answer)["config"] == {"ssl.key.password": None, "message.max.bytes": 5000}
    assert described(kafka)


def described(kafka: str) -> set[str]:
    """Return the names of the settings that were set for all brokers; no answer has a password."""
    with Client(kafka) as client:
        asked = DescribeConfigsRequest([DescribeConfigsResource(BROKER, "", None)], include_synonyms=True)
        answer = client.ask(asked, 4, DescribeConfigsResponse)
    assert not shows(answer.encode(4))
    return {config.name for result in answer.results for config in result.configs}
