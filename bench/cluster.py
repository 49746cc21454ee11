"""A standalone Spark cluster on this machine, of the PySpark distribution: a master, and workers that can be killed.

Every worker is a process group of its own, with its executors in it, so that killing it is what a machine that loses
its power looks like.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Final

import pyspark

from kafka_shim.pipeline.java import find_java

_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"


class Cluster:
    """A master and `workers` workers of one core each; a context manager. Raises `kafka_shim.pipeline.java.NoJava`."""

    def __init__(self, folder: Path, workers: int = 2, memory: str = "1g") -> None:
        self._folder = folder
        self._count = workers
        self._memory = memory
        self._processes: list[subprocess.Popen[str]] = []
        self.url = ""

    def __enter__(self) -> Cluster:
        try:
            self.url = self._start("master.Master", "--port", "0", until=_MASTER)[1]
            for _ in range(self._count):
                arguments = ["--cores", "1", "--memory", self._memory, "--work-dir", str(self._folder), self.url]
                self._start("worker.Worker", "--port", "0", *arguments, until=re.compile(_REGISTERED))
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def workers(self) -> list[subprocess.Popen[str]]:
        """The workers' processes, each the leader of its process group."""
        return self._processes[1:]

    def pids(self) -> list[int]:
        """The master's process and the workers'; executors are below these."""
        return [process.pid for process in self._processes]

    def _start(self, name: str, *arguments: str, until: re.Pattern[str]) -> re.Match[str]:
        home = Path(pyspark.__file__).parent
        environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(find_java().home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            # What executors that are killed leave behind goes with the cluster's folder.
            "SPARK_LOCAL_DIRS": str(self._folder),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYSPARK_PYTHON": sys.executable,
        }
        own = ["--host", "127.0.0.1", "--webui-port", "0"]
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *own, *arguments],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._processes.append(process)
        assert process.stderr is not None
        output = []
        for line in process.stderr:
            output.append(line)
            if found := until.search(line):
                # What else it says is read too, so that the pipe does not fill.
                Thread(target=process.stderr.read, daemon=True).start()
                return found
        raise RuntimeError(f"Spark's {name} did not start: {''.join(output[-20:])}")
