"""A PostgreSQL server for one run: in a temporary folder, on a free port of loopback, gone afterwards.

Decides where its programs are looked for and as whom it runs. It does not know what is kept in it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka_shim.conformance.targets.base import TargetError, free_port


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
    with TemporaryDirectory(prefix="kafka-shim-postgres-") as folder:
        data = Path(folder) / "data"
        data.mkdir()
        if user is not None:
            entry = pwd.getpwnam(user)
            for path in (Path(folder), data):
                os.chown(path, entry.pw_uid, entry.pw_gid)

        def run(program: str, *arguments: str | Path) -> None:
            command = [programs / program, *arguments]
            subprocess.run(command, check=True, user=user, stdout=subprocess.DEVNULL, cwd="/")

        run("initdb", "-D", data, "-U", "shim", "-A", "trust", "--no-sync", "-E", "UTF8")
        control = ("-D", data, "-l", Path(folder) / "log", "-w")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c max_connections=60"
        run("pg_ctl", *control, "-o", options, "start")
        try:
            for name in databases:
                run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "shim", name)
            yield f"postgresql://shim@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", *control, "-m", "immediate", "stop")
