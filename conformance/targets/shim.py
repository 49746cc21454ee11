"""Our own broker, as a user starts it: `kafka-shim serve` in a separate process."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.releases import RELEASES
from kafka_shim.conformance import processes
from kafka_shim.conformance.endpoint import Endpoint, parse_endpoints
from kafka_shim.conformance.invariants import check_trace
from kafka_shim.conformance.targets.base import (
    NO_INTERVALS,
    PROFILES,
    READY_SECONDS,
    Children,
    Instance,
    Limits,
    LineReader,
    TargetError,
    free_port,
)
from kafka_shim.conformance.targets.postgres import postgres_server
from kafka_shim.conformance.targets.secured import LISTENERS, SECURITY
from kafka_shim.conformance.targets.secured import settings as secured_settings
from kafka_shim.conformance.wire import Connection, Tape

_SEVERAL: Final = re.compile(r"postgresql:x([2-9])")


class ShimTarget:
    """`shim` or `shim:STORE`; the memory store by default. `shim:4.4` or `shim:4.4:STORE` poses as that release.

    `shim:sqlite:` and `shim:postgresql:` have their own file or server for the run. `shim:sqlite:PATH` has a file for
    each profile, `PATH-PROFILE`. A running database, `shim:postgresql://...`, serves only the default profile, because
    several processes that share a database are one cluster. `shim:postgresql:x3` is three processes on the database of
    each profile.

    It writes a trace, and `stop` checks its invariants; `traced=False` saves the time.
    """

    def __init__(self, store: str = "memory:", *, traced: bool = True) -> None:
        self._traced = traced
        head, _, rest = store.partition(":")
        self._release = head if head in RELEASES else ""
        if self._release:
            store = rest or "memory:"
        self.name = ":".join(filter(None, ("shim", self._release, "" if store == "memory:" else store)))
        self.profiles = frozenset({"default"} if store.startswith(("postgresql://", "postgres://")) else PROFILES)
        if not store.startswith("postgres"):
            self.profiles |= {SECURITY}
        self.violations: list[str] = []
        self.keep_traces_in: Path | None = None
        """The folder for its traces after `stop`; without one they are removed."""
        several = _SEVERAL.fullmatch(store)
        if several is None and store.startswith("postgresql:x"):
            raise TargetError(f"not a number of processes from 2 to 9: shim:{store}")
        self._store, self._processes = ("postgresql:", int(several[1])) if several else (store, 1)
        self._running: dict[str, list[subprocess.Popen[str]]] = {}
        self._traces: list[Path] = []
        self._children = Children()
        self._lock = threading.Lock()
        self._exit_stack = ExitStack()
        self._server: str | None = None
        self._folder: Path | None = None

    def _store_of(self, profile: str) -> str:
        """Return the store of a profile: each profile needs its own, because a file or database has one owner."""
        if self._store == "postgresql:":
            with self._lock:
                if self._server is None:
                    self._server = self._exit_stack.enter_context(postgres_server(*PROFILES))
            return self._server.rpartition("/")[0] + f"/{profile}"
        if self._store == "sqlite:":
            with self._lock:
                if self._folder is None:
                    self._folder = self._children.folder("conformance-store-")
            return f"sqlite:{self._folder}/{profile}.db"
        return f"{self._store}-{profile}" if self._store.startswith("sqlite:") else self._store

    def start(self, profile: str) -> Instance:
        settings = {"auto.create.topics.enable": "false", "log.cleaner.backoff.ms": "100"} | dict(NO_INTERVALS)
        secured = {name: Endpoint("127.0.0.1", free_port()) for name in LISTENERS} if profile == SECURITY else {}
        if secured:
            settings |= secured_settings(Endpoint("127.0.0.1", free_port()), secured)
        else:
            settings |= PROFILES[profile]
        store = self._store_of(profile)
        # If one of several processes crashed, the others still hold their node ids.
        for process in self._running.pop(profile, []):
            processes.end(process)
        started = [self._serve(store, settings, node_id) for node_id in range(1, self._processes + 1)]
        if self._processes > 1:
            self._running[profile] = started
        first, *others = addresses = [_address(process) for process in started]
        if others:
            _wait_until_balanced(addresses)
        return Instance(
            first.host,
            first.port,
            profile,
            Limits().configured(settings),
            description=f"kafka-shim, store {self._store}" + ("" if not others else f", {self._processes} processes"),
            process=started[0],
            others=tuple(others),
            secured=secured,
        )

    def _serve(self, store: str, settings: Mapping[str, str], node_id: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "kafka_shim", "serve", "--control", "127.0.0.1:0"]
        if "listeners" not in settings:
            command += ["--listen", "127.0.0.1:0"]
        command += ["--store", store, "--node-id", str(node_id), "--log-level", "error"]
        if self._traced:
            trace = processes.temporary_folder("conformance-trace-") / "trace.jsonl"
            command += ["--trace", str(trace)]
        if self._release:
            command += ["--as-version", self._release]
        for name, value in settings.items():
            command += ["--config", f"{name}={value}"]
        process = self._children.start(command)
        with self._lock:
            if self._traced:
                self._traces.append(trace)
        return process

    def stop(self) -> None:
        with self._lock:
            traces, self._traces = self._traces, []
        self._children.end()
        self._exit_stack.close()
        self._server = self._folder = None
        for trace in traces:
            self.violations += check_trace(trace)
            if self.keep_traces_in is not None:
                shutil.move(trace.parent, self.keep_traces_in)
            shutil.rmtree(trace.parent, ignore_errors=True)


def _address(process: subprocess.Popen[str]) -> Endpoint:
    ready = LineReader(process).wait_for("ready ", READY_SECONDS)
    fields = dict(part.split("=", 1) for part in ready.split()[1:] if "=" in part)
    if "kafka" not in fields:
        raise TargetError(f"the ready line names no address: {ready!r}")
    return parse_endpoints(fields["kafka"])[0]


def _wait_until_balanced(addresses: Sequence[Endpoint]) -> None:
    """Return when all processes show the same leaders of `__consumer_offsets`, with equal shares."""
    limit = time.monotonic() + READY_SECONDS
    while True:
        leaders = [_leaders(address) for address in addresses]
        parts = Counter(leaders[0]).values()
        if leaders.count(leaders[0]) == len(parts) == len(addresses) and max(parts) - min(parts) <= 1:
            return
        if time.monotonic() > limit:
            raise TargetError(f"the processes did not balance their partitions: {leaders}")
        time.sleep(0.05)


def _leaders(address: Endpoint) -> list[int]:
    limit = time.monotonic() + READY_SECONDS
    connection = Connection(address, patience=READY_SECONDS, deadline=limit, tape=Tape(), label="leaders")
    try:
        answer = connection.call(MetadataRequest([MetadataRequestTopic(name="__consumer_offsets")]), 9)
    finally:
        connection.close()
    return [each.leader_id for topic in answer.topics for each in topic.partitions]
