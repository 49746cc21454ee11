"""A target: a broker under test, with the settings it starts with and the limits that cases rely on.

Each kind of target is a module beside this one.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from kafka_shim.conformance import processes
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.secure import Secure

_MOST_HELD: Final = 200
_HELD: Final[deque[socket.socket]] = deque()
"""Sockets that are bound to the newest ports."""
NO_INTERVALS: Final[Mapping[str, str]] = {
    f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")
}
"""Let each change of a group be assigned at once, also from 4.3 on. Older releases of Kafka have no such settings."""

DESCRIPTIONS_IN_MEMORY: Final = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
"""Kafka 4.4's plugin that keeps topology descriptions of streams groups (KIP-1331)."""

PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    # Fast: a lone member's round ends at once, and sessions may be short enough to wait for.
    "default": {
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "50",
    },
    # Limits low enough to hit, and the plugin that is off by default.
    "limits": {
        "group.initial.rebalance.delay.ms": "600",
        "group.min.session.timeout.ms": "100",
        "group.max.session.timeout.ms": "60000",
        "group.max.size": "2",
        "group.consumer.max.size": "2",
        "group.streams.max.size": "2",
        "group.streams.topology.description.plugin.class": DESCRIPTIONS_IN_MEMORY,
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
"""Seconds a target may take to start on a busy machine."""

_ENDING_SECONDS: Final = 0.3
_RESTART_SECONDS: Final = 5.0
_DYING_SECONDS: Final = 20.0


class TargetError(Exception):
    """The target cannot be used: the suite failed or a dependency is missing; the target itself is not at fault."""


@dataclass(frozen=True)
class Limits:
    """The limits of a target, from which cases derive their waits; in milliseconds unless the name says otherwise."""

    min_session_timeout: int = 6_000
    max_session_timeout: int = 1_800_000
    initial_rebalance_delay: int = 3_000
    max_group_size: int = 2_147_483_647
    max_consumer_group_size: int = 2_147_483_647
    max_streams_group_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    request_max_bytes: int = 104_857_600
    retention_check_interval: int = 600_000
    usual_session: int = 30_000
    brief_session: int = 300

    @property
    def session(self) -> int:
        """The shortest session timeout for a case that waits for its expiry."""
        return max(self.min_session_timeout, self.brief_session)

    def with_more_time(self) -> Limits:
        """Return these limits with more time for cases that let a session expire or keep one alive."""
        return replace(self, brief_session=self.brief_session * 4)

    @property
    def patience(self) -> float:
        """Seconds until a due answer counts as missing."""
        return 8.0 + self.initial_rebalance_delay * 3 / 1000

    def configured(self, config: Mapping[str, str]) -> Limits:
        """Return these limits with the values in `config`, by Kafka's names."""
        values = {ours: int(config[kafkas]) for kafkas, ours in LIMIT_NAMES.items() if config.get(kafkas)}
        return replace(self, **values)


LIMIT_NAMES: Final[Mapping[str, str]] = {
    "group.min.session.timeout.ms": "min_session_timeout",
    "group.max.session.timeout.ms": "max_session_timeout",
    "group.initial.rebalance.delay.ms": "initial_rebalance_delay",
    "group.max.size": "max_group_size",
    "group.consumer.max.size": "max_consumer_group_size",
    "group.streams.max.size": "max_streams_group_size",
    "offset.metadata.max.bytes": "offset_metadata_max_bytes",
    "socket.request.max.bytes": "request_max_bytes",
    "offsets.retention.check.interval.ms": "retention_check_interval",
}


@dataclass
class Instance:
    """One running target: its address, its limits and its capabilities.

    `process` ends if the target crashes; None for a foreign target. `ended_at` is the time of the crash. `others` are
    further addresses of the same cluster. `secured` are the listeners that authenticate their clients, by name, beside
    the address; `secure` is for the address itself.
    """

    host: str
    port: int
    profile: str
    limits: Limits
    capabilities: frozenset[str] = frozenset()
    description: str = ""
    process: subprocess.Popen[str] | None = None
    others: tuple[Endpoint, ...] = ()
    secured: Mapping[str, Endpoint] = field(default_factory=dict)
    ended_at: float | None = None
    secure: Secure | None = None

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Every address of the target."""
        return (Endpoint(self.host, self.port, self.secure), *self.others)

    def has_crashed(self) -> bool:
        """Return True if the target has crashed; `ended_at` is the first time this was noticed, by the monotonic clock.

        A process closes its connections a moment before it ends, so one that no longer listens gets time to end.
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
        """Return True if a foreign target does not listen again within a moment; others may restart it."""
        limit = time.monotonic() + _RESTART_SECONDS
        while not self._listens():
            if time.monotonic() > limit:
                return True
            time.sleep(0.1)
        return False

    def _listens(self) -> bool:
        """Return True if any broker accepts, or is too busy to accept."""
        for endpoint in self.endpoints:
            try:
                endpoint.reach(1).close()
            except ConnectionRefusedError:
                continue
            except OSError:
                return True
            return True
        return False


class Target(Protocol):
    """A kind of target. `start` runs once per profile, and again after a crash; `stop` ends all it started.

    After `stop`, `violations` has the invariants that the run broke, for a target with a trace.
    """

    name: str
    profiles: frozenset[str]
    violations: list[str]

    def start(self, profile: str) -> Instance: ...

    def stop(self) -> None: ...


class Children:
    """The processes and temporary folders of one target, removed at its end."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[str]] = []
        self._folders: list[Path] = []
        self._lock = threading.Lock()

    def start(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[str]:
        """Start a process; `options` as in `processes.start`."""
        process = processes.start(command, **options)
        with self._lock:
            self._processes.append(process)
        return process

    def folder(self, prefix: str) -> Path:
        """Create a folder that `end` removes."""
        folder = processes.temporary_folder(prefix)
        with self._lock:
            self._folders.append(folder)
        return folder

    def end(self, *, at_once: bool = False) -> None:
        """End the processes, all at the same time, and remove the folders. `at_once` kills them."""
        with self._lock:
            running, self._processes = self._processes, []
            folders, self._folders = self._folders, []
        for process in running:
            (processes.kill if at_once else processes.terminate)(process)
        for process in running:
            processes.end(process)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def free_port(*, is_held: bool = True) -> int:
    """Return an unused loopback port that only a server with SO_REUSEADDR can take, as most servers have it.

    It lies below the ephemeral ports, so that no connection gets it. Until a server listens on it, some seconds after
    that, another process must not choose it either: a socket is bound to it. With `is_held` false there is none.
    """
    while True:
        port = 16_384 + secrets.randbelow(16_384)
        probe = socket.socket()
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.close()
            continue
        if is_held:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _HELD.append(probe)
            if len(_HELD) > _MOST_HELD:
                _HELD.popleft().close()
        else:
            probe.close()
        return port


def wait_until_listening(endpoint: Endpoint, process: subprocess.Popen[Any], seconds: float) -> None:
    """Return when the endpoint accepts; raise `TargetError` if the process ends or the time is up."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if process.poll() is not None:
            raise TargetError(f"the target ended with exit code {process.returncode} before it listened")
        try:
            endpoint.reach(1).close()
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
    """Collects the lines of a process, so that its pipe never fills, and waits for one with a prefix."""

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
        """Return the first line that starts with `prefix`; raise `TargetError` if it does not come."""
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
