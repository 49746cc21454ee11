"""Every search for faults by chance: `make fuzz`, or `python -m tests.fuzz --seconds 300 [--seed N] [TEST ...]`.

The generated inputs of `make test` are fixed; these are new each time, from one seed that is printed. For each finding
the summary has the line that plays it again. A finding becomes a fixed case of the tests, beside its mend.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

import pytest
from _pytest.terminal import TerminalReporter

from tests.postgres import binaries

FINDERS: Final = (
    *("tests/apis", "tests/broker", "tests/experiments", "tests/fuzz", "tests/groups", "tests/hostile"),
    *("tests/persistence", "tests/security", "tests/trace", "tests/control/test_schemathesis.py"),
    *("tests/lab/test_replay.py", "tests/lab/test_continuation.py", "tests/relay/test_proxied_connection.py"),
    "tests/server/test_remembered.py",
)
"""Folders and files with tests that take FUZZ_SECONDS, FUZZ_SEED or more examples of Hypothesis."""
SECONDS: Final = 300
SCRIPTS_PER_SECOND: Final = 2
SECONDS_PER_ROUND: Final = 15


class Findings:
    """A pytest plugin that prints, for each finding, the line that plays it again."""

    def __init__(self, seconds: int, seed: int) -> None:
        self._variables = f"FUZZ_SECONDS={seconds} FUZZ_SEED={seed}"
        self._option = f"--hypothesis-seed={seed}"

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print the lines after pytest's own report, which has the falsifying example."""
        reports = [report for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())]
        for name in dict.fromkeys(report.nodeid for report in reports):
            terminalreporter.write_line(f"finding: {name}", red=True)
            terminalreporter.write_line(f"  {self._variables} python -m pytest --timeout=0 {self._option} '{name}'")


def commands(seconds: int, seed: int) -> list[list[str]]:
    """Return the searches that are commands: scripts played on two coordinators, runs of real clients that are
    replayed, and servers killed under load.
    """
    python = [sys.executable, "-m"]
    scripts = ["--scripts", str(seconds * SCRIPTS_PER_SECOND), "--seed", str(seed)]
    pairs = [("shim", "shim:sqlite:")]
    if shutil.which("java") and shutil.which("mvn"):
        pairs.append(("shim", "kafka"))
    played = [
        [*python, "kafka_shim.conformance", "--target", one, "--against", other, *scripts] for one, other in pairs
    ]
    rounds = str(max(2, seconds // SECONDS_PER_ROUND))
    stores = "sqlite,postgresql" if binaries() else "sqlite"
    replayed = [*python, "bench.replaying", "--seconds", str(seconds), "--seed", str(seed)]
    return [*played, replayed, [*python, "bench.crash", "--rounds", rounds, "--stores", stores, "--output", os.devnull]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, print the summary, and return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description="Search for faults by chance.")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each search that a time limits")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--jobs", default="4")
    parser.add_argument("tests", nargs="*", help="only these tests, and no commands")
    options = parser.parse_args(arguments)
    length = {"FUZZ_SECONDS": str(options.seconds), "FUZZ_SEED": str(options.seed)}
    os.environ |= length
    print(f"seed {options.seed}", flush=True)
    words = ["-n", options.jobs, "--dist", "worksteal", "--timeout=0", f"--hypothesis-seed={options.seed}"]
    rows: list[tuple[str, float, bool]] = []
    for command in [] if options.tests else commands(options.seconds, options.seed):
        began = time.monotonic()
        done = subprocess.run(command)
        rows.append((" ".join(["python", *command[1:]]), time.monotonic() - began, done.returncode == 0))
    began = time.monotonic()
    code = pytest.main([*words, *(options.tests or FINDERS)], [Findings(options.seconds, options.seed)])
    rows.append((f"the tests, seed {options.seed}", time.monotonic() - began, code == pytest.ExitCode.OK))
    for name, seconds, is_well in rows:
        print(f"{seconds:6.0f} s  {'nothing found' if is_well else 'FINDING'}  {name}")
    return 0 if all(is_well for *_, is_well in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
