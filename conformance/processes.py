"""The processes and temporary folders of a run, so that none is left however the run ends.

Decides how a child process is started (at the head of a process group of its own, which ends as a whole), and that
nothing more is started once the run has been broken off. A watch, a shell at the other end of a pipe, ends what is left
when the run itself was killed or has ended without a word. It does not know what the processes are.
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
"""The processes that were started here: each is the head of a group, which may outlive it."""

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
"""Of each process group that began and has not ended it knows the last signal. It sends them when the pipe ends."""

_watch: subprocess.Popen[bytes] | None = None
_broken_off = False
_is_starting = False
_signalled = 0


class BrokenOff(Exception):
    """The run was broken off: nothing is started any more."""


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
    """Start a process at the head of a group of its own: a Ctrl-C of the terminal reaches only us.

    `last_signal` ends it when the run is broken off; SIGTERM for one that has children with groups of their own.
    """
    with _no_signal_between(), _LOCK:
        if _broken_off:
            raise BrokenOff
        _forget_the_dead()
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
    """Run a process to its end, its output captured."""
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env, user=user)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def terminate(process: subprocess.Popen[Any]) -> None:
    """Ask a process and its group to end, without waiting."""
    _signal(process, signal.SIGTERM)


def kill(process: subprocess.Popen[Any]) -> None:
    """Let a process and its group end at once, without waiting."""
    _signal(process, signal.SIGKILL)


def end(process: subprocess.Popen[Any], grace: float = _GRACE) -> None:
    """Ask a process and its group to end, then insist: a shell ends before what it has started."""
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
    """A new folder that is removed at the latest when the run is broken off; else its maker removes it."""
    with _no_signal_between(), _LOCK:
        if _broken_off:
            raise BrokenOff
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        _FOLDERS.append(folder)
    return folder


def break_off() -> None:
    """End everything at once, and let nothing start any more."""
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


def break_off_on_signals() -> None:
    """Let SIGINT and SIGTERM end this process and all it started, wherever its threads are.

    Exit code 130 or 143. No clean-up of threads is waited for: what they wait for may never come.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        global _signalled
        _signalled = number
        if not _is_starting:
            _leave()

    for number in _SIGNALS:
        signal.signal(number, handle)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_repeat, args=(reading, threading.get_ident()), daemon=True).start()


def _repeat(reading: int, main_thread: int) -> NoReturn:
    """Send a signal that came again, until it has ended us: the main thread does not see one that comes just before it
    begins to wait for a lock."""
    number = 0
    while number not in _SIGNALS:
        (number,) = os.read(reading, 1)
    while True:
        time.sleep(_AGAIN)
        signal.pthread_kill(main_thread, number)


@contextmanager
def _no_signal_between() -> Iterator[None]:
    """Let no signal come between the start of a process and its entry in the list: in the main thread it waits."""
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
    """Whether a child runs. Not by `Popen.poll`, whose lock the thread that was interrupted may hold."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return False


def _has_group(process: subprocess.Popen[Any]) -> bool:
    """Whether the process, reaped already, has left others in its group."""
    if process.pid not in _HEADS or process.poll() is None or _is_another(process):
        return False
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _forget_the_dead() -> None:
    """Take processes that have ended from the list, and what they left behind out of the world."""
    for entry in [entry for entry in _RUNNING if entry[0].poll() is not None]:
        _RUNNING.remove(entry)
        _signal(entry[0], signal.SIGKILL)
        _ended(entry[0].pid)


def _began(pid: int, last_signal: signal.Signals) -> None:
    """A process was started at the head of a group."""
    global _watch
    _HEADS.add(pid)
    if _watch is None or _watch.poll() is not None:
        _watch = subprocess.Popen(["/bin/sh", "-c", _WATCH], stdin=subprocess.PIPE, env={}, start_new_session=True)
    _tell_watch(f"+ {pid} {last_signal:d}")


def _ended(pid: int) -> None:
    """The group that this process was the head of has ended: another one may get its number."""
    if pid in _HEADS:
        _HEADS.discard(pid)
        _tell_watch(f"- {pid} 0")


def _tell_watch(line: str) -> None:
    if _watch is not None and _watch.stdin is not None:
        with suppress(BrokenPipeError):
            os.write(_watch.stdin.fileno(), f"{line}\n".encode())


def _signal(process: subprocess.Popen[Any], number: signal.Signals) -> None:
    """Signal a process, and its group if it was started at the head of one."""
    with suppress(ProcessLookupError, PermissionError):
        if process.pid in _HEADS:
            if not _is_another(process):
                os.killpg(process.pid, number)
        elif process.returncode is None:
            os.kill(process.pid, number)


def _is_another(process: subprocess.Popen[Any]) -> bool:
    """Whether the number of a process that was reaped is that of another one by now, which may be at the head of a
    group, too. While any of the old group is there, the system gives the number to nobody."""
    if process.returncode is None:
        return False
    try:
        os.kill(process.pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True
