"""Custom clients: the description of an adapter, the templates, and one case run with an adapter."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_shim.conformance.cli import cli
from kafka_shim.conformance.clients.adapter import AdapterError, check, clients_of
from kafka_shim.conformance.clients.builds import ADAPTERS
from kafka_shim.conformance.clients.client_processes import EVERY_CLIENT
from kafka_shim.conformance.clients.template import TEMPLATES
from kafka_shim.conformance.targets import TargetError
from kafka_shim.conformance.targets.kafka import NEWEST, cache_folder, class_path

GO = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
CONFIG = json.dumps({"bootstrap": "127.0.0.1:1", "client_id": "c", "group": "g", "topics": ["t"], "poll_s": 0.1})


def run(folder: Path, *command: str | Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(done.stdout + done.stderr)


def built_python(folder: Path) -> list[str]:
    return [sys.executable, str(folder / "adapter.py")]


def built_node(folder: Path) -> list[str]:
    if not shutil.which("node"):
        pytest.skip("there is no node here")
    return ["node", str(folder / "adapter.js")]


def built_go(folder: Path) -> list[str]:
    if not GO:
        pytest.skip("there is no go here")
    run(folder, GO, "build", "-o", "adapter", "adapter.go")
    return [str(folder / "adapter")]


def built_java(folder: Path) -> list[str]:
    if not shutil.which("javac"):
        pytest.skip("there is no javac here")
    try:
        jars = class_path(NEWEST["4.2"])
    except TargetError as error:
        pytest.skip(str(error))
    run(folder, "javac", "-cp", jars, "Adapter.java")
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{jars}", "Adapter"]


def built_rust(folder: Path) -> list[str]:
    if not shutil.which("cargo"):
        pytest.skip("there is no cargo here")
    target = cache_folder() / "template-rust"
    run(folder, "cargo", "build", "--quiet", "--target-dir", target)
    return [str(target / "debug" / "adapter")]


BUILDS: dict[str, Callable[[Path], list[str]]] = {
    "python": built_python,
    "node": built_node,
    "go": built_go,
    "java": built_java,
    "rust": built_rust,
}


STAGES: dict[str, Any] = {"python": (), "java": pytest.mark.second_stage("Java")}


@pytest.mark.parametrize(
    "language",
    [pytest.param(each, marks=STAGES.get(each, pytest.mark.everything("compilers"))) for each in TEMPLATES],
)
def test_an_empty_template_speaks_the_line_protocol(language: str, tmp_path: Path) -> None:
    written = CliRunner().invoke(cli, ["template", language, "--into", str(tmp_path)])
    assert written.exit_code == 0, written.output
    command = BUILDS[language](tmp_path)
    described = subprocess.run([*command, "describe"], capture_output=True, text=True, check=True)
    check(json.loads(described.stdout))
    commands = [("hold", {}), ("go", {}), ("commit", {"offsets": [["t", 0, 1]]}), ("jump", {}), ("close", {})]
    lines = "".join(json.dumps({"id": number, "do": do, **more}) + "\n" for number, (do, more) in enumerate(commands))
    spoken = subprocess.run([*command, CONFIG], input=lines, capture_output=True, text=True)
    events = [json.loads(line) for line in spoken.stdout.splitlines()]
    assert events[0] == {"event": "started"}
    assert events[-1] == {"event": "closed"}
    replies = {each["reply"]: each for each in events if "reply" in each}
    assert [replies[number].get("value", "refused") for number in range(5)] == [None, None, "refused", "refused", None]
    assert spoken.returncode == 0


def test_an_adapter_ends_with_its_standard_input(tmp_path: Path) -> None:
    for language in ("python", "node"):
        CliRunner().invoke(cli, ["template", language, "--into", str(tmp_path)])
        command = BUILDS[language](tmp_path)
        assert subprocess.run([*command, CONFIG], input="", capture_output=True, text=True).returncode == 0


def test_a_template_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "adapter.py").write_text("mine")
    done = CliRunner().invoke(cli, ["template", "python", "--into", str(tmp_path)])
    assert done.exit_code == 2
    assert "exists already" in done.output
    assert (tmp_path / "adapter.py").read_text() == "mine"


@pytest.mark.second_stage("real clients")
def test_cases_run_with_a_custom_adapter() -> None:
    command = f"{sys.executable} {ADAPTERS / 'kafka_python.py'}"
    done = CliRunner().invoke(cli, ["--adapter", command, "--case", "R18", "--case", "R28"])
    assert done.exit_code == 0, done.output
    assert "2 cells, 0 not as expected" in done.output


def test_an_adapter_describes_its_client_as_the_catalogue_does() -> None:
    (described,) = clients_of(f"{sys.executable} {ADAPTERS / 'kafka_python.py'}")
    client = EVERY_CLIENT["kafka-python-3.0"]
    assert set(described.abilities) <= set(client.abilities)
    assert described.assignors == tuple(sorted(client.assignors))


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("exit 3", "printed no description"),
        ("echo nothing", "printed no description"),
        ("echo '{}'", "it needs a name"),
        ('echo \'{"name": "a", "abilities": ["fly"]}\'', "fly is not one of the abilities"),
        ('echo \'{"name": "a", "protocols": ["streams"]}\'', "streams is not one of the protocols"),
    ],
)
def test_an_invalid_description_is_refused_in_a_sentence(tmp_path: Path, script: str, complaint: str) -> None:
    file = tmp_path / "adapter.sh"
    file.write_text(script + "\n")
    done = CliRunner().invoke(cli, ["--adapter", f"sh {file}"])
    assert done.exit_code == 2
    assert complaint in done.output


def test_a_missing_adapter_command_is_refused_in_a_sentence() -> None:
    with pytest.raises(AdapterError, match="cannot be started"):
        clients_of("/no/such/adapter")


def test_client_and_adapter_options_exclude_each_other() -> None:
    done = CliRunner().invoke(cli, ["--adapter", "a", "--client", "all"])
    assert done.exit_code == 2
    assert "exclude each other" in done.output
