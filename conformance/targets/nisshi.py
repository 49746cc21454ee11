"""Nisshi, a broker in Rust that was called Tansu: one process, all in memory, built with Cargo.

Decides how the program is built and started; what it can do is found out, as of a target that somebody else starts.
Building takes a quarter of an hour, once: the program stays in the cache folder, and one that is put there counts.
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
# It has the delay of a first round as an option, and no others of our settings.
_OPTIONS: Final = (
    f"--listener-url {_ADDRESS} --advertised-listener-url {_ADDRESS} --storage-engine memory://nisshi/ "
    "--group-initial-rebalance-delay 0s --group-poll-interval 50ms --silent"
)


class NisshiTarget(ForeignTarget):
    """`nisshi`."""

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
            raise TargetError(f"Nisshi is built with Cargo, and there is no cargo here, nor {self._program}")
        # Its dependencies ask for a newer compiler than they need.
        options = ["--locked", "--ignore-rust-version", "--no-default-features", "--features", "dynostore"]
        command = [cargo, "install", "nisshi", "--version", VERSION, *options, "--root", str(self._folder)]
        built = processes.run(command)
        if built.returncode != 0:
            raise TargetError(f"Nisshi could not be built with Cargo: {built.stderr[-300:]}")
