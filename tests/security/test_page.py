"""The examples of docs/security.md run as they stand, and the settings that it names exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer

from kafka_shim.cli import cli
from kafka_shim.security.config import is_security_setting
from tests.waiting import PATIENCE_S

PAGE = (Path(__file__).parents[2] / "docs/security.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
(SERVE,) = re.findall(r"^(kafka-shim serve .*)$", PAGE, re.MULTILINE)
(CERTIFICATES,) = re.findall(r"^    (kafka-shim certificates .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs_run(number: int) -> None:
    assert len(PROGRAMS) == 5
    exec(compile(PROGRAMS[number], "docs/security.md", "exec"), {})


def test_a_client_logs_in_to_the_server_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(cli, shlex.split(CERTIFICATES)[1:])
    assert made.exit_code == 0, made.output
    words = shlex.split(SERVE.replace("127.0.0.1:9092", "127.0.0.1:0").replace("127.0.0.1:9094", "127.0.0.1:0"))
    command = [sys.executable, "-m", "kafka_shim", *words[1:], "--store", "memory:", "--topic", "orders:1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        names = re.fullmatch(r"ready kafka=(\S+) listeners=PLAINTEXT://(\S+),LOGIN://(127\.0\.0\.1:\d+)\n", line)
        assert names is not None, line
        plain, first, login = names.groups()
        assert plain == first
        settings = {"security_protocol": "SASL_SSL", "ssl_cafile": "certs/ca.pem", "sasl_mechanism": "PLAIN"}
        consumer = KafkaConsumer(
            bootstrap_servers=login,
            sasl_plain_username="alice",
            sasl_plain_password="secret",
            **settings,
        )
        assert consumer.topics() == {"orders"}
        consumer.close()
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def test_the_settings_of_the_page_exist() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=[^`]*)?`", row)}
    settings = {name for name in names if not name.endswith((".pem", ".ca", "_file"))}
    assert len(settings) >= 15
    assert {name for name in settings if not is_security_setting(name)} == set()
