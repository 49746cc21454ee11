"""The stages of .ci/run and .ci/everything: the exit code, the table of seconds, and the last line."""

import re
import subprocess
from pathlib import Path

import pytest

STAGES = Path(__file__).resolve().parent.parent / ".ci" / "stages.sh"
TESTS = 'tests "echo before; echo 5 passed, 1 unsteady in 3.21s; echo after{}"'


def run(folder: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    script = folder / "run"
    script.write_text("\n".join(["set -euo pipefail", f". '{STAGES}'", *lines]) + "\n")
    return subprocess.run(["bash", script], capture_output=True, text=True)


def rows(output: str) -> list[tuple[int, str]]:
    return [(int(code), name) for code, name in re.findall(r"^ *\d+ s  exit code (\d+)  (.+)$", output, re.M)]


def test_each_stage_has_its_seconds_and_the_summary_of_pytest_is_last(tmp_path: Path) -> None:
    done = run(tmp_path, "stage true", 'beside "echo one" "echo two"', TESTS.format(""))
    assert done.returncode == 0, done.stderr
    assert {name for _, name in rows(done.stdout)} >= {"true", "echo one", "echo two"}
    assert done.stdout.splitlines()[-1] == "5 passed, 1 unsteady in 3.21s"


def test_a_stage_that_fails_ends_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, 'stage "exit 3"', TESTS.format(""))
    assert done.returncode == 3
    assert rows(done.stdout) == [(3, "exit 3")]


@pytest.mark.parametrize(
    "lines", [['beside "echo one" "exit 3"', TESTS.format("")], ['beside "echo one"', TESTS.format("; exit 3")]]
)
def test_a_failed_check_or_test_fails_the_run_after_the_tests(tmp_path: Path, lines: list[str]) -> None:
    done = run(tmp_path, *lines)
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1] == "5 passed, 1 unsteady in 3.21s"
