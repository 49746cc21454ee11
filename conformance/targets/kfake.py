"""kfake, franz-go's in-memory Kafka, built from the Go module proxy with our main program."""

from __future__ import annotations

import os
import re
import shutil
import threading
from typing import Final

from kafka_shim.conformance import processes
from kafka_shim.conformance.targets.base import (
    PROFILES,
    READY_SECONDS,
    Children,
    Instance,
    Limits,
    LineReader,
    TargetError,
)
from kafka_shim.conformance.targets.kafka import cache_folder

CLIENT: Final = "github.com/twmb/franz-go"
MODULE: Final = f"{CLIENT}/pkg/kfake"

_MAIN: Final = """\
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	configs := make(map[string]string)
	for _, setting := range os.Args[1:] {
		name, value, _ := strings.Cut(setting, "=")
		configs[name] = value
	}
	cluster, err := kfake.NewCluster(kfake.Ports(0), kfake.BrokerConfigs(configs))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer cluster.Close()
	fmt.Println("ready", cluster.ListenAddrs()[0])
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
}
"""


DEFAULT_VERSION: Final = "v0.0.0-20260918054303-01f206a7e32c"
"""The version that `expect/kfake.toml` describes, so that a run is repeatable."""


class KfakeTarget:
    """`kfake` or `kfake:VERSION`, with a version or query of the Go module proxy, such as `latest`."""

    def __init__(self, version: str = DEFAULT_VERSION) -> None:
        self.name = "kfake" if version == DEFAULT_VERSION else f"kfake:{version}"
        self.profiles = frozenset(PROFILES)
        self.violations: list[str] = []
        self._version = version
        self._children = Children()
        self._lock = threading.Lock()

    def _program(self) -> str:
        folder = cache_folder() / f"kfake-{self._version}"
        program = folder / "kfake"
        if program.exists() and (folder / "main.go").read_text() == _MAIN:
            return str(program)
        go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
        if go is None:
            raise TargetError("kfake is built with Go, which is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "main.go").write_text(_MAIN)
        (folder / "go.mod").write_text("module conformance/kfake\n\ngo 1.24\n")
        modules = [f"{CLIENT}@latest", f"{CLIENT}/pkg/kmsg@latest", f"{MODULE}@{self._version}"]
        environment = os.environ | {"CGO_ENABLED": "0"}
        for step in (["get", *modules], ["build", "-o", "kfake", "."]):
            done = processes.run([go, *step], cwd=folder, env=environment)
            if done.returncode != 0:
                raise TargetError(f"go {step[0]} failed: {done.stderr[-800:]}")
        return str(program)

    def _built_version(self) -> str:
        """Return the version in the build's go.mod; for `latest`, the newest at that time."""
        required = (cache_folder() / f"kfake-{self._version}" / "go.mod").read_text()
        required_line = re.search(rf"{re.escape(MODULE)} (\S+)", required)
        return required_line[1] if required_line else self._version

    def start(self, profile: str) -> Instance:
        settings = PROFILES[profile]
        with self._lock:
            program = self._program()
            command = [program, *(f"{name}={value}" for name, value in settings.items())]
            process = self._children.start(command)
        ready = LineReader(process).wait_for("ready ", READY_SECONDS)
        host, _, port = ready.split()[1].rpartition(":")
        limits = Limits().configured(settings)
        description = f"kfake {self._built_version()}"
        return Instance(host, int(port), profile, limits, description=description, process=process)

    def stop(self) -> None:
        self._children.end()
