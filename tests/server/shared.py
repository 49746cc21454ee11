"""Processes of one cluster on one PostgreSQL database, as an operator starts them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Process:
    """`kafka-shim serve` on a database, on a free port, a new one after every start."""

    def __init__(self, url: str, node_id: int, *options: str, listen: bool = True) -> None:
        self.node_id = node_id
        self.bootstrap = ""
        self._command = [
            sys.executable,
            "-m",
            "kafka_shim",
            "serve",
            "--store",
            url,
            "--node-id",
            str(node_id),
            *options,
        ]
        self._command += ["--config", "group.initial.rebalance.delay.ms=0"]
        if listen:
            self._command += ["--listen", "127.0.0.1:0"]
        self._popen: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, unless it runs."""
        if self._popen is None:
            self._popen = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)

    def ready(self) -> None:
        assert self._popen is not None
        assert self._popen.stdout is not None
        if not self.bootstrap:
            line = self._popen.stdout.readline()
            assert line.startswith("ready kafka="), line
            self.bootstrap = line.split()[1].removeprefix("kafka=")

    def signal(self, number: signal.Signals) -> None:
        if self._popen is not None:
            self._popen.send_signal(number)

    def stop(self) -> None:
        """Stop it cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it at once."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._popen is not None:
            self._popen.send_signal(number)
            self._popen.wait()
            assert self._popen.stdout is not None
            self._popen.stdout.close()
            self._popen = None
            self.bootstrap = ""


@contextmanager
def processes(url: str, *options: str, nodes: tuple[int, ...] = (1, 2, 3)) -> Iterator[list[Process]]:
    """Start processes; return them by node id when they are ready."""
    made = [Process(url, node, *options) for node in nodes]
    try:
        for process in made:
            process.start()
        for process in made:
            process.ready()
        yield made
    finally:
        for process in made:
            process.kill()
