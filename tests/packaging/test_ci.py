"""The GitHub action and the GitLab job of docs/ci.md: the tests run their steps as the services would."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_shim.testing import CoordinatorServer
from tests.packaging.conftest import ROOT, THIS, Environment

pytestmark = pytest.mark.second_stage("fresh installations")

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
PAGE = (ROOT / "docs" / "ci.md").read_text()
CONTAINER = re.search(r"^docker run --rm --network host kafka-group-shim (.+)$", PAGE, re.M)
PIPELINES = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)]


def act(folder: Path, code: int, *, steps: slice = slice(None), **inputs: str) -> None:
    """Run steps of the action in a folder; the last must end with this exit code."""
    values = {name: about["default"] for name, about in ACTION["inputs"].items()} | inputs
    github = {
        "RUNNER_TEMP": str(folder),
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "PIP_NO_COMPILE": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | github
    chosen = [step for step in ACTION["runs"]["steps"] if "run" in step][steps]
    for step in chosen:
        own = {name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
               for name, text in step.get("env", {}).items()}  # fmt: skip
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        ended = subprocess.run(command, cwd=folder, env=variables | own, capture_output=True, text=True)
        assert ended.returncode == (code if step is chosen[-1] else 0), ended.stdout + ended.stderr


@pytest.mark.everything("an installation of all packages")
def test_the_github_action_runs(tmp_path: Path) -> None:
    with CoordinatorServer() as server:
        (tmp_path / "known.toml").write_text("")
        cases = "--case 'offsets/commit/1' --case 'sync/round/*'"
        act(tmp_path, 0, target=server.bootstrap, arguments=cases, baseline="known.toml", reports="out put")
    assert {each.name for each in (tmp_path / "out put").iterdir()} >= {
        "conformance.html",
        "conformance.json",
        "conformance.xml",
    }
    assert "not as expected" in (tmp_path / "summary.md").read_text()


def test_the_page_installs_a_checkout_as_the_action_does() -> None:
    page = (ROOT / "docs" / "installing.md").read_text()
    (install,) = (step["run"] for step in ACTION["runs"]["steps"] if step.get("name") == "Install")
    assert "`pip install 'PATH[cli]'`" in page
    assert install.rstrip().endswith('/pip" install --quiet "$GITHUB_ACTION_PATH[cli]"')


def test_the_github_action_starts_the_broker(tmp_path: Path) -> None:
    """As on the page: without a target, on a port that the suite chooses. The action installs nothing twice."""
    (line,) = re.findall(r"`start-command: (.+?)`", PAGE)
    serve = f"{sys.executable} -m kafka_shim serve --store memory: --config group.initial.rebalance.delay.ms=0"
    installed = tmp_path / "kafka-shim" / "bin"
    installed.mkdir(parents=True)
    (installed / "kafka-shim").write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec "{sys.executable}" -m kafka_shim "$@"\n')
    (installed / "kafka-shim").chmod(0o755)
    start = line.replace("./broker --port ", f"cd {ROOT} && {serve} --listen 127.0.0.1:")
    act(tmp_path, 0, steps=slice(-1, None), **{"start-command": start, "arguments": "--case 'sync/round/1'"})
    assert "0 not as expected" in (tmp_path / "summary.md").read_text()


def test_the_arguments_of_the_github_action_are_words_and_run_nothing(tmp_path: Path) -> None:
    installed = tmp_path / "kafka-shim" / "bin"
    installed.mkdir(parents=True)
    (installed / "kafka-shim").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (installed / "kafka-shim").chmod(0o755)
    words = "--case 'sync round' \"it's\" $(touch ran) `touch ran`; touch ran) #"
    act(tmp_path, 0, steps=slice(-1, None), arguments=words)
    shown = (tmp_path / "summary.md").read_text().splitlines()
    assert not (tmp_path / "ran").exists()
    at = shown.index("--case")
    assert shown[at : at + 5] == ["--case", "sync round", "it's", "$(touch", "ran)"]


def test_the_container_command_runs(tmp_path: Path) -> None:
    """Run the arguments of the image's entry point in a process instead of the image."""
    assert CONTAINER is not None
    command = [sys.executable, "-m", "kafka_shim", *CONTAINER[1].split(), "--case", "sync/round/1"]
    with CoordinatorServer() as server:
        command[command.index("localhost:9092")] = server.bootstrap
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def uses(jobs: Any) -> list[dict[str, Any]]:
    """Return the steps of a workflow that use our action."""
    steps = [step for job in jobs.values() for step in job["steps"]]
    return [step for step in steps if step.get("uses", "").startswith("kafka-group-shim/")]


def test_the_page_uses_inputs_of_the_action() -> None:
    (step,) = uses(PIPELINES[0]["jobs"])
    assert set(step["with"]) <= set(ACTION["inputs"])


@pytest.mark.parametrize("environment", [THIS], indirect=True)
def test_the_gitlab_job_runs(environment: Environment, tmp_path: Path) -> None:
    job = PIPELINES[1]["conformance"]
    install, check = job["script"]
    assert install == "pip install 'kafka-group-shim[cli]'"
    with CoordinatorServer() as server:
        command = check.replace("broker:9092", server.bootstrap) + " --case 'sync/round/*'"
        ended = subprocess.run(
            ["bash", "-ec", command], cwd=tmp_path, env=environment.variables(), capture_output=True, text=True
        )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for report in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
        assert (tmp_path / report).stat().st_size > 0


def test_the_job_for_tests_keeps_the_trace_of_a_failure(tmp_path: Path) -> None:
    *_, tests, upload = PIPELINES[2]["jobs"]["tests"]["steps"]
    (tmp_path / "test_failing.py").write_text(
        "def test_in_vain(kafka_coordinator):\n    kafka_coordinator.group('billing').stable(members=1, timeout=0.01)\n"
    )
    words = tests["run"].replace("-n auto", "-n 1").split()[1:]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert "billing is Dead" in ended.stdout, ended.stdout + ended.stderr
    assert len(list(tmp_path.glob(upload["with"]["path"]))) == 1
