"""Private files for the bytes of clients: the store, the journal, traces, and pages and exports of these.

Only the owner may read them, under any umask, older files of the user too. A new file renames an older one of its name
instead of overwriting it: the older one may show why the previous process ended.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Final

_CAN_CHANGE_OPEN_FILES: Final = os.chmod in os.supports_fd


def private(path: str, flags: int) -> int:
    """Open a file as the `opener` of `open`, and `make_private` it before its first byte. Raises OSError."""
    number = os.open(path, flags, 0o600)
    if _CAN_CHANGE_OPEN_FILES:
        make_private(number)
    return number


def make_private(file: Path | int) -> None:
    """Take every right to a file from all but its owner. Devices, pipes, absent files and files of others stay."""
    with suppress(OSError):
        mode = os.stat(file).st_mode
        if stat.S_ISREG(mode) and mode & 0o077:
            os.chmod(file, mode & 0o700)


def begin_file(path: Path) -> FileIO:
    """Open an empty file without a buffer, after `set_aside` of a file of this name. Raises OSError."""
    set_aside(path)
    return open(path, "wb", buffering=0, opener=private)


def new_file(path: Path) -> BufferedWriter:
    """Create a file and open it for writing. Raises OSError."""
    return open(path, "xb", opener=private)


def set_aside(path: Path) -> None:
    """`make_private` a file with content and rename it: `trace.jsonl` to `trace.jsonl.1`, the next to `.2`."""
    if path.is_file() and path.stat().st_size:
        make_private(path)
        numbers = [int(old.suffix[1:]) for old in path.parent.glob(f"{path.name}.*") if old.suffix[1:].isdecimal()]
        path.rename(path.with_name(f"{path.name}.{1 + max(numbers, default=0)}"))


def write_private(path: Path, data: bytes) -> None:
    """Write a whole file, and replace a file of this name. Raises OSError."""
    with open(path, "wb", opener=private) as file:
        file.write(data)
