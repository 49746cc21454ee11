"""The wheel in a project with folders of the same names as the parts of our repository."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.packaging.conftest import THIS, Distribution, Environment

pytestmark = pytest.mark.second_stage("fresh installations")

FOLDERS = ("apis", "shim", "persistence", "conformance", "pipeline")

TESTS = """
import apis, conformance, persistence, pipeline, shim

import pytest


@pytest.mark.parametrize("folder", [apis, conformance, persistence, pipeline, shim])
def test_the_package_imports_its_own_folders(folder):
    assert folder.OWNER == "the project"


@pytest.mark.kafka_coordinator(topics={"orders": 4})
def test_a_crash_fails_the_test(kafka_coordinator):
    group = kafka_coordinator.group("billing")
    doomed = kafka_coordinator.puppet("billing", ["orders"], session_timeout=10)
    kafka_coordinator.puppet("billing", ["orders"])
    group.stable(members=2)
    doomed.crash()
    kafka_coordinator.clock.advance(10)
    group.stable(members=1)


def test_the_shared_coordinator(kafka_coordinator_session):
    kafka_coordinator_session.create_topic("orders", 2)
    kafka_coordinator_session.puppet("billing", ["orders"])
    kafka_coordinator_session.group("billing").stable(members=1)
"""

# Ways to make a project's folders importable and to start its tests.
WAYS = {
    "pytest": ("[pytest]\n", True, ["pytest"]),
    "python -m pytest": ("[pytest]\n", False, ["python", "-m", "pytest"]),
    "pythonpath": ("[pytest]\npythonpath = .\n", False, ["pytest"]),
    "importlib": ("[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n", False, ["pytest"]),
}

TYPED = """
from kafka_shim.testing import CoordinatorServer

with CoordinatorServer(topics={"orders": 4}) as server:
    reveal_type(server)
    reveal_type(server.bootstrap)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with folders of those names and its own tests."""
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text('OWNER = "the project"\n')
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_orders.py").write_text(TESTS)
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_the_plugin_runs_beside_other_code(environment: Environment, project: Path, way: str) -> None:
    settings, with_conftest, command = WAYS[way]
    (project / "pytest.ini").write_text(settings)
    if with_conftest:
        (project / "conftest.py").touch()
    assert "7 passed" in environment.run(*command, "-q", "-p", "no:cacheprovider", cwd=project)


@contextmanager
def serving(environment: Environment, project: Path) -> Iterator[str]:
    """Run a server in the project's folder; yield the address of its control server."""
    options = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--store", "memory:", "--topic", "orders:6"]
    process = subprocess.Popen(
        [environment.folder / "bin" / "kafka-shim", "serve", *options],
        cwd=project,
        env=environment.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        ready = re.fullmatch(r"ready kafka=\S+ control=(\S+)\n", process.stdout.readline())
        assert ready is not None
        yield ready[1]
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()


def test_the_commands_run_beside_other_code(
    environment: Environment, project: Path, distribution: Distribution
) -> None:
    assert distribution.version in environment.run("kafka-shim", "--version", cwd=project)
    assert distribution.version in environment.run("python", "-m", "kafka_shim", "--version", cwd=project)
    with serving(environment, project) as control:
        assert environment.run("kafka-shim", "groups", "list", "--json", "--control", control, cwd=project)
        assert "orders" in environment.run("kafka-shim", "topics", "list", "--control", control, cwd=project)


@pytest.mark.parametrize("command", [["kafka-shim", "conformance"], ["python", "-m", "kafka_shim.conformance"]])
def test_the_suite_runs_beside_other_code(environment: Environment, project: Path, command: list[str]) -> None:
    report = project / "report.html"
    cases = ["--case", "join/first/1", "--case", "offsets/commit/1", "--case", "wire/frame/4"]
    output = environment.run(*command, "--target", "shim", *cases, "--html", str(report), cwd=project)
    assert ", 0 not as expected" in output
    assert report.stat().st_size > 0


def test_a_missing_extra_is_one_sentence(environment: Environment, project: Path) -> None:
    for command, extra in (
        (["pipeline", "tables"], "spark"),
        (["pipeline", "run", "trace.jsonl", "--out", "out"], "spark"),
        (["serve", "--store", "postgresql://nowhere/none"], "postgres"),
        (["demo"], "clients"),
        (["conformance", "--target", "rdkafka-mock"], "clients"),
    ):
        output = environment.run("kafka-shim", *command, cwd=project, code=2)
        assert len(output.strip().splitlines()) == 1, output
        assert f"pip install 'kafka-group-shim[{extra}]'" in output


def test_only_one_name_is_installed(environment: Environment) -> None:
    (packages,) = environment.folder.glob("lib/python*/site-packages")
    assert [each.name for each in packages.iterdir() if each.name in FOLDERS] == []


def revealed(checker: str, python: str, folder: Path) -> str:
    """Return the output of a type checker for a user's program, with an interpreter's packages and no path of ours."""
    if checker == "pyright" and shutil.which("node") is None:
        pytest.skip("pyright runs on Node.js, and there is no node here")
    (folder / "program.py").write_text(TYPED)
    command = {
        "mypy": ["mypy", "--strict", "--python-executable", python, "--cache-dir", str(folder / "cache")],
        "pyright": ["pyright", "--pythonpath", python],
    }[checker]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    checked = subprocess.run(
        [sys.executable, "-m", *command, "program.py"], cwd=folder, env=variables, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return checked.stdout


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
class TestTypes:
    """A user's type checker finds our types without configuration."""

    @pytest.mark.parametrize("environment", [THIS], indirect=True)
    def test_the_wheel_has_types(self, checker: str, environment: Environment, project: Path) -> None:
        output = revealed(checker, str(environment.folder / "bin" / "python"), project)
        assert "CoordinatorServer" in output
        assert "Any" not in output

    @pytest.mark.everything("a type checker's look at the whole package")
    def test_an_editable_install_has_types(self, checker: str, project: Path) -> None:
        where = [sys.executable, "-c", "import kafka_shim; print(kafka_shim.__file__)"]
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        where_from = subprocess.run(where, cwd=project, env=variables, capture_output=True, text=True)
        if where_from.returncode or "site-packages" in where_from.stdout:
            pytest.skip("this interpreter has no editable install of this project")
        output = revealed(checker, sys.executable, project)
        assert "CoordinatorServer" in output
        assert "Any" not in output
