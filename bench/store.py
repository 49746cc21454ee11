"""A store that speaks S3, on this machine: moto's server, which keeps what it has in memory and in temporary files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.fs

BUCKET: Final = "bucket"
_KEYS: Final = {"access_key": "key", "secret_key": "secret", "region": "us-east-1"}


class Store(NamedTuple):
    """A server at an address."""

    address: str

    @property
    def files(self) -> Any:
        """Its file system, as pyarrow has it."""
        return pyarrow.fs.S3FileSystem(endpoint_override=self.address, allow_bucket_creation=True, **_KEYS)

    @property
    def settings(self) -> dict[str, str]:
        """What Spark's settings say of it."""
        settings = {
            "endpoint": self.address,
            "endpoint.region": _KEYS["region"],
            "access.key": _KEYS["access_key"],
            "secret.key": _KEYS["secret_key"],
            "path.style.access": "true",
        }
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}

    def put(self, folder: Path, name: str) -> None:
        """Copies a folder of this machine into the bucket, under a name."""
        # With threads, as many files as there are wait for threads that nobody gives back.
        pyarrow.fs.copy_files(str(folder), f"{BUCKET}/{name}", destination_filesystem=self.files, use_threads=False)

    def get(self, name: str, folder: Path) -> None:
        """Copies what is under a name to a folder of this machine."""
        pyarrow.fs.copy_files(f"{BUCKET}/{name}", str(folder), source_filesystem=self.files, use_threads=False)


@contextmanager
def s3() -> Iterator[Store]:
    """A server with a bucket, for as long as this is not left."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        store = Store(f"http://{host}:{port}")
        store.files.create_dir(BUCKET)
        yield store
    finally:
        server.stop()
