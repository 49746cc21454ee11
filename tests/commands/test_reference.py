"""docs/running.md has every option and every setting as the code has them."""

import subprocess
import sys
from pathlib import Path

from kafka_shim.broker.meanings import MEANINGS
from kafka_shim.broker.settings import BROKER_SETTINGS
from kafka_shim.broker.unused_settings import unused_settings
from kafka_shim.cli import serve
from kafka_shim.commands.reference import renewed
from kafka_shim.groups.config import NAMES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "running.md"


def test_the_tables_are_fresh() -> None:
    page = PAGE.read_text()
    assert page == renewed(page, serve), "run: kafka-shim reference docs/running.md"
    for option in serve.params:
        assert f"| `{option.opts[0]}" in page
    for name in BROKER_SETTINGS.keys() - {setting.name for setting in unused_settings()}:
        assert f"| `{name}` |" in page


def test_what_the_coordinator_obeys_has_a_meaning() -> None:
    assert set(NAMES) <= MEANINGS.keys() <= BROKER_SETTINGS.keys()


def test_clients_are_given_the_address_that_is_advertised() -> None:
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--store", "memory:"]
    command += ["--brokers", "2", "--advertise", "kafka.example:19092", "--control", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.terminate()
        process.wait(20)
    assert ready.startswith("ready kafka=kafka.example:19092,kafka.example:19093 control=")


def test_an_address_that_is_none_is_refused() -> None:
    command = [sys.executable, "-m", "kafka_shim", "serve", "--advertise", "kafka.example:port"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "'kafka.example:port' is not of the form HOST or HOST:PORT." in done.stderr
