"""A PostgreSQL server of the test run's own: in a temporary folder, on a free port of loopback, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg


def binaries() -> Path | None:
    """The folder of `initdb` and `postgres`: of the PATH, or the newest of a Debian installation."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


@contextmanager
def postgres_server() -> Iterator[str]:
    """Run a server; the value is a URL of its empty database. It syncs its log, as a real one does."""
    programs = binaries()
    assert programs is not None
    # The server refuses to run as root: then it runs as the user that its package made for it.
    user = "postgres" if os.geteuid() == 0 else None
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with TemporaryDirectory(prefix="kafka-shim-postgres-") as folder:
        data = Path(folder) / "data"
        data.mkdir()
        if user is not None:
            entry = pwd.getpwnam(user)
            for path in (Path(folder), data):
                os.chown(path, entry.pw_uid, entry.pw_gid)
        initdb = [programs / "initdb", "-D", data, "-U", "shim", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(initdb, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")
        log = Path(folder) / "log"
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=60"
        control = [programs / "pg_ctl", "-D", data, "-l", log, "-w"]
        subprocess.run([*control, "-o", options, "start"], check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")
        try:
            yield f"postgresql://shim@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, user=user, stdout=subprocess.DEVNULL)


def empty(url: str) -> None:
    """Drop everything a store keeps."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in ("meta", "records", "nodes", "leases", "documents"):
            connection.execute(f"DROP TABLE IF EXISTS kafka_shim_{table}")
