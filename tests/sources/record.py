"""The recorder of logs: real clients and a real Kafka, one case after another.

`python -m tests.sources.record [RELEASE] [NAME...]` plays the recordings that are not there yet, a minute each. It
needs Java and Maven. `recordings.py` lists them.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_shim.conformance.clients.client_processes import Member
from kafka_shim.sources.offsets_topic.cluster import Cluster
from kafka_shim.sources.offsets_topic.settings import Security
from tests.sources.broker import LoggingKafka
from tests.sources.recordings import RECORDINGS, WITH_TOPIC, Recording
from tests.why.provoked.stage import PARTITIONS, Stage

_RECORDS: Final = 60
_WITH_LEVELS: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
_BASIC: Final = "%(levelname)s:%(name)s:%(message)s"
_JAVA: Final = (
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "'-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS'",
)
_PICKED_UP: Final = "Picked up JAVA_TOOL_OPTIONS"
_OPERATIONS: Final = re.compile(r"received op (?:GET_ASSIGNMENT|CG_METADATA|NAME) |\|DUMP")
"""Lines of debug=cgrp that our adapter brings about with each poll."""
_HERE: Final = re.compile(r"/\S*/(data-\d)\b")
"""Paths of this machine."""


class Endless(list[str]):
    """Lines, of which none is dropped."""

    def __delitem__(self, key: object) -> None:
        pass


@dataclass
class Logged(Stage):
    """A stage that keeps each process of the clients, with its name."""

    is_verbose: bool = False
    logs: list[tuple[str, Member]] = field(default_factory=list)

    def start(self, name: str, client_name: str = "", **config: Any) -> Member:
        member = super().start(name, client_name, **({"verbose": True} if self.is_verbose else {}), **config)
        # A member keeps the end of its log; here it keeps all.
        member.errors = Endless(member.errors)
        self.logs.append((name, member))
        return member


@contextlib.contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the environment for the processes that start within."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def play(recording: Recording, bootstrap: str, server_log: Path) -> str:
    """Play and keep a recording; return an empty text, or the error."""
    group = recording.group
    start = server_log.stat().st_size
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(group, PARTITIONS, 1)])[group].result(20)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(_RECORDS):
        producer.produce(group, b"record", partition=number % PARTITIONS)
    producer.flush(20)
    stage = Logged(bootstrap, group, recording.client, is_verbose=recording.is_verbose)
    settings = {
        "TZ": recording.zone,
        "CLIENTS_LOG": "INFO",
        "CLIENTS_LOG_FORMAT": _BASIC if recording.has_no_stamps else _WITH_LEVELS,
        "JAVA_TOOL_OPTIONS": " ".join(_JAVA),
    }
    try:
        with environment(settings):
            recording.case.act(stage)
    except BaseException:
        return traceback.format_exc()[-3000:]
    finally:
        stage.end()
    with server_log.open("rb") as log:
        log.seek(start)
        keep(recording, log.read().decode(errors="replace"), stage)
    if recording.has_topic:
        keep_partition(recording, bootstrap)
    return ""


def keep_partition(recording: Recording, bootstrap: str) -> None:
    """Write the partition of the group as the bytes of a segment, whole: without a hole in it."""
    host, _, port = bootstrap.rpartition(":")
    cluster = Cluster([(host, int(port))], Security())
    partition = cluster.partition_of(recording.group)
    first, end = cluster.bounds(partition)
    content = b"".join(batch.data for batch in cluster.batches(partition, first, end))
    cluster.close()
    _write(recording.folder / f"__consumer_offsets-{partition}.log.gz", content)


def keep(recording: Recording, server_log: str, stage: Logged) -> None:
    """Write the files of a recording."""
    recording.folder.mkdir(parents=True, exist_ok=True)
    _pack(recording.folder / "server.log.gz", _HERE.sub(r"/var/lib/kafka/\1", server_log))
    lives: Counter[str] = Counter()
    ids: dict[str, list[str]] = {}
    for name, member in stage.logs:
        lives[name] += 1
        life = f"-{lives[name]}" if lives[name] > 1 else ""
        lines = [each for each in member.errors if not each.startswith(_PICKED_UP) and not _OPERATIONS.search(each)]
        text = "".join(f"{line}\n" for line in lines)
        _pack(recording.folder / f"{name}{life}.log.gz", text)
        of_name = ids.setdefault(name, [])
        of_name += [each["member"] for each in member.events_of("owns") if each.get("member")]
    case = recording.case
    truth = {
        "release": recording.release,
        "group": recording.group,
        "client": recording.client,
        "zone": recording.zone,
        "causes": list(case.causes),
        "culprits": list(case.culprits),
        "remedies": list(case.remedies),
        "calm": "either" if case.calm is None else case.calm,
    }
    table = [f"{key} = {json.dumps(value)}\n" for key, value in truth.items()]
    table.append("\n[member_ids]\n")
    table += [f"{json.dumps(name)} = {json.dumps(list(dict.fromkeys(found)))}\n" for name, found in ids.items()]
    (recording.folder / "truth.toml").write_text("".join(table))


def _pack(path: Path, text: str) -> None:
    # Tracebacks of clients name folders of this machine.
    for place, name in ((Path(__file__).parents[2], "/app"), (Path(sys.base_prefix), "/usr")):
        text = text.replace(str(place), name)
    _write(path, text.encode())


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as out:
        out.write(content)


def main(chosen: list[str]) -> int:
    every = [*RECORDINGS, *WITH_TOPIC]
    releases = list(dict.fromkeys(each.release for each in every))
    if chosen and chosen[0] in releases:
        releases = [chosen.pop(0)]
    failed = 0
    for release in releases:
        due = [
            each
            for each in every
            if each.release == release
            and not (each.folder / "truth.toml").exists()
            and (not chosen or any(part in each.name for part in chosen))
        ]
        if not due:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            server_log = Path(scratch) / "server.log"
            target = LoggingKafka(release, server_log)
            try:
                bootstrap = str(target.start("default").endpoints[0])
                for each in due:
                    started = time.monotonic()
                    wrong = play(each, bootstrap, server_log)
                    took = time.monotonic() - started
                    sys.stdout.write(f"{'FAILED' if wrong else 'ok'} {release} {each.name} {took:.0f} s\n{wrong}")
                    sys.stdout.flush()
                    failed += bool(wrong)
            finally:
                target.stop()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
