"""An archive of the classes Spark starts with, so that starting it again costs half. It does not know Spark.

Java maps such an archive (class data sharing) instead of reading, checking and linking ten thousand classes one by one.
The first JVM writes it when it ends, under a name of its own, and Java's header comes last: a file that begins with
anything but zeroes is whole, and only then is it given the name that later ones look for. One JVM writes at a time.

Java itself refuses an archive of another build, class path or kind of heap, silently as told here, and then starts as
it would have without. What needs no care here is thus what differs from run to run; what is in the name is what would
let one environment's archive be replaced by another's forever.

A JVM that writes outlives the Python that started it by some seconds, with its standard output and error open. So none
writes while one of these is a pipe: whoever reads it would wait.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from hashlib import blake2b
from pathlib import Path
from typing import Final

_QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")
_USERS_OWN: Final = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-XX:+AutoCreateSharedArchive", "-Xshare:")
_CLAIM_S: Final = 3600.0
"""How long a file that is not written is taken for one that will be; a JVM that was killed leaves such a one."""


def options(
    runtime: Path, folder: Path, *about: str, settings: str = "", outputs: tuple[int, ...] = (1, 2)
) -> list[str]:
    """Options for the Java of which `runtime` is the folder, to use an archive in `folder` or else to write it.

    `about` tells apart what has an archive of its own. None if `settings`, options of the user's, say something of
    archives, if this Java has none of its own classes to build on, or if the folder cannot be written.
    """
    if any(own in settings for own in _USERS_OWN) or not (runtime / "lib" / "server" / "classes.jsa").exists():
        return []
    archive = folder / f"classes-{_digest(runtime, *about)}.jsa"
    growing = archive.with_suffix(".writing")
    with contextlib.suppress(OSError):
        if not archive.exists() and _whole(growing):
            growing.rename(archive)
        if archive.exists():
            return [f"-XX:SharedArchiveFile={archive}", *_QUIET]
        if not any(_is_read(output) for output in outputs) and _claimed(growing):
            return [f"-XX:ArchiveClassesAtExit={growing}", *_QUIET]
    return []


def _digest(runtime: Path, *about: str) -> str:
    """A short name for this build of Java and what the archive is about."""
    libjvm = (runtime / "lib" / "server" / "libjvm.so").stat()
    parts = (str(runtime), str(libjvm.st_size), str(libjvm.st_mtime_ns), *about)
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _whole(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return any(file.read(8))
    except FileNotFoundError:
        return False


def _claimed(path: Path) -> bool:
    """Whether nobody else is to write this file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if time.time() - path.stat().st_mtime > _CLAIM_S:
            path.unlink()
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _is_read(output: int) -> bool:
    """Whether somebody may wait for the end of this file descriptor."""
    try:
        mode = os.fstat(output).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
