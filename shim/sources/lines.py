"""Where the lines of logs come from: files, patterns of files, folders, packed files and standard input.

A file is read in pieces of about 1 MiB that end with a line end, so that memory does not grow with the file; of a line
of megabytes only the front is kept.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from glob import glob
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final

from kafka_shim.trace.reading import UnreadableTrace, zstd_file

STDIN: Final = Path("-")
PIECE: Final = 1024 * 1024
LONGEST_LINE: Final = 64 * 1024
"""Bytes that are kept of a line that is longer than a piece."""


class UnreadableLog(Exception):
    """An unreadable log; the message is one sentence."""


def files_of(names: Sequence[str]) -> list[Path]:
    """Return the files of these names, each once: a name may be a pattern (`server.log*`), or a folder, of which all
    files are taken. Raises UnreadableLog.
    """
    files: dict[Path, None] = {}
    for name in names:
        path = Path(name)
        if path == STDIN or path.is_file():
            matches = [path]
        elif path.is_dir():
            matches = sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith("."))
        else:
            matches = sorted(Path(each) for each in glob(name, recursive=True) if Path(each).is_file())
        if not matches:
            raise UnreadableLog(f"There is no file in {name}." if path.is_dir() else f"There is no {name}.")
        files.update(dict.fromkeys(matches))
    return list(files)


def names_of(files: Sequence[Path]) -> dict[Path, str]:
    """Return a short name for each file: its last part, or the whole path if several files have that."""
    last = [each.name for each in files]
    return {
        each: "standard input" if each == STDIN else each.name if last.count(each.name) == 1 else str(each)
        for each in files
    }


def pieces_of(file: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces of about 1 MiB, unpacked, each with whole lines. Raises UnreadableLog."""
    rest = b""
    cut = False
    for data in _data(file):
        if cut:
            end = data.find(b"\n")
            if end < 0:
                continue
            data, cut = data[end:], False
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            rest = data[end:]
        else:
            rest += data
        if len(rest) > PIECE:
            rest, cut = rest[:LONGEST_LINE], True
    if rest:
        yield rest + b"\n"


def _data(file: Path) -> Iterator[bytes]:
    try:
        with ExitStack() as stack:
            opened = _opened(file, stack)
            while data := opened.read(PIECE):
                yield data
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UnreadableLog(f"{file} is not a complete gzip file.") from None
    except UnreadableTrace as error:
        raise UnreadableLog(str(error)) from None
    except OSError as error:
        raise UnreadableLog(f"{file} cannot be read: {error.strerror or error}.") from None


def _opened(file: Path, stack: ExitStack) -> BinaryIO | gzip.GzipFile:
    opened: BinaryIO = sys.stdin.buffer if file == STDIN else stack.enter_context(file.open("rb"))
    magic = opened.peek(4)[:4] if isinstance(opened, BufferedReader) else b""
    if magic[:2] == b"\x1f\x8b":
        unpacked = gzip.GzipFile(fileobj=opened)
        stack.callback(unpacked.close)
        return unpacked
    if magic == b"\x28\xb5\x2f\xfd":
        return zstd_file(opened, file)
    return opened
