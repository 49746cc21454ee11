"""A store on this machine that speaks S3.

    versitygw   a Go program, built once by Go; each object is a file in a folder
    moto        a Python package; objects are in memory, and reading a piece of one scans all of it

It has one bucket, which is deleted with the server.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.fs

from kafka_shim.conformance import processes
from kafka_shim.conformance.targets.base import Endpoint, free_port, wait_until_listening
from kafka_shim.conformance.targets.kafka import cache_folder

SERVERS: Final = ("versitygw", "moto")
BUCKET: Final = "bucket"
_VERSITYGW: Final = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
_KEYS: Final = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}


class Store(NamedTuple):
    """A server at an address."""

    address: str

    @property
    def files(self) -> Any:
        """The file system of the store, for pyarrow."""
        return pyarrow.fs.S3FileSystem(endpoint_override=self.address, allow_bucket_creation=True, **_KEYS)

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings for the store."""
        settings = {
            "endpoint": self.address,
            "endpoint.region": _KEYS["region"],
            "access.key": _KEYS["access_key"],
            "secret.key": _KEYS["secret_key"],
            "path.style.access": "true",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    def put(self, folder: Path, name: str) -> None:
        """Copy a local folder into the bucket, under a name."""
        # With threads, copying many files deadlocks: each waits for a thread that another one holds.
        pyarrow.fs.copy_files(str(folder), f"{BUCKET}/{name}", destination_filesystem=self.files, use_threads=False)

    def get(self, name: str, folder: Path) -> None:
        """Copy the files under a name to a local folder."""
        pyarrow.fs.copy_files(f"{BUCKET}/{name}", str(folder), source_filesystem=self.files, use_threads=False)


@contextmanager
def s3(server: str = "moto") -> Iterator[Store]:
    """Run one of `SERVERS` with a bucket until the end of the block."""
    with {"moto": _moto, "versitygw": _versitygw}[server]() as address:
        store = Store(address)
        store.files.create_dir(BUCKET)
        yield store


@contextmanager
def _moto() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    # Otherwise it logs every request.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@contextmanager
def _versitygw() -> Iterator[str]:
    endpoint = Endpoint("127.0.0.1", free_port())
    keys = {"ROOT_ACCESS_KEY": _KEYS["access_key"], "ROOT_SECRET_KEY": _KEYS["secret_key"]}
    with tempfile.TemporaryDirectory(prefix="bench-store-") as folder:
        process = processes.start(
            [_built(), "--port", f"{endpoint.host}:{endpoint.port}", "--quiet", "posix", folder],
            env={**os.environ, **keys},
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_until_listening(endpoint, process, 30)
            yield f"http://{endpoint.host}:{endpoint.port}"
        finally:
            processes.end(process)


def _built() -> Path:
    """Return the program; Go builds it once."""
    folder = cache_folder() / f"versitygw-{_VERSITYGW.rpartition('@')[2]}"
    program = folder / "versitygw"
    if not program.exists():
        if shutil.which("go") is None:
            raise RuntimeError("versitygw is built by Go, and there is no Go here; moto needs none")
        subprocess.run(["go", "install", _VERSITYGW], check=True, env={**os.environ, "GOBIN": str(folder)})
    return program
