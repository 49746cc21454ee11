"""docs/running.md has every option and every setting as the code has them."""

import subprocess
import sys

from kafka_shim.broker.admin.meanings import MEANINGS
from kafka_shim.broker.settings import BROKER_SETTINGS
from kafka_shim.broker.unused_settings import unused_settings
from kafka_shim.cli import serve
from kafka_shim.groups.config import NAMES
from tests.commands.reference import PAGE, renewed


def test_the_tables_are_fresh() -> None:
    page = PAGE.read_text()
    assert page == renewed(page), "run: python -m tests.commands.reference"
    for option in serve.params:
        if not option.hidden:
            assert f"| `{option.opts[0]}" in page
    for name in BROKER_SETTINGS.keys() - {setting.name for setting in unused_settings()}:
        assert f"| `{name}` |" in page


def test_every_setting_of_the_coordinator_has_a_meaning() -> None:
    assert set(NAMES) <= MEANINGS.keys() <= BROKER_SETTINGS.keys()


def test_clients_get_the_advertised_address() -> None:
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--store", "memory:"]
    command += ["--brokers", "2", "--advertise", "kafka.example:19092", "--control", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        process.terminate()
        process.wait(20)
    assert ready.startswith("ready kafka=kafka.example:19092,kafka.example:19093 control=")


def test_a_wrong_address_is_refused() -> None:
    command = [sys.executable, "-m", "kafka_shim", "serve", "--advertise", "kafka.example:port"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "'kafka.example:port' is not of the form HOST or HOST:PORT." in done.stderr
