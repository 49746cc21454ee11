"""Ctrl-C ends a run at any moment, and leaves no process and no folder."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_shim.conformance import processes as started
from kafka_shim.conformance.cli import cli
from tests.waiting import until

MARK = "CONFORMANCE_TEST_MARK"
ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.second_stage("many processes"),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="it looks into /proc"),
]


def marked(mark: str) -> set[int]:
    """Return the processes with the mark in their environment: those of the run, in any relation to it."""
    pids = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                pids.add(int(folder.name))
        except OSError:
            continue
    return pids


def runs(pid: int) -> bool:
    """Return True if a process has not ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("finish", [started.kill, started.terminate, started.end])
def test_a_process_with_a_reused_pid_is_not_killed(
    finish: Callable[[subprocess.Popen[str]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = started.start(["true"])
    ended.wait()
    # Pids start again after some ten thousand processes.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as another:
        monkeypatch.setattr(started, "_HEADS", {another.pid})
        monkeypatch.setattr(ended, "pid", another.pid)
        finish(ended)
        assert runs(another.pid)
        assert another.stdin is not None
        another.stdin.close()
        assert another.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("arguments", "processes"),
    [
        pytest.param(arguments, processes, id=f"{when}-{name}")
        for name, arguments, most in (
            ("while-a-target-starts", ["--target", "shim"], 3),
            ("while-another-starts", ["--target", "rdkafka-mock"], 2),
            ("differential", ["--target", "shim", "--against", "shim"], 3),
            ("clients", ["--target", "shim", "--client", "kafka-python-3.0"], 3),
        )
        for processes, when in ((2, "at-first"), (3, "later"))
        if processes <= most
    ],
)
def test_a_signal_ends_a_run_and_all_it_started(
    arguments: list[str], number: signal.Signals, processes: int, tmp_path: Path
) -> None:
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
        until(lambda: len(marked(mark)) >= processes or run.poll() is not None, lambda: "nothing was started")
        run.send_signal(number)
        _, stderr = run.communicate(timeout=10)
        assert run.returncode == 128 + number, stderr
        assert stderr.endswith("broken off\n")
        until(lambda: not marked(mark), lambda: f"left: {marked(mark)}")
        assert list(tmp_path.iterdir()) == []
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)


_HOLDS = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(600)"
CHILDREN = f'sleep 600 & {sys.executable} -c "{_HOLDS}" & wait'
"""A shell with children that hold the port, as the start script of a broker; it answers nothing."""


def test_a_failed_run_ends_the_children_of_its_start_command(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "kafka_shim.conformance", "--start-command", "sleep 600 & exit 3 # {port}"]
    environment = os.environ | {MARK: mark, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stdout + done.stderr
    until(lambda: not marked(mark), lambda: f"left: {marked(mark)}")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_ends_the_children_of_a_start_command(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    run = subprocess.Popen(
        [sys.executable, "-m", "kafka_shim.conformance", "--start-command", CHILDREN],
        env=os.environ | {MARK: mark, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: len(marked(mark)) >= 4 or run.poll() is not None, lambda: "nothing was started")
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=10)
        assert run.returncode == 130, stderr
        until(lambda: not marked(mark), lambda: f"left: {marked(mark)}")
        assert list(tmp_path.iterdir()) == []
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)


ENDS = {
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "terminal-closed": "os.kill(os.getpid(), signal.SIGHUP)",
    "without-a-word": "os._exit(0)",
    "exception": "raise RuntimeError",
}


@pytest.mark.parametrize("how", ENDS)
def test_children_end_after_an_abrupt_end_of_their_run(how: str) -> None:
    mark = uuid.uuid4().hex
    program = f"""
import os, signal
from kafka_shim.conformance import processes
ended = processes.start(["/bin/sh", "-c", "exit 0"])
ended.wait()
processes.end(ended)
processes.start(["/bin/sh", "-c", "sleep 600 & sleep 600 & wait"])
print("ready", flush=True)
{ENDS[how]}
"""
    environment = os.environ | {MARK: mark, "PYTHONPATH": str(ROOT)}
    try:
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
        until(lambda: not marked(mark), lambda: f"left: {marked(mark)}")
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)


def test_the_watch_of_a_run_ends_with_it() -> None:
    program = """
from kafka_shim.conformance import processes
processes.end(processes.start(["sleep", "600"]))
print(processes._watch.pid)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    until(lambda: not runs(int(done.stdout)), lambda: "the watch still runs")


def test_an_interrupted_benchmark_leaves_no_server() -> None:
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "bench.forming", "--servers", "shim", "--members", "1", "--topics", "100000"]
    environment = os.environ | {MARK: mark, "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=ROOT)
    try:
        until(lambda: len(marked(mark)) > 1 or run.poll() is not None, lambda: "nothing was started")
        run.terminate()
        assert run.wait(30) == -signal.SIGTERM
        until(lambda: not marked(mark), lambda: f"left: {marked(mark)}")
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)


def test_children_of_a_shell_end_with_it(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    shell = started.start(["/bin/sh", "-c", "sleep 600 & sleep 600 & wait"], env=os.environ | {MARK: mark})
    until(lambda: len(marked(mark)) == 3, lambda: "nothing was started")
    started.end(shell)
    until(lambda: not marked(mark), lambda: f"left: {marked(mark)}")


@pytest.mark.parametrize("arguments", [["--list"], ["--target", "127.0.0.1:1", "--case", "join/first/1"]])
def test_a_run_within_another_program_leaves_its_signals_alone(arguments: list[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    CliRunner().invoke(cli, arguments)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(wakeup) == wakeup
