"""The recorder of `tests/pipeline/recordings/lives`: `python -m tests.pipeline.recording_lives OUT` runs our server and
real consumers.

Three runs of one server write one trace: the first is stopped, the second is killed, so that the third has to load the
groups again. In these runs members leave and are back under their ids, groups are empty for a while, move from the
classic protocol to KIP-848, and are deleted, as are topics. `story.json` has the end of the story: the owners of all
partitions, and the members that were there in each step.
"""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPICS = {"orders": 4, "payments": 2, "alerts": 2, "lines": 2, "marks": 1}
RECORDS = 40
PATIENCE_S = 40.0
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.session.timeout.ms": 4_000,
    "group.consumer.min.session.timeout.ms": 4_000,
}


class Server:
    """A server that is stopped, killed and started again on one port, with one store and one trace."""

    def __init__(self, folder: Path) -> None:
        self.trace = folder / "trace.jsonl"
        self._store = folder / "store.db"
        self._address = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        config = [part for name, value in SETTINGS.items() for part in ("--config", f"{name}={value}")]
        topics = [part for name, count in TOPICS.items() for part in ("--topic", f"{name}:{count}")]
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "kafka_shim", "serve", "--listen", self._address, "--control", "127.0.0.1:0"),
                *("--store", f"sqlite:{self._store}", "--trace", str(self.trace), *config, *topics),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        assert ready.startswith("ready kafka="), ready
        self._address = ready.split()[1].removeprefix("kafka=")
        return self._address

    def wait_for_trace(self, *texts: str) -> None:
        """Wait until the trace has a line with these texts: what a killed server has not written yet is lost."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(all(text in line for text in texts) for line in self.trace.read_text().splitlines()):
            assert time.monotonic() < deadline, f"the trace lacks {texts}"

    def end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(20)


class Members:
    """The consumers of one group, which one thread polls."""

    def __init__(self, address: str, group: str, topic: str, **config: Any) -> None:
        self.group, self.topic = group, topic
        self.there: list[Consumer] = []
        self._config = {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in config.items()},
        }

    def join(self, **config: Any) -> Consumer:
        settings = self._config | {name.replace("_", "."): value for name, value in config.items()}
        if settings.get("group.protocol") == "consumer":
            for name in ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"):
                settings.pop(name, None)
        consumer = Consumer(settings)
        consumer.subscribe([self.topic])
        self.there.append(consumer)
        self.whole()
        return consumer

    def leave(self, consumer: Consumer) -> None:
        self.there.remove(consumer)
        consumer.close()
        if self.there:
            self.whole()

    def poll_until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"{self.group}: {what}"
            for consumer in self.there:
                consumer.poll(0.05)

    def whole(self) -> None:
        """Poll until every partition has one owner and every member some."""

        def is_whole() -> bool:
            owned = [sorted(each.partition for each in consumer.assignment()) for consumer in self.there]
            return sorted(chain.from_iterable(owned)) == list(range(TOPICS[self.topic])) and all(owned)

        self.poll_until(is_whole, "the group is whole")

    def commit(self, offset: int) -> None:
        for consumer in self.there:
            offsets = [TopicPartition(self.topic, each.partition, offset) for each in consumer.assignment()]
            for answer in consumer.commit(offsets=offsets, asynchronous=False):
                assert answer.error is None

    def owners(self) -> dict[str, str]:
        return {
            f"{self.topic}-{each.partition}": consumer.memberid()
            for consumer in self.there
            for each in consumer.assignment()
        }


def produce(address: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for topic, partitions in TOPICS.items():
        for number in range(RECORDS):
            producer.produce(topic, f"{number}", partition=number % partitions)
    assert producer.flush(30) == 0


def work(server: Server) -> dict[str, Any]:
    """Carry out all steps; return the story."""
    address = server.start()
    produce(address)
    admin = AdminClient({"bootstrap.servers": address})
    classic = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500, "partition_assignment_strategy": "range"}
    orders = Members(address, "orders", "orders", client_id="worker", **classic)
    static = Members(address, "static", "payments", **classic)
    epochs = Members(address, "epochs", "alerts", group_protocol="consumer")
    moving = Members(address, "moving", "lines", **classic)
    short = Members(address, "short", "marks", **classic)
    every = [orders, static, epochs, moving, short]
    story: dict[str, Any] = {}
    for _ in range(2):
        orders.join()
    restarted, _ = [static.join(group_instance_id=f"static-{number}") for number in (1, 2)]
    back, _ = [epochs.join() for _ in range(2)]
    old, _ = moving.join(), short.join()
    for group in every:
        group.commit(5)
    # A member of KIP-848 unsubscribes, and is back under its id.
    story["back"] = back.memberid()
    back.unsubscribe()
    epochs.there.remove(back)
    epochs.whole()
    back.subscribe(["alerts"])
    epochs.there.append(back)
    epochs.whole()
    # A static member restarts: a new process takes its place. The old one is frozen, so it does not leave.
    static.there.remove(restarted)
    story["replaced"] = [restarted.memberid(), static.join(group_instance_id="static-1").memberid()]
    # A group moves to KIP-848.
    story["classic"] = old.memberid()
    moving.join(group_protocol="consumer")
    moving.leave(old)
    for group in every:
        group.commit(7)
    # The first run ends.
    server.end(signal.SIGTERM)
    server.start()
    for group in every:
        group.commit(9)
    # A group is empty for some seconds, and then has one new member.
    for consumer in list(orders.there):
        orders.leave(consumer)
    emptied_at = time.time()
    # A group and its topic are deleted, and begin again.
    for consumer in list(short.there):
        short.leave(consumer)
    for deleted in (admin.delete_consumer_groups(["short"]), admin.delete_topics(["marks"])):
        for answer in deleted.values():
            answer.result(20)
    for answer in admin.create_topics([NewTopic("marks", 1, 1)]).values():
        answer.result(20)
    short.join()
    short.commit(2)
    while time.time() < emptied_at + 3:
        moving.poll_until(lambda: True, "")
        epochs.there[0].poll(0.1)
    orders.join()
    story["empty"] = [emptied_at, time.time()]
    for group in every:
        group.commit(10)
    server.wait_for_trace(orders.there[0].memberid(), '"offset":10')
    # The second run is killed.
    server.end(signal.SIGKILL)
    server.start()
    for group in every:
        group.commit(11)
    story["owners"] = {group.group: group.owners() for group in every}
    server.end(signal.SIGTERM)
    return story


def record(out: Path) -> None:
    """Record into a new folder."""
    (out / "trace").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        server = Server(Path(scratch))
        try:
            story = work(server)
        except BaseException:
            server.end(signal.SIGKILL)
            raise
        for file in sorted(Path(scratch).glob("trace.jsonl*")):
            with file.open("rb") as plain, gzip.open(out / "trace" / f"{file.name}.gz", "wb") as packed:
                shutil.copyfileobj(plain, packed)
    (out / "story.json").write_text(json.dumps(story, indent=1) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
