"""Ctrl-C ends a run wherever it is, and leaves no process and no folder."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

MARK = "CONFORMANCE_TEST_MARK"

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="it looks into /proc")


def marked(mark: str) -> set[int]:
    """The processes that have the mark in their environment: those of the run, however they are related."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.add(int(folder.name))
        except OSError:
            continue
    return found


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "arguments",
    [
        ["--target", "shim"],
        ["--target", "rdkafka-mock"],
        ["--target", "shim", "--against", "shim"],
        ["--target", "shim", "--client", "kafka-python-3.0"],
    ],
    ids=["while-a-target-starts", "while-another-starts", "differential", "clients"],
)
@pytest.mark.parametrize("processes", [2, 3], ids=["at-first", "later"])
def test_a_signal_ends_a_run_and_all_it_started(
    arguments: list[str], number: signal.Signals, processes: int, tmp_path: Path
) -> None:
    if processes == 3 and arguments[1] == "rdkafka-mock":
        pytest.skip("it starts one process")
    mark = uuid.uuid4().hex
    environment = os.environ | {MARK: mark, "TMPDIR": str(tmp_path)}
    run = subprocess.Popen(
        [sys.executable, "-m", "kafka_shim.conformance", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: len(marked(mark)) >= processes or run.poll() is not None, "nothing was started")
        run.send_signal(number)
        _, stderr = run.communicate(timeout=10)
        assert run.returncode == 128 + number, stderr
        assert stderr.endswith("broken off\n")
        wait_for(lambda: not marked(mark), f"left: {marked(mark)}", 5)
        assert list(tmp_path.iterdir()) == []
    finally:
        for left in marked(mark):
            os.kill(left, signal.SIGKILL)
