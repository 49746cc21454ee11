"""The measured servers: ours, librdkafka's mock, kfake and Apache Kafka, started as the conformance suite starts
them."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.load import Load, Process
from kafka_shim.conformance import processes
from kafka_shim.conformance.targets import TargetError, open_target
from kafka_shim.conformance.targets.shim import ShimTarget

NAMES = ("shim", "rdkafka-mock", "kfake", "kafka")
TOPIC = "bench"
FETCHED = "fetched"
BATCHES = 10
"""Record batches of each partition that consumers fetch."""
ATTEMPTS = 4
"""Maximum number of groups to try until one becomes stable."""
ROUNDS = 3
"""Turns per figure; the median reduces the effect of other work on the machine."""

# The mock creates only topics of four partitions, so ten partitions take three topics.
SPREAD = {"rdkafka-mock": f"{TOPIC}-a:4,{TOPIC}-b:4,{TOPIC}-c:2"}


@contextmanager
def serving(*options: str, checkout: Path | None = None) -> Iterator[tuple[Process, int]]:
    """Start our server, of this or another checkout, with a topic of ten partitions; yield its process and its port.

    Before 2026-11-22 the command was the module `shim`. A folder with neither module is an error: Python would silently
    use the modules of this checkout.
    """
    module = "kafka_shim"
    if checkout is not None and not (checkout / "kafka_shim").is_dir():
        module = "shim"
        if not (checkout / module / "__main__.py").is_file():
            raise ValueError(f"{checkout} is no checkout of this project")
    settings = ("--store", "memory:", "--topic", f"{TOPIC}:10", "--config", "group.initial.rebalance.delay.ms=0")
    command = [sys.executable, "-m", module, "serve", "--listen", "127.0.0.1:0", "--log-level", "error"]
    elsewhere = {} if checkout is None else {"PYTHONPATH": str(checkout.resolve())}
    with processes.start([*command, *settings, *options], cwd=checkout, env=os.environ | elsewhere) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            if not ready.startswith("ready kafka="):
                raise RuntimeError("kafka-shim serve did not get ready")
            yield Process(process.pid), int(ready.split()[1].rpartition(":")[2])
        finally:
            processes.end(process)


def make_topics(bootstrap: str, name: str) -> str:
    """Make sure that ten partitions can be committed to; return them in the load generator's syntax."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    if name in SPREAD:
        for topic in SPREAD[name].split(","):
            admin.list_topics(topic.split(":")[0], timeout=10)
        return SPREAD[name]
    admin.create_topics([NewTopic(TOPIC, 10, 1)])[TOPIC].result(30)
    return f"{TOPIC}:10"


def make_fetched(bootstrap: str, name: str) -> str:
    """Make a topic of 400 partitions, or of four on the mock, each with some batches of one record; return it in the
    load generator's syntax."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    count = 4 if name in SPREAD else 400
    if name in SPREAD:
        admin.list_topics(FETCHED, timeout=10)
    else:
        admin.create_topics([NewTopic(FETCHED, count, 1)])[FETCHED].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for _ in range(BATCHES):
        for partition in range(count):
            producer.produce(FETCHED, b"v" * 100, partition=partition)
        if producer.flush(30):
            raise RuntimeError(f"{name} did not take the records to fetch")
    return f"{FETCHED}:{count}"


def work(load: Load, process: Process, command: str, seconds: float, rate: float) -> dict[str, float]:
    """Measure one kind of request: its cost at full speed, then its latency at a fixed rate."""
    load.tell(command, 0.3)
    turns = []
    for _ in range(ROUNDS):
        before = process.cpu_seconds()
        figures = load.tell(command, seconds)
        cpu = process.cpu_seconds() - before
        turns.append((cpu / max(figures["answered"], 1) * 1e6, figures["answered"] / figures["seconds"], figures))
    paced = load.tell(command, seconds, rate)
    failed = paced["failed"] + sum(turn[2]["failed"] for turn in turns)
    return {
        "cpu_us": round(statistics.median(turn[0] for turn in turns), 2),
        "per_second": round(statistics.median(turn[1] for turn in turns)),
        "p50_us": paced["p50_us"],
        "p99_us": paced["p99_us"],
        "p999_us": paced["p999_us"],
        "saturated_mean_us": statistics.median(turn[2]["mean_us"] for turn in turns),
        "saturated_p99_us": statistics.median(turn[2]["p99_us"] for turn in turns),
        "saturated_p99_turns": statistics.median(turn[2]["p99_turns"] for turn in turns),
        "failed": failed,
        **({"error": paced["last_error"] or turns[-1][2]["last_error"]} if failed else {}),
    }


def form(stack: ExitStack, port: int, members: int, topics: str, seconds: float) -> tuple[Load, dict[str, Any]]:
    """Form a group of this many members; its connections stay open as long as `stack`.

    On librdkafka's mock some groups never become stable, at any size: then another group is tried.
    """
    for attempt in range(ATTEMPTS):
        load = stack.enter_context(Load("127.0.0.1", port, f"bench-{members}-{attempt}", members, topics))
        formed = load.tell("form", seconds / ATTEMPTS)
        if formed["formed"]:
            break
        stack.close()
    return load, formed


def measure(name: str, members: Iterable[int], seconds: float, rate: float, forming: float) -> dict[str, Any]:
    """Measure all figures of one server. A size at which no group forms has no figures of work."""
    target = ShimTarget(traced=False) if name == "shim" else open_target(name)
    began = time.perf_counter()
    try:
        instance = target.start("default")
        ready = time.perf_counter() - began
        process = Process.listening_on(instance.port)
        topics = make_topics(f"{instance.host}:{instance.port}", name)
        idle = process.resident_kib()
        sizes = {}
        for count in members:
            before = process.resident_kib()
            with ExitStack() as stack:
                load, formed = form(stack, instance.port, count, topics, forming)
                memory = process.resident_kib()
                figures: dict[str, Any] = {
                    "formed": formed["formed"],
                    "form_s": formed["seconds"],
                    "generation": formed["generation"],
                    "resident_mib": round(memory / 1024, 1),
                    "per_member_kib": round((memory - before) / count, 1),
                }
                if formed["formed"]:
                    figures["heartbeat"] = work(load, process, "heartbeat", seconds, rate)
                    figures["commit"] = work(load, process, "commit", seconds, rate)
                    figures["moved"] = work(load, process, "moved", seconds, rate)
                else:
                    figures["error"] = formed["last_error"]
                sizes[count] = figures
        return {
            "description": instance.description,
            "ready_s": round(ready, 3),
            "idle_mib": round(idle / 1024, 1),
            "members": sizes,
        }
    except (TargetError, RuntimeError) as reason:
        return {"missing": str(reason)}
    finally:
        target.stop()
