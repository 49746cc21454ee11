"""Nisshi, a broker in Rust, formerly Tansu: one process, all in memory, built with Cargo.

The suite measures its capabilities, as for a foreign target. The build takes 15 minutes, once: the cache folder keeps
the program, and a program put there by hand is used too.
"""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from typing import Final

from kafka_shim.conformance import processes
from kafka_shim.conformance.targets.base import PROFILES, Instance, TargetError
from kafka_shim.conformance.targets.foreign import Declaration, ForeignTarget, Place
from kafka_shim.conformance.targets.kafka import cache_folder

VERSION: Final = "0.8.1"

_ADDRESS: Final = "tcp://127.0.0.1:{port}"
# Of our settings it has only the initial rebalance delay.
_OPTIONS: Final = (
    f"--listener-url {_ADDRESS} --advertised-listener-url {_ADDRESS} --storage-engine memory://nisshi/ "
    "--group-initial-rebalance-delay 0s --group-poll-interval 50ms --silent"
)


class NisshiTarget(ForeignTarget):
    """The target `nisshi`."""

    def __init__(self) -> None:
        self._folder = cache_folder() / f"nisshi-{VERSION}"
        self._program = self._folder / "bin" / "nisshi"
        place = Place(start=f"exec {self._program} broker {_OPTIONS}")
        super().__init__(Declaration("nisshi", {"default": place}, settings=PROFILES["default"]))
        self._building = threading.Lock()

    def start(self, profile: str) -> Instance:
        with self._building:
            if not self._program.exists():
                self._build()
        return replace(super().start(profile), description=f"Nisshi {VERSION}")

    def _build(self) -> None:
        cargo = shutil.which("cargo")
        if cargo is None:
            raise TargetError(f"Nisshi is built with Cargo; neither cargo nor {self._program} is installed")
        # Its dependencies declare a newer compiler than they need.
        options = ["--locked", "--ignore-rust-version", "--no-default-features", "--features", "dynostore"]
        command = [cargo, "install", "nisshi", "--version", VERSION, *options, "--root", str(self._folder)]
        built = processes.run(command)
        if built.returncode != 0:
            raise TargetError(f"Nisshi could not be built with Cargo: {built.stderr[-300:]}")
