"""A standalone Spark cluster on this machine, from the PySpark distribution: a master, and workers that can be killed.

A worker and its executors form a process group, so that killing the group looks like a machine that loses power. A new
worker can replace each that died.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Final

import pyspark

from kafka_shim.conformance import processes
from kafka_shim.pipeline.java import find_java

_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = re.compile("Successfully registered with master")


class Cluster:
    """A master and `workers` workers of `cores` cores each; a context manager.

    With `replaces`, a new worker with an empty disk replaces each that died. Raises `kafka_shim.pipeline.java.NoJava`.
    """

    MASTER: Final = "org.apache.spark.deploy.master.Master"
    WORKER: Final = "org.apache.spark.deploy.worker.Worker"

    def __init__(
        self, folder: Path, workers: int = 2, memory: str = "1g", cores: int = 1, replaces: bool = False
    ) -> None:
        self._folder = folder
        self._count = workers
        self._memory = memory
        self._cores = cores
        self._replaces = replaces
        self._processes: list[subprocess.Popen[str]] = []
        self._starting = Lock()
        self._ended = False
        self.url = ""

    def __enter__(self) -> Cluster:
        try:
            self.url = self._until(self._start(self.MASTER, self._folder / "master"), _MASTER)[1]
            for process in [self._worker() for _ in range(self._count)]:
                self._until(process, _REGISTERED)
                if self._replaces:
                    self._watch(process)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._starting:
            self._ended = True
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def workers(self) -> list[subprocess.Popen[str]]:
        """The workers' processes, the oldest first; each leads its process group."""
        return self._processes[1:]

    def pids(self) -> list[int]:
        """The processes of the master and the workers; executors are children of the workers."""
        return [process.pid for process in self._processes]

    def _worker(self) -> subprocess.Popen[str]:
        # Each worker has its own disk.
        own = self._folder / f"worker-{len(self.workers())}"
        arguments = ["--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(own), self.url]
        return self._start(self.WORKER, own, *arguments)

    def _watch(self, process: subprocess.Popen[str]) -> None:
        """Start a new worker when this one dies."""

        def replace() -> None:
            process.wait()
            with self._starting:
                new = None if self._ended else self._worker()
            if new is None:
                return
            try:
                self._until(new, _REGISTERED)
            except RuntimeError:
                # It died because the whole cluster ended.
                if self._ended:
                    return
                raise
            self._watch(new)

        Thread(target=replace, daemon=True).start()

    def _start(self, name: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            # The files of killed executors are deleted with the cluster's folder.
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
        }
        own = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        command = [str(home / "bin" / "spark-class"), name, *own, *arguments]
        process = processes.start(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._processes.append(process)
        return process

    def _until(self, process: subprocess.Popen[str], pattern: re.Pattern[str]) -> re.Match[str]:
        """Wait until the process prints a line with this pattern."""
        assert process.stderr is not None
        output = []
        for line in process.stderr:
            output.append(line)
            if match := pattern.search(line):
                # Keep reading, so that the pipe does not fill.
                Thread(target=process.stderr.read, daemon=True).start()
                return match
        raise RuntimeError(f"a process of Spark's did not start: {''.join(output[-20:])}")
