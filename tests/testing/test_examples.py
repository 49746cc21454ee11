"""The examples of `examples/python` and of docs/ pass; the test of the clinic fails with the documented text."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.python.test_flaky_clinic import SLEEPING
from examples.python.test_flaky_clinic import __doc__ as CLINIC

pytestmark = pytest.mark.second_stage("real clients in separate runs of pytest")

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
OPTIONS = ["-p", "no:kafka-shim", "-p", "kafka_shim.testing.plugin", "-p", "no:cacheprovider"]


def test_the_examples_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", *OPTIONS, "examples/python"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
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
    lines = [line.strip() for line in CLINIC.splitlines() if line.startswith("    ")]
    result.stdout.fnmatch_lines([line.replace("[", "[[]") for line in lines])


def programs(page: str) -> list[str]:
    """Return the programs of a page."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)


BLOCKS = programs("testing.md")
EXPERIMENTS = [*programs("client-assignors.md"), *programs("designs.md")]


def test_the_documentation_shows_six_programs() -> None:
    assert len(BLOCKS) == 6


@pytest.mark.parametrize("block", BLOCKS, ids=["pytest", "fixture", "asyncio", "trio", "manner", "simulation"])
def test_examples_of_the_documentation_run(pytester: pytest.Pytester, block: str) -> None:
    path = pytester.makepyfile(block)
    if "def test_" in block:
        pytester.runpytest_subprocess("-p", "no:trio", *OPTIONS).assert_outcomes(passed=1)
    else:
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_recipes_of_consumers_run(pytester: pytest.Pytester) -> None:
    """One file has all programs of the page, so that one process imports the clients."""
    tests = programs("recipes/consumers.md")
    pytester.makepyfile("\n\n".join(tests))
    pytester.runpytest_subprocess(*OPTIONS).assert_outcomes(passed=len(tests))


@pytest.mark.parametrize("block", EXPERIMENTS, ids=["client-assignors", "designs"])
def test_examples_of_experiments_run(pytester: pytest.Pytester, block: str) -> None:
    program = [sys.executable, str(pytester.makepyfile(block))]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
