"""The examples of `examples/python` and of docs/ do what they say; the clinic's test fails as it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.python.test_flaky_clinic import SLEEPING
from examples.python.test_flaky_clinic import __doc__ as CLINIC

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
OPTIONS = ["-p", "no:kafka-shim", "-p", "kafka_shim.testing.plugin", "-p", "no:cacheprovider"]


def test_the_examples_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", *OPTIONS, "examples/python"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout
    assert "7 passed" in done.stdout


def test_the_sleeping_test_fails_on_a_slow_day(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def bootstrap(kafka_coordinator_factory):
            server = kafka_coordinator_factory(topics={"orders": 4})
            server.fault("delay", "JoinGroup", seconds=3, client_id="second")
            return server.bootstrap
        """
    )
    pytester.makepyfile(SLEEPING)
    result = pytester.runpytest_subprocess("-p", "no:trio", *OPTIONS)
    result.assert_outcomes(failed=1)
    assert CLINIC is not None
    shown = [line.strip() for line in CLINIC.splitlines() if line.startswith("    ")]
    result.stdout.fnmatch_lines([line.replace("[", "[[]") for line in shown])


def programs(page: str) -> list[str]:
    """What a page shows to be run."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)


BLOCKS = programs("testing.md")
EXPERIMENTS = [*programs("client-assignors.md"), *programs("designs.md")]


def test_the_documentation_shows_six_programs() -> None:
    assert len(BLOCKS) == 6


@pytest.mark.parametrize("block", BLOCKS, ids=["pytest", "fixture", "asyncio", "trio", "manner", "simulation"])
def test_what_the_documentation_shows_runs(pytester: pytest.Pytester, block: str) -> None:
    path = pytester.makepyfile(block)
    if "def test_" in block:
        pytester.runpytest_subprocess("-p", "no:trio", *OPTIONS).assert_outcomes(passed=1)
    else:
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("block", EXPERIMENTS, ids=["client-assignors", "designs"])
def test_what_the_pages_of_experiments_show_runs(pytester: pytest.Pytester, block: str) -> None:
    program = [sys.executable, str(pytester.makepyfile(block))]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
