"""The child processes and temporary folders of a run; none survives it, however the run ends.

Each child leads its own process group, and the group ends as a whole. After the run is broken off nothing starts. If
the run is killed, a watch, a shell at the other end of a pipe, ends the remaining groups.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, Final, NoReturn

_GRACE: Final = 10.0
_AGAIN: Final = 0.05
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOCK: Final = threading.RLock()
_RUNNING: Final[list[tuple[subprocess.Popen[Any], signal.Signals]]] = []
_FOLDERS: Final[list[Path]] = []
_HEADS: Final[set[int]] = set()
"""Pids of the started processes. Each leads a process group, and the group may outlive it."""

_WATCH: Final = """
heads=
while read -r sign pid number; do
    left=
    for each in $heads; do [ "${each%:*}" = "$pid" ] || left="$left $each"; done
    heads=$left
    [ "$sign" = - ] || heads="$heads $pid:$number"
done
for each in $heads; do kill -"${each#*:}" -"${each%:*}" 2>/dev/null; done
"""
"""Keeps each running process group with its last signal, and sends the signals at the end of the pipe."""

_watch: subprocess.Popen[bytes] | None = None
_broken_off = False
_is_starting = False
_signalled = 0


class BrokenOff(Exception):
    """The run was broken off: nothing starts any more."""


def start(
    command: Sequence[str | Path],
    *,
    stdin: int | IO[Any] | None = subprocess.DEVNULL,
    stdout: int | IO[Any] | None = subprocess.PIPE,
    stderr: int | IO[Any] | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
    last_signal: signal.Signals = signal.SIGKILL,
) -> subprocess.Popen[str]:
    """Start a process in its own process group: a Ctrl-C of the terminal reaches only us.

    `last_signal` ends it when the run is broken off; SIGTERM for a process whose children have their own groups.
    """
    with _no_signal_between(), _LOCK:
        if _broken_off:
            raise BrokenOff
        _forget_ended()
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=env,
            user=user,
            text=True,
            start_new_session=True,
        )
        _RUNNING.append((process, last_signal))
        _began(process.pid, last_signal)
    return process


def run(
    command: Sequence[str | Path],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    user: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end and capture its output."""
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env, user=user)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def terminate(process: subprocess.Popen[Any]) -> None:
    """Send SIGTERM to a process and its group, without waiting."""
    _signal(process, signal.SIGTERM)


def kill(process: subprocess.Popen[Any]) -> None:
    """Send SIGKILL to a process and its group, without waiting."""
    _signal(process, signal.SIGKILL)


def end(process: subprocess.Popen[Any], grace: float = _GRACE) -> None:
    """Terminate a process and its group, then kill the rest: a shell ends before its children."""
    if process.poll() is None:
        terminate(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    limit = time.monotonic() + grace
    while _has_group(process) and time.monotonic() < limit:
        time.sleep(0.01)
    _signal(process, signal.SIGKILL)
    process.wait()
    _ended(process.pid)


def temporary_folder(prefix: str) -> Path:
    """Create a folder. Its maker removes it; a run that is broken off removes it too."""
    with _no_signal_between(), _LOCK:
        if _broken_off:
            raise BrokenOff
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        _FOLDERS.append(folder)
    return folder


def break_off() -> None:
    """End all processes at once, and start no more."""
    global _broken_off
    with _LOCK:
        _broken_off = True
        for process, number in _RUNNING:
            _signal(process, number)
        limit = time.monotonic() + _GRACE
        while any(map(_is_alive, [process.pid for process, _ in _RUNNING])) and time.monotonic() < limit:
            time.sleep(0.01)
        for folder in _FOLDERS:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def broken_off_on_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM end this process and its children, in any state of its threads, until the block ends.

    Exit code 130 or 143. It does not wait for threads: they may wait for events that never come.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        global _signalled
        _signalled = number
        if not _is_starting:
            _leave()

    handlers = {number: signal.signal(number, handle) for number in _SIGNALS}
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_repeat, args=(reading, threading.get_ident()), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.close(writing)


def _repeat(reading: int, main_thread: int) -> None:
    """Repeat a signal until it ends this process.

    The main thread misses a signal that arrives just before it waits for a lock.
    """
    number = 0
    while number not in _SIGNALS:
        received = os.read(reading, 1)
        if not received:
            os.close(reading)
            return
        (number,) = received
    while True:
        time.sleep(_AGAIN)
        signal.pthread_kill(main_thread, number)


@contextmanager
def _no_signal_between() -> Iterator[None]:
    """Delay signals in the main thread from the start of a process until it is in the list."""
    global _is_starting
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _is_starting = True
    try:
        yield
    finally:
        _is_starting = False
        if _signalled:
            _leave()


def _leave() -> NoReturn:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if sys.stdout.isatty():
        # A progress bar hides the cursor.
        os.write(1, b"\x1b[?25h\n")
    os.write(2, b"broken off\n")
    break_off()
    os._exit(128 + _signalled)


def _is_alive(pid: int) -> bool:
    """Return True if a child runs. Without `Popen.poll`: the interrupted thread may hold its lock."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _has_group(process: subprocess.Popen[Any]) -> bool:
    """Return True if a reaped process left others in its group."""
    if process.poll() is None or not _is_head(process):
        return False
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _forget_ended() -> None:
    """Remove ended processes from the list, and kill the rest of their groups."""
    for entry in [entry for entry in _RUNNING if entry[0].poll() is not None]:
        _RUNNING.remove(entry)
        _signal(entry[0], signal.SIGKILL)
        _ended(entry[0].pid)


def _began(pid: int, last_signal: signal.Signals) -> None:
    """Note the leader of a new process group, and start the watch if it is not running."""
    global _watch
    _HEADS.add(pid)
    if _watch is None or _watch.poll() is not None:
        _watch = subprocess.Popen(["/bin/sh", "-c", _WATCH], stdin=subprocess.PIPE, env={}, start_new_session=True)
    _write_to_watch(f"+ {pid} {last_signal:d}")


def _ended(pid: int) -> None:
    """Forget an ended process group: the system may reuse its pid."""
    if pid in _HEADS:
        _HEADS.discard(pid)
        _write_to_watch(f"- {pid} 0")


def _write_to_watch(line: str) -> None:
    if _watch is not None and _watch.stdin is not None:
        with suppress(BrokenPipeError):
            os.write(_watch.stdin.fileno(), f"{line}\n".encode())


def _signal(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Signal a process, and its group if the process leads one."""
    with suppress(ProcessLookupError, PermissionError):
        if _is_head(process):
            os.killpg(process.pid, number)
        elif process.returncode is None:
            os.kill(process.pid, number)


def _is_head(process: subprocess.Popen[Any]) -> bool:
    """True if the process group with this number is still the group of `process`.

    After the process was reaped the system may give its number to another process, but only when its group is empty.
    """
    if process.pid not in _HEADS:
        return False
    if process.returncode is None:
        return True
    try:
        os.kill(process.pid, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        return True
    return False
