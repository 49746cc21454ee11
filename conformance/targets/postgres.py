"""A PostgreSQL server for one run: in a temporary folder, on a free loopback port, removed afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_shim.conformance import processes
from kafka_shim.conformance.targets.base import READY_SECONDS, TargetError, free_port


def binaries() -> Path | None:
    """Return the folder of `initdb` and `postgres`: from the PATH, or the newest of a Debian installation."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


@contextmanager
def postgres_server(*databases: str, connections: int = 60) -> Iterator[str]:
    """Run a server; yield the URL of an empty database, with `databases` beside it.

    It accepts this number of `connections` at a time, and syncs its log, as in production.
    """
    programs = binaries()
    if programs is None:
        raise TargetError("PostgreSQL is not installed")
    # The server refuses to run as root: use the user that its package created.
    user = "postgres" if os.geteuid() == 0 else None
    port = free_port()
    folder = processes.temporary_folder("kafka-shim-postgres-")
    data = folder / "data"
    data.mkdir()
    if user is not None:
        entry = pwd.getpwnam(user)
        for path in (folder, data):
            os.chown(path, entry.pw_uid, entry.pw_gid)

    def run(program: str, *arguments: str | Path) -> None:
        done = processes.run([programs / program, *arguments], user=user, cwd="/")
        if done.returncode != 0:
            raise TargetError(f"{program} failed: {done.stderr[-500:]}")

    server = None
    try:
        run("initdb", "-D", data, "-U", "shim", "-A", "trust", "--no-sync", "-E", "UTF8")
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": str(connections)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(folder / "log", "wb") as log:
            server = processes.start(
                [programs / "postgres", "-D", data, "-p", str(port), *options],
                stdout=log,
                stderr=log,
                cwd="/",
                user=user,
                last_signal=signal.SIGQUIT,
            )
        _wait_until_ready(programs, port, server)
        for name in databases:
            run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "shim", name)
        yield f"postgresql://shim@127.0.0.1:{port}/postgres"
    finally:
        if server is not None:
            # An immediate shutdown: the data is temporary.
            server.send_signal(signal.SIGQUIT)
            processes.end(server)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(programs: Path, port: int, server: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + READY_SECONDS
    while processes.run([programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]).returncode != 0:
        if server.poll() is not None or time.monotonic() > limit:
            raise TargetError("PostgreSQL did not start")
        time.sleep(0.05)
