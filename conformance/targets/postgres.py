"""A PostgreSQL server for one run: in a temporary folder, on a free port of loopback, gone afterwards.

Decides where its programs are looked for and as whom it runs. It does not know what is kept in it.
"""

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
    """The folder of `initdb` and `postgres`: of the PATH, or the newest of a Debian installation."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


@contextmanager
def postgres_server(*databases: str) -> Iterator[str]:
    """Run a server; the value is a URL of its empty database, `databases` are made beside it.

    It syncs its log, as a real one does.
    """
    programs = binaries()
    if programs is None:
        raise TargetError("PostgreSQL is not installed here")
    # The server refuses to run as root: then it runs as the user that its package made for it.
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
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "60"}
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
            # An immediate shutdown: nothing of it is needed any more.
            server.send_signal(signal.SIGQUIT)
            processes.end(server)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_ready(programs: Path, port: int, server: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + READY_SECONDS
    while processes.run([programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]).returncode != 0:
        if server.poll() is not None or time.monotonic() > limit:
            raise TargetError("PostgreSQL did not start")
        time.sleep(0.05)
