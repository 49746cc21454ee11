"""The second try of tests that failed: its verdict, its output, and the command that plays one again under load."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unsteady import MOST_FAILED, MOST_UNSTEADY

ROOT = Path(__file__).resolve().parent.parent
# Each of these runs of pytest would load a dozen plugins otherwise.
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
UNSTEADY = """
    import pathlib
    seen = pathlib.Path(__file__).parent / "seen-{name}"
    is_second = seen.exists()
    seen.touch()
    assert is_second, "a busy moment"
"""


def unsteady(*names: str) -> str:
    """Return tests that pass from their second run on."""
    return "\n".join(f"def test_{name}():{UNSTEADY.format(name=name)}" for name in names)


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.unsteady", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=ENVIRONMENT)


@pytest.mark.parametrize("options", [(), ("-p", "xdist.plugin", "-n", "2")], ids=["one process", "xdist"])
def test_a_test_that_passes_alone_is_unsteady_and_the_run_succeeds(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = run(tmp_path, unsteady("busy") + "\ndef test_well(): pass\n", *options)
    assert done.returncode == 0, done.stdout
    assert "unsteady: test_it.py::test_busy" in done.stdout
    assert "a busy moment" in done.stdout
    assert "alone: passed" in done.stdout
    assert "1 passed, 1 unsteady" in done.stdout.splitlines()[-1]


def test_a_test_that_fails_twice_has_failed(tmp_path: Path) -> None:
    done = run(tmp_path, unsteady("busy") + "\ndef test_wrong(): assert 1 == 2\n")
    assert done.returncode == 1
    assert "failed twice: test_it.py::test_wrong" in done.stdout
    assert "unsteady: test_it.py::test_busy" in done.stdout
    assert "1 failed, 1 unsteady" in done.stdout.splitlines()[-1]


def test_too_many_unsteady_tests_fail_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, unsteady(*(f"busy_{number}" for number in range(MOST_UNSTEADY + 1))))
    assert done.returncode == 1
    assert f"More than {MOST_UNSTEADY} tests are unsteady" in done.stdout


def test_an_error_of_a_fixture_is_tried_again(tmp_path: Path) -> None:
    fixture = unsteady("room").replace("def test_room()", "import pytest\n@pytest.fixture\ndef room()")
    done = run(tmp_path, fixture + "\ndef test_in_it(room): pass\n")
    assert done.returncode == 0, done.stdout
    assert "unsteady: test_it.py::test_in_it" in done.stdout


def test_a_test_that_asks_for_its_worker_is_tried_again(tmp_path: Path) -> None:
    text = unsteady("busy").replace("def test_busy()", "def test_busy(worker_id)")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["xdist.plugin"]\n')
    done = run(tmp_path, text, "-n", "2")
    assert done.returncode == 0, done.stdout
    assert "unsteady: test_it.py::test_busy" in done.stdout


def test_many_failures_are_not_tried_again(tmp_path: Path) -> None:
    done = run(tmp_path, unsteady(*(f"busy_{number}" for number in range(MOST_FAILED + 1))))
    assert done.returncode == 1
    assert "unsteady" not in done.stdout


def test_a_file_that_cannot_be_read_is_not_tried_again(tmp_path: Path) -> None:
    done = run(tmp_path, "import nothing_of_this_name\n")
    assert done.returncode == 2
    assert "failed twice" not in done.stdout


def test_a_test_is_played_again_under_load(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(unsteady("busy"))
    command = [sys.executable, "-m", "tests.unsteady", "test_it.py::test_busy", "--rounds", "3"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 1
    assert "1 of 3 rounds failed" in done.stdout
    assert "a busy moment" in done.stdout
