"""Private files for the bytes of clients: the store, the journal, traces, and pages and exports of these.

Only the owner may read them, under any umask. A new file renames an older one of its name instead of overwriting it:
the older one may show why the previous process ended.
"""

from __future__ import annotations

import os
from io import BufferedWriter, FileIO
from pathlib import Path


def private(path: str, flags: int) -> int:
    """Open a file as the `opener` of `open`; only the owner may read a new file."""
    return os.open(path, flags, 0o600)


def begin_file(path: Path) -> FileIO:
    """Open an empty file without a buffer, after `set_aside` of a file of this name. Raises OSError."""
    set_aside(path)
    return open(path, "wb", buffering=0, opener=private)


def new_file(path: Path) -> BufferedWriter:
    """Create a file and open it for writing. Raises OSError."""
    return open(path, "xb", opener=private)


def set_aside(path: Path) -> None:
    """Rename a file with content: `trace.jsonl` to `trace.jsonl.1`, the next to `trace.jsonl.2`."""
    if path.is_file() and path.stat().st_size:
        numbers = [int(old.suffix[1:]) for old in path.parent.glob(f"{path.name}.*") if old.suffix[1:].isdecimal()]
        path.rename(path.with_name(f"{path.name}.{1 + max(numbers, default=0)}"))


def write_private(path: Path, data: bytes) -> None:
    """Write a whole file, and replace a file of this name. Raises OSError."""
    with open(path, "wb", opener=private) as file:
        file.write(data)
