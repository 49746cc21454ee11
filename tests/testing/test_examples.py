"""The examples of `examples/python` do what they say, and the flaky test of the clinic fails as it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from examples.python.test_flaky_clinic import SLEEPING
from examples.python.test_flaky_clinic import __doc__ as CLINIC

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
OPTIONS = ["-p", "no:kafka-shim", "-p", "shim.testing.plugin", "-p", "no:cacheprovider"]


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
