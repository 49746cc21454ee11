"""The load generator, compiled once, and the CPU time and memory of a server process.

The load generator is a C program in its own process. Figures of the server process come from the kernel.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("load.c")


class NoCompiler(Exception):
    """The load generator cannot be compiled here."""


def build() -> Path:
    """Return the compiled load generator; compile it if its source has changed."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    program = Path(tempfile.gettempdir()) / f"kafka-shim-load-{os.getuid()}-{digest}"
    if not program.exists():
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise NoCompiler("the load generator is a C program, and there is no C compiler here")
        unfinished = program.with_suffix(".new")
        subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", unfinished, SOURCE], check=True)
        unfinished.rename(program)
    return program


@dataclass
class Process:
    """A process to measure, by its id."""

    pid: int

    @classmethod
    def listening_on(cls, port: int) -> Process:
        """Return the process that listens on this port."""
        address = set()
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            if not os.path.exists(table):
                continue
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    address.add(f"socket:[{fields[9]}]")
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if any(os.readlink(link) in address for link in (folder / "fd").iterdir()):
                    return cls(int(folder.name))
            except OSError:
                continue
        raise LookupError(f"no process listens on port {port}")

    def cpu_seconds(self) -> float:
        """Return user and system time of all threads so far, to the nanosecond (/proc/PID/stat counts in 10 ms)."""
        # The CPU clock of another process, as clock_getcpuclockid() makes its id on Linux.
        return time.clock_gettime((~self.pid << 3) | 2)

    def resident_kib(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise LookupError(f"process {self.pid} tells no resident memory")


class Load:
    """Members of one group, each on its own connection; a context manager that closes the connections."""

    def __init__(self, host: str, port: int, group: str, members: int, topics: str) -> None:
        self._process = subprocess.Popen(
            [build(), host, str(port), group, str(members), topics],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def tell(self, command: str, seconds: float, rate: float = 0) -> dict[str, Any]:
        """Carry out one command of the generator; return its figures."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command} {seconds} {rate}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the load generator ended with exit code {self._process.wait()} during {command}")
        figures: dict[str, Any] = json.loads(line)
        return figures
