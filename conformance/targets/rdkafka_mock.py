"""librdkafka's mock cluster, from the confluent-kafka wheel, in a process of its own because it may abort.

A producer configured with `test.mock.num.brokers` starts the cluster; its address is in the producer's own metadata.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Final

from conformance.targets.base import Instance, Limits, LineReader, end

_PROGRAM: Final = """\
import resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from confluent_kafka import Producer, libversion, version
producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
print(f"ready {broker.host}:{broker.port} {version()} librdkafka-{libversion()[0]}", flush=True)
sys.stdin.read()
"""


class RdkafkaMockTarget:
    """`rdkafka-mock`."""

    name = "rdkafka-mock"
    profiles = frozenset({"default"})

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._running: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()

    def start(self, profile: str) -> Instance:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with self._lock:
            self._running.append(process)
        ready = LineReader(process).wait_for("ready ", 30).split()
        host, _, port = ready[1].rpartition(":")
        # Its rounds last as long as the session, whoever has joined.
        limits = Limits(min_session_timeout=1, initial_rebalance_delay=3_000, usual_session=4_000)
        capabilities = frozenset({"short-sessions"})
        return Instance(host, int(port), profile, limits, capabilities, " ".join(ready[2:]), process)

    def stop(self) -> None:
        with self._lock:
            running, self._running = self._running, []
        for process in running:
            end(process)
