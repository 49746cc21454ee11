"""Files to be read, on this machine or in a store: where they are, how large, and their bytes. It knows no formats.

A place is a path of this machine, or an address whose scheme pyarrow has a file system for: `s3://` (Hadoop calls it
`s3a://`, which is taken too), `gs://`, `abfss://`, `hdfs://`. What Hadoop's settings say of S3 (`fs.s3a.endpoint` and
the like) comes as options of the source, as the sources are asked where Spark's settings are not. Files ending in
`.gz` and `.zst` are read as what is in them, from their beginning to their end.
"""

from __future__ import annotations

import gzip
import io
import mmap
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs

PACKED: Final = (".gz", ".zst")
TIMES_PACKED: Final = 10
"""What is packed is about so many times as large."""
AHEAD: Final = 8 << 20
"""So many bytes of a file in a store are asked for at once: a request takes a store longer than bytes do."""
LINE: Final = 64 << 10
"""Enough for nearly every line."""
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
"""Settings of Hadoop's that matter here, sorted, so that they can be kept with a place."""


def settings_of(options: Mapping[str, str]) -> Settings:
    """Those among the options of a source."""
    return tuple(sorted((name, value) for name, value in options.items() if name.lower().startswith(_OPTION)))


class Place:
    """A file or folder. Raises `Unreadable` where it is asked for what is not there."""

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
        """The folder it is in."""
        return Place(self.address.rstrip("/").rpartition("/")[0], self.settings)

    def beside(self, name: str) -> Place:
        """A file in the same folder."""
        return Place(f"{self.parent.address}/{name}", self.settings)

    @property
    def is_local(self) -> bool:
        return "://" not in self.address

    @property
    def is_packed(self) -> bool:
        return self.name.endswith(PACKED)

    def real(self) -> str:
        """The same for all names of one file."""
        return str(Path(self.address).resolve()) if self.is_local else self.address

    def info(self) -> tuple[str, int]:
        """`file`, `folder` or `nothing`, and how many bytes a file has."""
        files, path = _found(self)
        try:
            about = files.get_file_info(path)
        except (OSError, pa.ArrowException) as error:
            raise Unreadable(f"{self} cannot be read: {_reason(error)}") from error
        kind = {pa.fs.FileType.File: "file", pa.fs.FileType.Directory: "folder"}.get(about.type, "nothing")
        return kind, about.size or 0

    def size(self) -> int:
        """Bytes of a file."""
        kind, size = self.info()
        if kind != "file":
            raise Unreadable(f"{self} cannot be read here: it is no file")
        return size

    def content_size(self) -> int:
        """About how many bytes there are to read of a file: of one that is packed nobody knows before."""
        return self.size() * (TIMES_PACKED if self.is_packed else 1)

    def children(self) -> list[Place]:
        """What is in a folder."""
        files, path = _found(self)
        try:
            found = files.get_file_info(pa.fs.FileSelector(path))
        except (OSError, pa.ArrowException) as error:
            raise Unreadable(f"{self} cannot be read: {_reason(error)}") from error
        return sorted(Place(f"{self.address.rstrip('/')}/{each.base_name}", self.settings) for each in found)

    def open(self, ahead: int = AHEAD) -> BinaryIO:
        """The bytes, of a store so many `ahead`; those of a packed file cannot be gone back in."""
        try:
            raw = self._raw(ahead)
            if self.name.endswith(".gz"):
                return gzip.open(raw)  # type: ignore[return-value]
            if self.name.endswith(".zst"):
                return io.BufferedReader(pa.CompressedInputStream(raw, "zstd"))
            return raw
        except (OSError, pa.ArrowException) as error:
            raise Unreadable(f"{self} cannot be read here: {_reason(error)}") from error

    def first_line(self) -> bytes:
        """The first line, with its end if it is whole."""
        with self.open(LINE) as file:
            return file.readline()

    def _raw(self, ahead: int) -> BinaryIO:
        if self.is_local:
            return Path(self.address).open("rb")
        files, path = _found(self)
        return io.BufferedReader(files.open_input_file(path), ahead)

    def content(self) -> mmap.mmap | bytes:
        """All bytes."""
        with self.open() as file:
            if self.is_local and not self.is_packed:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            try:
                return file.read()
            except (OSError, EOFError, pa.ArrowException) as error:
                raise Unreadable(f"{self} cannot be unpacked: {_reason(error)}") from error

    def text(self) -> str | None:
        """What a small file says; None if it is not there."""
        if self.info()[0] != "file":
            return None
        with self.open() as file:
            return file.read().decode()


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error).splitlines()[0]


def _found(place: Place) -> tuple[Any, str]:
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
        named = dict(settings)
        about: dict[str, Any] = {_S3[name]: value for name, value in named.items() if name in _S3}
        if endpoint := named.get("fs.s3a.endpoint"):
            secure = endpoint.startswith("https") or named.get("fs.s3a.connection.ssl.enabled", "true") == "true"
            about["endpoint_override"] = endpoint.rpartition("//")[2]
            about["scheme"] = "http" if endpoint.startswith("http://") or not secure else "https"
        return pa.fs.S3FileSystem(**about)
    try:
        return pa.fs.FileSystem.from_uri(f"{scheme}://{host}/")[0]
    except (OSError, pa.ArrowException, ValueError) as error:
        raise Unreadable(f"{scheme}://{host} cannot be read: {_reason(error)}") from error
