"""Ours, as a user starts it: `kafka-shim serve` in a process of its own. The suite sees nothing of its inside."""

from __future__ import annotations

import shutil
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from kafka_shim.conformance import processes
from kafka_shim.conformance.invariants import check_trace
from kafka_shim.conformance.targets.base import (
    PROFILES,
    READY_SECONDS,
    Children,
    Instance,
    Limits,
    LineReader,
    TargetError,
)
from kafka_shim.conformance.targets.postgres import postgres_server


class ShimTarget:
    """`shim` or `shim:STORE`; the memory store by default.

    `shim:sqlite:` and `shim:postgresql:` have a file and a server of their own, for the run. `shim:sqlite:PATH` has a
    file for each profile, `PATH-PROFILE`. A database that somebody else runs, `shim:postgresql://...`, serves the
    default profile alone: several processes that share a database are one cluster.

    It writes a trace, whose invariants are checked at the end, unless it is not to be `traced`: that costs time.
    """

    def __init__(self, store: str = "memory:", *, traced: bool = True) -> None:
        self._traced = traced
        self.name = "shim" if store == "memory:" else f"shim:{store}"
        self.profiles = frozenset({"default"} if store.startswith(("postgresql://", "postgres://")) else PROFILES)
        self.violations: list[str] = []
        self.keep_traces_in: Path | None = None
        """A folder its traces are moved to when it stops; they are removed without one."""
        self._store = store
        self._traces: list[Path] = []
        self._children = Children()
        self._lock = threading.Lock()
        self._kept = ExitStack()
        self._server: str | None = None
        self._folder: Path | None = None

    def _store_of(self, profile: str) -> str:
        """The store of a profile: a file or database has one owner, so each profile has one of its own."""
        if self._store == "postgresql:":
            with self._lock:
                if self._server is None:
                    self._server = self._kept.enter_context(postgres_server(*PROFILES))
            return self._server.rpartition("/")[0] + f"/{profile}"
        if self._store == "sqlite:":
            with self._lock:
                if self._folder is None:
                    self._folder = self._children.folder("conformance-store-")
            return f"sqlite:{self._folder}/{profile}.db"
        return f"{self._store}-{profile}" if self._store.startswith("sqlite:") else self._store

    def start(self, profile: str) -> Instance:
        settings = {"auto.create.topics.enable": "false"} | dict(PROFILES[profile])
        command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
        command += ["--store", self._store_of(profile), "--log-level", "error"]
        if self._traced:
            trace = processes.temporary_folder("conformance-trace-") / "trace.jsonl"
            command += ["--trace", str(trace)]
        for name, value in settings.items():
            command += ["--config", f"{name}={value}"]
        process = self._children.start(command)
        with self._lock:
            if self._traced:
                self._traces.append(trace)
        ready = LineReader(process).wait_for("ready ", READY_SECONDS)
        fields = dict(part.split("=", 1) for part in ready.split()[1:] if "=" in part)
        if "kafka" not in fields:
            raise TargetError(f"the ready line names no address: {ready!r}")
        host, _, port = fields["kafka"].split(",")[0].rpartition(":")
        return Instance(
            host.strip("[]"),
            int(port),
            profile,
            Limits().configured(settings),
            description=f"kafka-shim, store {self._store}",
            process=process,
        )

    def stop(self) -> None:
        with self._lock:
            traces, self._traces = self._traces, []
        self._children.end()
        self._kept.close()
        self._server = self._folder = None
        for trace in traces:
            self.violations += check_trace(trace)
            if self.keep_traces_in is not None:
                shutil.move(trace.parent, self.keep_traces_in)
            shutil.rmtree(trace.parent, ignore_errors=True)
