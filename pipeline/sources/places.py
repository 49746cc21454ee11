"""Files on this machine or in a store: their address, size and bytes, and how small ones are written.

A place is a local path, or an address whose scheme pyarrow has a file system for: `s3://` (also as Hadoop's `s3a://`),
`gs://`, `abfss://`, `hdfs://`. Hadoop's settings for S3 (`fs.s3a.endpoint` and the like) arrive as options of the
source, because workers cannot read Spark's settings. Files ending in `.gz` and `.zst` are decompressed, from beginning
to end.
"""

from __future__ import annotations

import gzip
import io
import mmap
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs

PACKED: Final = (".gz", ".zst")
TIMES_PACKED: Final = 10
"""Estimate of the compression ratio."""
AHEAD: Final = 8 << 20
"""How many bytes of a file in a store to request at once: a request takes longer than its bytes."""
LINE: Final = 64 << 10
"""Bytes to read ahead for one line; nearly every line is shorter."""
_OPTION: Final = "fs."
_S3: Final = {
    "fs.s3a.access.key": "access_key",
    "fs.s3a.secret.key": "secret_key",
    "fs.s3a.session.token": "session_token",
    "fs.s3a.endpoint.region": "region",
}


class Unreadable(Exception):
    """A path that cannot be read; the message is one sentence."""


Settings = tuple[tuple[str, str], ...]
"""Hadoop's settings for stores, as a sorted tuple so that they are hashable."""


def settings_of(options: Mapping[str, str]) -> Settings:
    """Select Hadoop's settings from the options of a source."""
    return tuple(sorted((name, value) for name, value in options.items() if name.lower().startswith(_OPTION)))


def store_settings(config: Mapping[str, str]) -> Settings:
    """Select the settings for stores from Spark's settings, under Hadoop's names."""
    return settings_of({name.removeprefix("spark.hadoop."): value for name, value in config.items()})


class Place:
    """A file or folder. Its methods raise `Unreadable` if it does not exist or is not of the right kind."""

    def __init__(self, address: str, settings: Settings = ()) -> None:
        self.address = address.removeprefix("file:") if address.startswith("file:") else address
        self.settings = settings
        if "://" not in self.address:
            self.address = str(Path(self.address))
        self.name = self.address.rstrip("/").rpartition("/")[2]

    def __repr__(self) -> str:
        return self.address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __lt__(self, other: Place) -> bool:
        return self.address < other.address

    @property
    def parent(self) -> Place:
        """The folder of this place."""
        return Place(self.address.rstrip("/").rpartition("/")[0], self.settings)

    def beside(self, name: str) -> Place:
        """Return a file in the same folder."""
        return Place(f"{self.parent.address}/{name}", self.settings)

    @property
    def is_local(self) -> bool:
        return "://" not in self.address

    @property
    def is_packed(self) -> bool:
        return self.name.endswith(PACKED)

    def real(self) -> str:
        """Return the resolved path: the same for all names of one file."""
        return str(Path(self.address).resolve()) if self.is_local else self.address

    def info(self) -> tuple[str, int]:
        """Return `file`, `folder` or `nothing`, and the size of a file in bytes."""
        files, path = _file_system(self)
        try:
            about = files.get_file_info(path)
        except (OSError, pa.ArrowException) as error:
            raise Unreadable(f"{self} cannot be read: {reason_of(error)}") from error
        kind = {pa.fs.FileType.File: "file", pa.fs.FileType.Directory: "folder"}.get(about.type, "nothing")
        return kind, about.size or 0

    def size(self) -> int:
        """Return the size of a file in bytes."""
        kind, size = self.info()
        if kind != "file":
            raise Unreadable(f"{self} cannot be read here: it is not a file")
        return size

    def content_size(self) -> int:
        """Return the size of a file in bytes after decompression, which for a compressed file is an estimate."""
        return self.size() * (TIMES_PACKED if self.is_packed else 1)

    def children(self) -> list[Place]:
        """Return the contents of a folder, sorted."""
        files, path = _file_system(self)
        try:
            entries = files.get_file_info(pa.fs.FileSelector(path))
        except (OSError, pa.ArrowException) as error:
            raise Unreadable(f"{self} cannot be read: {reason_of(error)}") from error
        return sorted(Place(f"{self.address.rstrip('/')}/{each.base_name}", self.settings) for each in entries)

    def open(self, ahead: int = AHEAD) -> BinaryIO:
        """Open the file, reading `ahead` bytes at once from a store; a compressed file cannot seek backwards."""
        try:
            raw = self._raw(ahead)
            if self.name.endswith(".gz"):
                return gzip.open(raw)  # type: ignore[return-value]
            if self.name.endswith(".zst"):
                return io.BufferedReader(pa.CompressedInputStream(raw, "zstd"))
            return raw
        except (OSError, pa.ArrowException) as error:
            raise Unreadable(f"{self} cannot be read here: {reason_of(error)}") from error

    def first_line(self) -> bytes:
        """Return the first line, including its line end if it is complete."""
        with self.open(LINE) as file:
            return file.readline()

    def _raw(self, ahead: int) -> BinaryIO:
        if self.is_local:
            return Path(self.address).open("rb")
        files, path = _file_system(self)
        return io.BufferedReader(files.open_input_file(path), ahead)

    def content(self) -> mmap.mmap | bytes:
        """Return all bytes."""
        with self.open() as file:
            if self.is_local and not self.is_packed:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            try:
                return file.read()
            except (OSError, EOFError, pa.ArrowException) as error:
                raise Unreadable(f"{self} cannot be unpacked: {reason_of(error)}") from error

    def text(self) -> str | None:
        """Return the text of a small file; None if it does not exist."""
        if self.info()[0] != "file":
            return None
        with self.open() as file:
            return file.read().decode()

    def write(self, text: str) -> None:
        """Create or replace a file with this text. Readers see the old text or the new one. Raises OSError."""
        if not self.is_local:
            files, path = _file_system(self)
            with files.open_output_stream(path) as stream:
                stream.write(text.encode())
            return
        place = Path(self.address)
        place.parent.mkdir(parents=True, exist_ok=True)
        whole = place.with_name(f".{place.name}.{uuid4().hex}")
        whole.write_text(text, newline="")
        whole.replace(place)

    def remove(self) -> None:
        """Delete a file, or a folder with its contents, if there is one. Raises OSError."""
        files, path = _file_system(self)
        kind, _ = self.info()
        # Another process may delete it at the same time.
        with suppress(FileNotFoundError):
            if kind == "file":
                files.delete_file(path)
            elif kind == "folder":
                files.delete_dir(path)


def reason_of(error: BaseException) -> str:
    """Return what the system says about an error, in one line."""
    return getattr(error, "strerror", None) or (str(error).splitlines() or [type(error).__name__])[0]


def _file_system(place: Place) -> tuple[Any, str]:
    if place.is_local:
        return _local(), place.address
    parts = urlsplit(place.address)
    files = _store(parts.scheme, parts.netloc, place.settings)
    path = f"{parts.netloc}{parts.path}" if parts.scheme != "hdfs" else parts.path
    return files, path.rstrip("/")


@lru_cache(maxsize=1)
def _local() -> Any:
    return pa.fs.LocalFileSystem()


@lru_cache(maxsize=16)
def _store(scheme: str, host: str, settings: Settings) -> Any:
    if scheme in ("s3", "s3a", "s3n"):
        values = dict(settings)
        about: dict[str, Any] = {_S3[name]: value for name, value in values.items() if name in _S3}
        if endpoint := values.get("fs.s3a.endpoint"):
            secure = endpoint.startswith("https") or values.get("fs.s3a.connection.ssl.enabled", "true") == "true"
            about["endpoint_override"] = endpoint.rpartition("//")[2]
            about["scheme"] = "http" if endpoint.startswith("http://") or not secure else "https"
        return pa.fs.S3FileSystem(**about)
    try:
        return pa.fs.FileSystem.from_uri(f"{scheme}://{host}/")[0]
    except (OSError, pa.ArrowException, ValueError) as error:
        raise Unreadable(f"{scheme}://{host} cannot be read: {reason_of(error)}") from error
