"""A simulated disk with power cuts: it records SQLite's writes and syncs, and recreates the files at any moment.

The recorder is a VFS of the SQLite library that Python uses: a copy of the platform's VFS whose files report each
write, truncation and sync before they carry it out. After a cut a file has all synced data. Of the later writes it has
none, all, or any sectors, because a disk may write sectors in any order.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

SECTOR = 512

_pointer = ctypes.c_void_p
# The name is a pointer and not a string: SQLite keeps it and reads the bytes around it.
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, _pointer, _pointer, ctypes.c_int, ctypes.POINTER(ctypes.c_int))
_DELETE = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, ctypes.c_char_p, ctypes.c_int)
_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, _pointer, ctypes.c_int, ctypes.c_int64)
_TRUNCATE = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, ctypes.c_int64)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, _pointer, ctypes.c_int)


class _Vfs(ctypes.Structure):
    """The C struct sqlite3_vfs, up to the last member that is replaced or copied."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("max_path", ctypes.c_int),
        ("next", _pointer),
        ("name", ctypes.c_char_p),
        ("app_data", _pointer),
        ("open", _pointer),
        ("delete", _pointer),
        ("rest", _pointer * 14),
    )


class _Methods(ctypes.Structure):
    """The C struct sqlite3_io_methods."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("close", _pointer),
        ("read", _pointer),
        ("write", _pointer),
        ("truncate", _pointer),
        ("sync", _pointer),
        ("rest", _pointer * 13),
    )


class Write(NamedTuple):
    """Bytes written to a file of this name, at an offset."""

    file: str
    offset: int
    data: bytes


class Truncate(NamedTuple):
    """A truncation of a file to this size."""

    file: str
    size: int


class Sync(NamedTuple):
    """A sync: all earlier changes of the file are on the disk."""

    file: str


class Delete(NamedTuple):
    """The deletion of a file."""

    file: str


class Acknowledged(NamedTuple):
    """A mark between disk operations: the store reported this batch as durable."""

    batch: int


Happening = Write | Truncate | Sync | Delete | Acknowledged


@contextmanager
def recording(*, hardware: bool = True) -> Iterator[list[Happening]]:
    """Record all that SQLite does to files opened within the block, in order, in a growing list.

    Without `hardware`, syncs are recorded but not carried out, which is faster when only reading.
    """
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    base = library.sqlite3_vfs_find(None)
    happened: list[Happening] = []
    names: dict[int, str] = {}
    references: list[Any] = []
    tables: dict[int, _Methods] = {}

    def opened(vfs: int, name: int | None, file: int, flags: int, out: Any) -> int:
        code: int = _OPEN(base.contents.open)(vfs, name, file, flags, out)
        table = ctypes.cast(file, ctypes.POINTER(_pointer))
        if code == 0 and name is not None and table[0]:
            names[file] = Path(ctypes.string_at(name).decode()).name
            table[0] = ctypes.addressof(methods_like(table[0]))
        return code

    def methods_like(address: int) -> _Methods:
        if address not in tables:
            original = _Methods.from_address(address)
            table = tables[address] = _Methods()
            ctypes.memmove(ctypes.addressof(table), address, ctypes.sizeof(_Methods))
            write, truncate, sync = _WRITE(original.write), _TRUNCATE(original.truncate), _SYNC(original.sync)

            def on_write(file: int, data: int, size: int, offset: int) -> int:
                happened.append(Write(names[file], offset, ctypes.string_at(data, size)))
                return write(file, data, size, offset)

            def on_truncate(file: int, size: int) -> int:
                happened.append(Truncate(names[file], size))
                return truncate(file, size)

            def on_sync(file: int, flags: int) -> int:
                code: int = sync(file, flags) if hardware else 0
                happened.append(Sync(names[file]))
                return code

            for field, prototype, function in (
                ("write", _WRITE, on_write),
                ("truncate", _TRUNCATE, on_truncate),
                ("sync", _SYNC, on_sync),
            ):
                setattr(table, field, keep(prototype(function)))
        return tables[address]

    def keep(function: Any) -> int | None:
        references.append(function)
        return ctypes.cast(function, _pointer).value

    def deleted(vfs: int, name: bytes, sync_folder: int) -> int:
        happened.append(Delete(Path(name.decode()).name))
        code: int = _DELETE(base.contents.delete)(vfs, name, sync_folder)
        return code

    recorder = _Vfs()
    ctypes.memmove(ctypes.addressof(recorder), ctypes.addressof(base.contents), ctypes.sizeof(_Vfs))
    recorder.name = b"recorder"
    recorder.open = keep(_OPEN(opened))
    recorder.delete = keep(_DELETE(deleted))
    library.sqlite3_vfs_register(ctypes.byref(recorder), 1)
    try:
        yield happened
    finally:
        library.sqlite3_vfs_unregister(ctypes.byref(recorder))
        library.sqlite3_vfs_register(base, 1)


def after_cut(happened: Sequence[Happening], survives: Callable[[], bool]) -> dict[str, bytes]:
    """Return the files on the disk after a power cut after these operations.

    `survives` decides for each sector that was written and not synced.
    """
    last_sync = {each.file: at for at, each in enumerate(happened) if isinstance(each, Sync)}
    files: dict[str, bytearray] = {}
    for at, each in enumerate(happened):
        is_synced = not isinstance(each, Acknowledged) and at < last_sync.get(each.file, -1)
        if isinstance(each, Write):
            content = files.setdefault(each.file, bytearray())
            parts = [(each.offset, each.data)] if is_synced else [part for part in _sectors(each) if survives()]
            for start, data in parts:
                if len(content) < start:
                    content.extend(bytes(start - len(content)))
                content[start : start + len(data)] = data
        elif isinstance(each, Truncate) and (is_synced or survives()):
            content = files.setdefault(each.file, bytearray())
            del content[each.size :]
        elif isinstance(each, Delete):
            files.pop(each.file, None)
    return {name: bytes(content) for name, content in files.items()}


def _sectors(write: Write) -> Iterator[tuple[int, bytes]]:
    """Yield the parts of a write that a disk writes completely or not at all."""
    start, end = write.offset, write.offset + len(write.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield start, write.data[start - write.offset : stop - write.offset]
        start = stop


def nothing() -> bool:
    """Lose every sector that was not synced."""
    return False


def everything() -> bool:
    """Keep every sector."""
    return True


def some(chance: random.Random, share: float) -> Callable[[], bool]:
    """Keep each sector with this probability."""
    return lambda: chance.random() < share
