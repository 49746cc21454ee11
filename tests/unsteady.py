"""A second try of each test that failed, alone in a fresh process: a pytest plugin of `make check` and `make test`.

A test that passes then is printed as `unsteady: NAME` with both outcomes, and the run goes on to succeed; a test that
fails twice has failed. More than `MOST_UNSTEADY` of them fail the run. An unsteady test is a fault, of itself or of the
code:

    python -m tests.unsteady TEST    # fifty times in fresh processes, beside two busy loops (`make unsteady TEST=...`)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from _pytest.terminal import TerminalReporter

MOST_UNSTEADY: Final = 3
MOST_FAILED: Final = 10
"""More failures than this have one cause, which a second try would only repeat."""
BUSY_LOOPS: Final = 2
ROUNDS: Final = 50
FAILURES: Final = ("failed", "error")


@dataclass
class Outcomes:
    """Second outcomes by name of test. `failed` has the output of those that failed again."""

    passed: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


OUTCOMES: Final = pytest.StashKey[Outcomes]()


def alone(test: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one test in a fresh process, without options that spread and repeat tests. Fixtures of xdist stay."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-o", "addopts=", test]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def again(session: pytest.Session, failed: list[str]) -> Outcomes:
    """Run these tests once more, one after the other."""
    outcomes = Outcomes()
    for name in failed:
        began = time.monotonic()
        done = alone(name, session.config.rootpath)
        if done.returncode == 0:
            outcomes.passed[name] = time.monotonic() - began
        else:
            outcomes.failed[name] = done.stdout + done.stderr
    return outcomes


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Try again before the summary is printed, and let the second outcome decide."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if hasattr(session.config, "workerinput") or reporter is None:
        return
    reports = [report for kind in FAILURES for report in reporter.stats.get(kind, ())]
    names = list(dict.fromkeys(report.nodeid for report in reports))
    is_of_tests = all(isinstance(report, pytest.TestReport) for report in reports)
    if session.exitstatus != pytest.ExitCode.TESTS_FAILED or not is_of_tests or not 0 < len(names) <= MOST_FAILED:
        return
    outcomes = session.config.stash[OUTCOMES] = again(session, names)
    first: dict[str, pytest.TestReport] = {}
    for kind in FAILURES:
        reports = reporter.stats.pop(kind, [])
        for report in reports:
            if report.nodeid in outcomes.passed:
                first.setdefault(report.nodeid, report)
        if lasting := [report for report in reports if report.nodeid not in outcomes.passed]:
            reporter.stats[kind] = lasting
    if first:
        reporter.stats["unsteady"] = list(first.values())
    if not outcomes.failed and len(first) <= MOST_UNSTEADY:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Print both outcomes of each test that was tried twice."""
    outcomes = config.stash.get(OUTCOMES, None)
    if outcomes is None:
        return
    for report in terminalreporter.stats.get("unsteady", ()):
        terminalreporter.write_sep("=", f"unsteady: {report.nodeid}", yellow=True)
        terminalreporter.write_line(f"first: {report.outcome} in {report.when}")
        terminalreporter.write_line(report.longreprtext)
        for title, text in report.sections:
            terminalreporter.write_sep("-", title)
            terminalreporter.write_line(text)
        terminalreporter.write_line(f"alone: passed after {outcomes.passed[report.nodeid]:.1f} s")
    for name, output in outcomes.failed.items():
        terminalreporter.write_sep("=", f"failed twice: {name}, the second time alone", red=True)
        terminalreporter.write_line(output)
    for name in outcomes.passed:
        terminalreporter.write_line(f"unsteady: {name}", yellow=True)
    if len(outcomes.passed) > MOST_UNSTEADY:
        terminalreporter.write_line(f"More than {MOST_UNSTEADY} tests are unsteady: this run has failed.", red=True)


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep so many processes busy until the end of the block."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(loops)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def main() -> int:
    """Play a test many times under load; print the output of each failure and how many there were."""
    parser = argparse.ArgumentParser(description="Play a test many times beside busy loops.")
    parser.add_argument("test", help="a name as pytest prints it, such as tests/apis/test_uuid.py::test_text")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--loops", type=int, default=BUSY_LOOPS)
    arguments = parser.parse_args()
    failures = 0
    with busy(arguments.loops):
        for number in range(1, arguments.rounds + 1):
            done = alone(arguments.test, Path.cwd())
            if done.returncode:
                failures += 1
                print(f"round {number}:\n{done.stdout}{done.stderr}", flush=True)
    print(f"{arguments.test}: {failures} of {arguments.rounds} rounds failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
