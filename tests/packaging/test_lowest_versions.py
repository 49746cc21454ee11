"""The command and the plugin with the lowest version of each dependency that pyproject.toml allows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.once import made_once
from tests.packaging.conftest import THIS, Distribution, Environment, install

pytestmark = [
    pytest.mark.everything("an environment of the lowest versions"),
    pytest.mark.skipif(THIS != "3.11", reason="the lowest versions have wheels for Python 3.11 alone"),
]
TESTS = """
import json
import urllib.request


def test_a_member_joins(kafka_coordinator):
    kafka_coordinator.create_topic("orders", 2)
    kafka_coordinator.puppet("billing", ["orders"])
    kafka_coordinator.group("billing").stable(members=1)


def test_the_control_server_answers(kafka_coordinator_factory):
    server = kafka_coordinator_factory(control=True, topics={"orders": 1})
    server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    groups = json.load(urllib.request.urlopen(server.control_url + "/v1/groups"))
    assert "billing" in json.dumps(groups)
"""


@pytest.fixture(scope="session")
def lowest(shared: Path, distribution: Distribution) -> Environment:
    folder = shared / "lowest"
    made_once(folder, lambda: install(sys.executable, folder, distribution.wheel, "old/lowest.txt"))
    return Environment(folder, THIS)


def test_the_plugin_works(lowest: Environment, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    assert "2 passed" in lowest.run("pytest", "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)


@pytest.mark.parametrize("command", ["serve", "why", "groups", "offsets", "topics", "trace", "replay", "conformance"])
def test_a_command_starts(lowest: Environment, tmp_path: Path, command: str) -> None:
    """click 8.1 has neither types in brackets nor an exception for a command without arguments."""
    assert f"kafka-shim {command}" in lowest.run("kafka-shim", command, "--help", cwd=tmp_path)


def test_a_mistake_is_one_sentence(lowest: Environment, tmp_path: Path) -> None:
    assert "No such command" in lowest.run("kafka-shim", "nothing", cwd=tmp_path, code=2)


def test_cases_pass(lowest: Environment, tmp_path: Path) -> None:
    output = lowest.run("kafka-shim", "conformance", "--case", "sync/round/*", cwd=tmp_path)
    assert "0 not as expected" in output
