"""The recorder of provoked cases: real clients against our server, one trace for each case.

`python -m tests.why.provoked.record [SET] [CASE...]` plays the cases of a set side by side, a few at a time, in some
minutes. It keeps the events of the group, and the first accepted heartbeats of a connection, to show their interval.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_shim.conformance.targets.kafka import KafkaTarget
from tests.relay.recording import recording
from tests.why.provoked.cases import Case
from tests.why.provoked.judge import RECORDINGS, SETS
from tests.why.provoked.stage import PARTITIONS, Stage

DELAY = "group.initial.rebalance.delay.ms=1000"
SERVERS = {
    "plain": [DELAY],
    "small": [DELAY, "group.max.size=2", "group.consumer.max.size=2"],
    "medium": ["group.initial.rebalance.delay.ms=3000", "group.max.size=3"],
    "quick": [
        DELAY,
        "group.consumer.min.session.timeout.ms=6000",
        "group.consumer.session.timeout.ms=6000",
        "group.consumer.min.heartbeat.interval.ms=1000",
        "group.consumer.heartbeat.interval.ms=1000",
    ],
    "sharing": [
        DELAY,
        "group.share.min.session.timeout.ms=6000",
        "group.share.session.timeout.ms=6000",
        "group.share.min.heartbeat.interval.ms=1000",
        "group.share.heartbeat.interval.ms=1000",
        "group.share.max.size=4",
    ],
    "guarded": [
        DELAY,
        "listeners=PLAINTEXT://127.0.0.1:0",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found=true",
    ],
    "several": [DELAY],
    "apart": [DELAY, "group.consumer.migration.policy=disabled"],
}
BROKERS = {"several": 3}
RELAY = "relay"
"""A relay in front of the plain server: its trace is inferred from requests and answers."""
KAFKA = "kafka"
"""A relay in front of Apache Kafka; it starts if a case needs it."""
AT_ONCE = 5
RECORDS = 60
HEARTBEATS = 3
"""Accepted heartbeats of a connection that are kept."""


class Addresses(NamedTuple):
    """The addresses of a server; `control` is empty if its laboratory is not needed."""

    bootstrap: str
    control: str = ""


@contextlib.contextmanager
def server(name: str, trace: Path) -> Iterator[Addresses]:
    options = [option for each in SERVERS[name] for option in ("--config", each)]
    options += ["--brokers", str(BROKERS.get(name, 1)), "--control", "127.0.0.1:0", "--lab"]
    command = ["serve", "--listen", "127.0.0.1:0", "--store", "memory:", "--trace", str(trace), "--log-level", "error"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kafka_shim", *command, *options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        _, bootstrap, control = process.stdout.readline().split()
        yield Addresses(bootstrap.removeprefix("kafka="), control.removeprefix("control="))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


@contextlib.contextmanager
def kafka() -> Iterator[str]:
    """Apache Kafka, without an initial delay."""
    target = KafkaTarget()
    try:
        yield str(target.start("default").endpoints[0])
    finally:
        target.stop()


def play(case: Case, client: str, addresses: Addresses) -> str:
    """Play a case; return an empty text, or the error."""
    bootstrap = addresses.bootstrap
    group = f"{case.name}-{client}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(group, PARTITIONS, 1)])[group].result(20)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(group, b"record", partition=number % PARTITIONS)
    producer.flush(20)
    stage = Stage(bootstrap, group, client, addresses.control)
    try:
        case.act(stage)
    except BaseException:
        return traceback.format_exc()[-3000:]
    finally:
        stage.end()
    return ""


def split(trace: Path, groups: set[str], folder: Path) -> None:
    """Write the events of each group into a file of its own."""
    lines: dict[str, list[bytes]] = {group: [] for group in groups}
    introduced: set[int] = set()
    heartbeats: Counter[int] = Counter()
    files = [*sorted(trace.parent.glob(f"{trace.name}.*"), key=lambda path: int(path.suffix[1:])), trace]
    for line in (line for path in files for line in path.open("rb")):
        event = json.loads(line)
        if event["event"] == "trace":
            for of_group in lines.values():
                of_group.append(line)
        elif event.get("group") in lines and (event.get("api") != "FindCoordinator" or event["error"]):
            lines[event["group"]] += [] if _is_idle(event, introduced, heartbeats) else [line]
    folder.mkdir(parents=True, exist_ok=True)
    for group, events in lines.items():
        with (folder / f"{group}.jsonl.gz").open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as out:
            out.writelines(events)


def _is_idle(event: dict[str, Any], introduced: set[int], heartbeats: Counter[int]) -> bool:
    """True for an event that `why` does not read. The first OffsetFetch of a connection shows its library."""
    api = event.get("api")
    if event["event"] == "parked" or event["event"] == "timer":
        return event.get("kind") != "session" or event["change"] != "armed"
    if event["event"] != "exchange" or event["error"]:
        return False
    if api == "OffsetFetch":
        is_first = event["conn"] not in introduced
        introduced.add(event["conn"])
        return not is_first
    if api == "ConsumerGroupHeartbeat":
        return bool(event["request"]["rebalance_timeout_ms"] < 0)
    heartbeats[event["conn"]] += api == "Heartbeat"
    return api == "Heartbeat" and heartbeats[event["conn"]] > HEARTBEATS


def main(chosen: list[str]) -> int:
    name_of_set = chosen.pop(0) if chosen and chosen[0] in SETS else "provoked"
    tasks = [
        (case, client)
        for case in SETS[name_of_set]
        for client in case.clients
        if not chosen or any(each in f"{case.name}-{client}" for each in chosen)
    ]
    failed = 0
    printing = threading.Lock()
    with tempfile.TemporaryDirectory() as scratch:
        traces = {name: Path(scratch) / f"{name}.jsonl" for name in (*SERVERS, RELAY, KAFKA)}
        done: dict[str, set[str]] = {name: set() for name in traces}
        with contextlib.ExitStack() as running:
            needed = {case.server for case, _ in tasks}
            needed |= {"plain"} if RELAY in needed else set()
            servers = {name: running.enter_context(server(name, traces[name])) for name in SERVERS if name in needed}
            if RELAY in needed:
                relay = running.enter_context(recording(servers["plain"].bootstrap, traces[RELAY]))
                servers[RELAY] = Addresses(relay)
            if KAFKA in needed:
                relay = running.enter_context(recording(running.enter_context(kafka()), traces[KAFKA]))
                servers[KAFKA] = Addresses(relay)

            def run(task: tuple[Case, str]) -> None:
                nonlocal failed
                case, client = task
                wrong = play(case, client, servers[case.server])
                with printing:
                    sys.stdout.write(f"{'FAILED' if wrong else 'ok'} {case.name}-{client}\n{wrong}")
                    sys.stdout.flush()
                    failed += bool(wrong)
                    if not wrong:
                        done[case.server].add(f"{case.name}-{client}")

            with ThreadPoolExecutor(AT_ONCE) as pool:
                list(pool.map(run, tasks))
        for name, groups in done.items():
            if traces[name].exists():
                split(traces[name], groups, RECORDINGS / name_of_set)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
