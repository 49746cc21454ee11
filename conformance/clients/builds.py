"""Builds adapters: returns the command for each client, from its source and its language's package registry.

A build stays in the cache folder until the source of the adapter changes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kafka_shim.conformance import processes
from kafka_shim.conformance.targets.base import TargetError
from kafka_shim.conformance.targets.kafka import NEWEST, SLF4J, cache_folder, class_path, jars_of

ADAPTERS: Final = Path(__file__).resolve().parent / "adapters"
ROOT: Final = Path(__file__).resolve().parents[2]
KAFKA: Final = NEWEST["4.4"]
OLDER_KAFKAS: Final = ("2.8.2", NEWEST["3.9"], NEWEST["4.0"], NEWEST["4.1"], NEWEST["4.2"])
KAFKAJS: Final = "2.2.4"
FRANZ_GO: Final = "v1.22.2"
SARAMA: Final = "v1.61.1"
KAFKA_GO: Final = "v0.4.51"
SPRING: Final = "4.0.0"
PLATFORMATIC: Final = "1.22.0"
NODE_RDKAFKA: Final = "3.6.1"
CONFLUENT_JAVASCRIPT: Final = "1.10.1"
RDKAFKA_CRATE: Final = "0.39.0"
JACKSON: Final = "com.fasterxml.jackson.core:jackson-databind:2.19.2"
_PYTHON_CLIENTS: Final = {
    "kafka_python.py": ("kafka", "kafka-python"),
    "aio_kafka.py": ("aiokafka", "aiokafka"),
    "confluent.py": ("confluent_kafka", "confluent-kafka"),
}
_CARGO: Final = f"""\
[package]
name = "adapter"
version = "0.1.0"
edition = "2021"

[[bin]]
name = "adapter"
path = "rdkafka.rs"

[dependencies]
rdkafka = "={RDKAFKA_CRATE}"
serde_json = "1"
"""
_LOCK: Final = threading.Lock()


class ClientMissing(Exception):
    """The client is not available on this machine; the text says why."""


def python(adapter: str, lock: str | None) -> list[str]:
    """Return the command under a Python with this client: ours, or a virtual environment made for it."""
    if lock is None:
        module, distribution = _PYTHON_CLIENTS[adapter]
        if importlib.util.find_spec(module) is None:
            raise ClientMissing(f"{distribution} is not installed; it comes with kafka-group-shim[clients]")
        return [sys.executable, str(ADAPTERS / adapter)]
    venv = ROOT / ".venvs" / lock
    install = ROOT / "requirements" / "install.py"
    if not install.exists():
        raise ClientMissing(f"{lock} is installed by a script that only a checkout of the repository has")
    # The base interpreter: `make` would not recognise an environment made from inside another.
    base = getattr(sys, "_base_executable", sys.executable)
    installed = processes.run([base, install, venv, ROOT / "requirements" / "old" / f"{lock}.txt"])
    if installed.returncode and not shutil.which("cc"):
        raise ClientMissing(f"{lock} has no wheel for this Python, and there is no C compiler to build it")
    if installed.returncode:
        raise ClientMissing(f"{lock} could not be installed: {installed.stderr[-500:]}")
    return [str(venv / "bin" / "python"), str(ADAPTERS / adapter)]


def java(adapter: str, lock: str | None) -> list[str]:
    """Return the command for the Java consumer of a Kafka release; the newest of our target without `lock`."""
    if lock is None:
        return _java(adapter, f"client-java-{KAFKA}", lambda: class_path(KAFKA))
    name = f"client-java-{lock}"
    return _java(adapter, name, lambda: jars_of(name, f"org.apache.kafka:kafka-clients:{lock}", JACKSON, SLF4J))


def spring(adapter: str, lock: str | None) -> list[str]:
    """Return the command for Spring Kafka's listener container, with its Java consumer."""
    name = f"client-spring-{SPRING}"
    return _java(
        adapter, name, lambda: jars_of(name, f"org.springframework.kafka:spring-kafka:{SPRING}", JACKSON, SLF4J)
    )


def _java(adapter: str, name: str, fetch: Callable[[], str]) -> list[str]:
    java, javac = shutil.which("java"), shutil.which("javac")
    if java is None or javac is None:
        raise ClientMissing(f"{name.removeprefix('client-')} needs a JDK; java or javac is not installed")
    try:
        jars = fetch()
    except TargetError as error:
        raise ClientMissing(f"{name.removeprefix('client-')} is not available: {error}") from error
    folder = cache_folder() / name
    _built(folder, adapter, lambda source: [[javac, "-d", str(folder), "-cp", jars, str(source)]])
    options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return [java, *options, quiet, "-cp", f"{folder}{os.pathsep}{jars}", Path(adapter).stem]


def node(adapter: str, lock: str | None) -> list[str]:
    """Return the command for KafkaJS."""
    return _node(adapter, f"kafkajs@{KAFKAJS}")


def platformatic(adapter: str, lock: str | None) -> list[str]:
    """Return the command for Platformatic's client, written in JavaScript alone."""
    return _node(adapter, f"@platformatic/kafka@{PLATFORMATIC}")


def node_rdkafka(adapter: str, lock: str | None) -> list[str]:
    """Return the command for node-rdkafka, built with its own librdkafka: 90 s of one core."""
    return _node(adapter, f"node-rdkafka@{NODE_RDKAFKA}")


def confluent_javascript(adapter: str, lock: str | None) -> list[str]:
    """Return the command for Confluent's client for JavaScript.

    If its release with a compiled librdkafka cannot be fetched, npm compiles its librdkafka against the libraries of
    the system; that is the meaning of `dynamic`.
    """
    return _node(adapter, f"@confluentinc/kafka-javascript@{CONFLUENT_JAVASCRIPT}", CKJS_LINKING="dynamic")


def _node(adapter: str, package: str, **environment: str) -> list[str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise ClientMissing(f"{package} needs Node.js; node or npm is not installed")
    folder = cache_folder() / f"client-{package.strip('@').replace('/', '-').replace('@', '-')}"
    install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), package]
    source = _built(folder, adapter, lambda source: [install], environment)
    return [node, str(source)]


def rust(adapter: str, lock: str | None) -> list[str]:
    """Return the command for the rdkafka crate, built with its own librdkafka."""
    cargo = shutil.which("cargo")
    if cargo is None or shutil.which("cc") is None:
        raise ClientMissing("rdkafka is built with Cargo and a C compiler; one of them is not installed")
    folder = cache_folder() / f"client-rdkafka-{RDKAFKA_CRATE}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "Cargo.toml").write_text(_CARGO)
    _built(folder, adapter, lambda source: [[cargo, "build", "--quiet", "--release"]])
    return [str(folder / "target" / "release" / "adapter")]


def go(adapter: str, lock: str | None) -> list[str]:
    """Return the command for franz-go."""
    return _go(adapter, f"github.com/twmb/franz-go/pkg/kgo@{FRANZ_GO}")


def sarama(adapter: str, lock: str | None) -> list[str]:
    """Return the command for Sarama."""
    return _go(adapter, f"github.com/IBM/sarama@{SARAMA}")


def segmentio(adapter: str, lock: str | None) -> list[str]:
    """Return the command for segmentio's kafka-go."""
    return _go(adapter, f"github.com/segmentio/kafka-go@{KAFKA_GO}")


def _go(adapter: str, module: str) -> list[str]:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise ClientMissing(f"{adapter.removesuffix('.go')} is built with Go, which is not installed")
    folder = cache_folder() / f"client-{adapter.removesuffix('.go')}-{module.rpartition('@')[2]}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text("module conformance/client\n\ngo 1.24\n")
    # `go mod tidy` finds the message package of that release.
    steps = [[go, "get", module], [go, "mod", "tidy"], [go, "build", "-o", "adapter", adapter]]
    _built(folder, adapter, lambda source: steps)
    return [str(folder / "adapter")]


def _built(
    folder: Path, adapter: str, steps: Callable[[Path], list[list[str]]], environment: Mapping[str, str] | None = None
) -> Path:
    """Build the adapter in the folder unless it is built already; return the path of its source there."""
    source, built = folder / adapter, folder / "built"
    text = (ADAPTERS / adapter).read_text()
    with _LOCK:
        if built.exists() and built.read_text() == text:
            return source
        folder.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        for step in steps(source):
            done = processes.run(step, cwd=folder, env={**os.environ, "CGO_ENABLED": "0", **(environment or {})})
            if done.returncode != 0:
                raise ClientMissing(f"{Path(step[0]).name} failed: {(done.stderr or done.stdout)[-500:]}")
        built.write_text(text)
    return source
