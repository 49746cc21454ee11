"""A target: something that listens on a port and claims to coordinate groups.

Decides which settings a target is started with (`PROFILES`) and what the suite may rely on (`Limits`). It does not know
how any target is started: each kind is a module beside this one.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from kafka_shim.conformance import processes
from kafka_shim.conformance.endpoint import Endpoint

PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    # Fast: a lone member's round ends at once, and sessions may be short enough to wait for.
    "default": {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "50",
    },
    # Limits low enough to hit.
    "limits": {
        "group.initial.rebalance.delay.ms": "600",
        "group.min.session.timeout.ms": "100",
        "group.max.session.timeout.ms": "60000",
        "group.max.size": "2",
        "group.consumer.max.size": "2",
        "offset.metadata.max.bytes": "10",
    },
    # The clean-up of offsets runs often enough to wait for.
    "retention": {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "offsets.retention.check.interval.ms": "300",
    },
}


READY_SECONDS: Final = 90.0
"""How long a target may take to start on a machine that is busy."""

_ENDING_SECONDS: Final = 0.3
_RESTART_SECONDS: Final = 5.0
_DYING_SECONDS: Final = 20.0


class TargetError(Exception):
    """The target could not be had: the harness is at fault or something it needs is missing, not the target."""


@dataclass(frozen=True)
class Limits:
    """What the waits of a case are derived from; all in milliseconds but where named otherwise."""

    min_session_timeout: int = 6_000
    max_session_timeout: int = 1_800_000
    initial_rebalance_delay: int = 3_000
    max_group_size: int = 2_147_483_647
    max_consumer_group_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    request_max_bytes: int = 104_857_600
    retention_check_interval: int = 600_000
    usual_session: int = 30_000
    brief_session: int = 300

    @property
    def session(self) -> int:
        """The shortest session timeout a case that waits for its expiry asks for."""
        return max(self.min_session_timeout, self.brief_session)

    def calmer(self) -> Limits:
        """These limits with more time for whoever waits for a session to end, or keeps one alive."""
        return replace(self, brief_session=self.brief_session * 4)

    @property
    def patience(self) -> float:
        """Seconds after which an answer that is due counts as missing."""
        return 8.0 + self.initial_rebalance_delay * 3 / 1000

    def configured(self, config: Mapping[str, str]) -> Limits:
        """These limits with what `config`, by Kafka's names, says otherwise."""
        values = {ours: int(config[theirs]) for theirs, ours in LIMIT_NAMES.items() if config.get(theirs)}
        return replace(self, **values)


LIMIT_NAMES: Final[Mapping[str, str]] = {
    "group.min.session.timeout.ms": "min_session_timeout",
    "group.max.session.timeout.ms": "max_session_timeout",
    "group.initial.rebalance.delay.ms": "initial_rebalance_delay",
    "group.max.size": "max_group_size",
    "group.consumer.max.size": "max_consumer_group_size",
    "offset.metadata.max.bytes": "offset_metadata_max_bytes",
    "socket.request.max.bytes": "request_max_bytes",
    "offsets.retention.check.interval.ms": "retention_check_interval",
}


@dataclass
class Instance:
    """One running target: where it listens, how it is limited, what a case may count on.

    `process` is what ends when the target crashes; None for one that is not ours. `ended_at` is when it did. `others`
    are further addresses of the same cluster.
    """

    host: str
    port: int
    profile: str
    limits: Limits
    capabilities: frozenset[str] = frozenset()
    description: str = ""
    process: subprocess.Popen[str] | None = None
    others: tuple[Endpoint, ...] = ()
    ended_at: float | None = None

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every address of the target."""
        return (Endpoint(self.host, self.port), *self.others)

    def has_crashed(self) -> bool:
        """Whether the target has crashed; `ended_at` is when that was first noticed, by the monotonic clock.

        A process closes its connections a moment before it has ended; one that no longer listens is waited for.
        """
        noticed = time.monotonic()
        if self.ended_at is None and (self._stopped_listening() if self.process is None else self._process_ended()):
            self.ended_at = noticed
        return self.ended_at is not None

    def _process_ended(self) -> bool:
        assert self.process is not None
        if _ends_within(self.process, _ENDING_SECONDS):
            return True
        return not self._listens() and _ends_within(self.process, _DYING_SECONDS)

    def _stopped_listening(self) -> bool:
        """Of a target that is not ours: one that others start again gets a moment."""
        limit = time.monotonic() + _RESTART_SECONDS
        while not self._listens():
            if time.monotonic() > limit:
                return True
            time.sleep(0.1)
        return False

    def _listens(self) -> bool:
        """Whether any broker of it does; one too busy to accept does."""
        for endpoint in self.endpoints:
            try:
                endpoint.connect(1).close()
            except ConnectionRefusedError:
                continue
            except OSError:
                return True
            return True
        return False


class Target(Protocol):
    """A kind of target. `start` is called once per profile, and again after a crash; `stop` ends all it started.

    `violations` says after `stop` which invariants the run broke, where the target tells what it does.
    """

    name: str
    profiles: frozenset[str]
    violations: list[str]

    def start(self, profile: str) -> Instance: ...

    def stop(self) -> None: ...


class Children:
    """The processes and temporary folders of one target, which end with it."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._folders: list[Path] = []
        self._lock = threading.Lock()

    def start(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[str]:
        """Start a process; `options` as of `processes.start`."""
        process = processes.start(command, **options)
        with self._lock:
            self._processes.append(process)
        return process

    def folder(self, prefix: str) -> Path:
        """A new folder, removed by `end`."""
        folder = processes.temporary_folder(prefix)
        with self._lock:
            self._folders.append(folder)
        return folder

    def end(self, *, at_once: bool = False) -> None:
        """End the processes, all at a time, and remove the folders. `at_once` does not let them finish anything."""
        with self._lock:
            running, self._processes = self._processes, []
            folders, self._folders = self._folders, []
        for process in running:
            (processes.kill if at_once else processes.terminate)(process)
        for process in running:
            processes.end(process)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A loopback port nobody listens on at this moment.

    It is below those that systems give to connections and to whoever asks for any port: nobody comes upon it by chance
    while the process it is for starts, or is started again.
    """
    while True:
        port = 16_384 + secrets.randbelow(16_384)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_until_listening(endpoint: Endpoint, process: subprocess.Popen[Any], seconds: float) -> None:
    """Return once the endpoint accepts; `TargetError` if the process ends or the time is up."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if process.poll() is not None:
            raise TargetError(f"the target ended with exit code {process.returncode} before it listened")
        try:
            endpoint.connect(1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise TargetError(f"the target did not listen on {endpoint} within {seconds:.0f} s")


def _ends_within(process: subprocess.Popen[Any], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


class LineReader:
    """Collects the lines a process prints, so that its pipe never fills, and waits for one that matches."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._stream = process.stdout
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._stream is not None
        for line in self._stream:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, prefix: str, seconds: float) -> str:
        """The first line that starts with `prefix`; `TargetError` if it does not come."""
        limit = time.monotonic() + seconds
        with self._changed:
            while True:
                for line in self.lines:
                    if line.startswith(prefix):
                        return line
                if self._ended:
                    raise TargetError(f"the target ended before it was ready; it printed {self.lines[-5:]}")
                if not self._changed.wait(limit - time.monotonic()):
                    raise TargetError(f"no line {prefix!r} from the target; it printed {self.lines[-5:]}")
