"""docs/conformance.md and docs/clients.md: every command runs, and every example is valid."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.conformance.targets.capabilities import CAPABILITIES
from kafka_shim.conformance.targets.foreign import read_declaration
from kafka_shim.testing import CoordinatorServer

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "conformance.md").read_text()
CLIENTS = (DOCS / "clients.md").read_text()
FETCHED = (
    "kafka",
    "kafka:3.9",
    "kafka:4.2x3",
    "kfake",
    "rdkafka-mock",
    "tansu",
    "nisshi",
    "shim:postgresql:",
    "shim:postgresql:x3",
    "matrix",
)
"""Words of commands that need a download or a program that not every machine has; other tests run them."""

FAST = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}


def commands(page: str) -> list[list[str]]:
    lines = re.findall(r"^    (kafka-shim conformance[^\n]*)$", page, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


def block(page: str, beginning: str) -> str:
    """Return the indented block with this first line."""
    (result,) = [each for each in re.findall(r"(?:^    [^\n]*\n|^\n)+", page, re.MULTILINE) if beginning in each]
    return re.sub(r"^    ", "", result, flags=re.MULTILINE)


@pytest.mark.second_stage("many runs")
def test_every_command_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    ran = 0
    with CoordinatorServer(config=FAST) as server:
        for words in commands(PAGE):
            if {*FETCHED, "--client"}.intersection(words):
                continue
            words = [re.sub(r"\b\w+\.example:9092(,other.example:9092)?", server.bootstrap, word) for word in words[1:]]
            if not {"--case", "--list"}.intersection(words):
                words += ["--case", "heartbeat/unknown/1"]
            done = CliRunner().invoke(cli, words)
            assert done.exit_code == 0, f"{words}\n{done.output}"
            ran += 1
    assert ran >= 10
    assert {"known.toml", "run.xml", "run.html", "run.json", "badge.json"} <= {path.name for path in tmp_path.iterdir()}


def test_the_file_of_a_target_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(block(PAGE, 'name = "mine 1.0"'))
    result = read_declaration(tmp_path / "mine.toml")
    assert (result.name, result.client_id, len(result.places["default"].endpoints)) == ("mine 1.0", "conformance", 2)
    assert result.settings == {"group.max.size": "5"}


def test_ci_examples_are_yaml_with_existing_commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "known.toml").write_text("")
    steps = yaml.safe_load(block(PAGE, "- run: pip install"))
    job = yaml.safe_load(block(PAGE, "conformance:\n"))["conformance"]
    lines = [step["run"] for step in steps if "run" in step] + job["script"]
    ours = [shlex.split(line)[1:] for line in lines if line.startswith("kafka-shim")]
    assert len(ours) == 2
    for words in ours:
        assert CliRunner().invoke(cli, [*words, "--list", "--case", "join/first/1"]).exit_code == 0


def test_the_page_names_all_capabilities() -> None:
    (sentence,) = re.findall(r"there are (`short-sessions`.*?)\.", PAGE, re.DOTALL)
    assert set(re.findall(r"`([^`]+)`", sentence)) == set(CAPABILITIES)


def test_the_commands_about_clients_exist() -> None:
    for words in commands(CLIENTS):
        if "template" in words or "--adapter" in words:
            continue
        done = CliRunner().invoke(cli, [*words[1:], "--list"])
        assert done.exit_code == 0, f"{words}\n{done.output}"
