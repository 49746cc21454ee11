"""Real consumers in threads of their own, alike whichever library they are of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

_ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Member:
    """A consumer of topic `orders` in group `billing`. `told` is what its listener was told, in order."""

    def __init__(self, kind: str, bootstrap: str, name: str, **options: Any) -> None:
        self.told: list[tuple[str, list[int]]] = []
        self.records: list[tuple[int, int]] = []
        self.on_revoke: Callable[[], None] = lambda: None
        self.on_record: Callable[[], None] = lambda: None
        self.changed = threading.Condition()
        self._stop = threading.Event()
        run = self._kafka_python if kind == "kafka-python" else self._confluent
        self._thread = threading.Thread(target=run, args=(bootstrap, name), kwargs=options, daemon=True)

    def __enter__(self) -> Member:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the consumer, and wait until it is."""
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the consumer does not close"

    def wait_record(self, partition: int, offset: int) -> None:
        """Wait until the record was consumed."""
        with self.changed:
            assert self.changed.wait_for(lambda: (partition, offset) in self.records, 15)

    def _note(self, what: str, partitions: list[Any]) -> None:
        self.told.append((what, sorted(each.partition for each in partitions)))

    def _kafka_python(
        self, bootstrap: str, name: str, assignors: tuple[str, ...] = ("range",), session: int = 10_000,
        poll: int = 300_000, instance: str | None = None, commits: bool = True,
    ) -> None:  # fmt: skip
        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Any) -> None:
                member._note("assigned", list(assigned))

            def on_partitions_revoked(self, revoked: Any) -> None:
                member._note("revoked", list(revoked))
                member.on_revoke()

            def on_partitions_lost(self, lost: Any) -> None:
                member._note("lost", list(lost))

        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id="billing", client_id=name, auto_offset_reset="earliest",
            heartbeat_interval_ms=100, auto_commit_interval_ms=100, enable_auto_commit=commits,
            group_instance_id=instance,
            partition_assignment_strategy=[_ASSIGNORS[each] for each in assignors], session_timeout_ms=session,
            max_poll_interval_ms=poll, request_timeout_ms=max(session + 5_000, 15_000), retry_backoff_ms=50,
        )  # fmt: skip
        consumer.subscribe(["orders"], listener=Listener())
        while not self._stop.is_set():
            for partition, records in consumer.poll(timeout_ms=50).items():
                self._consumed([(partition.partition, record.offset) for record in records])
        consumer.close()

    def _confluent(
        self, bootstrap: str, name: str, assignors: tuple[str, ...] = ("range",), session: int = 10_000,
        poll: int = 300_000, instance: str | None = None, commits: bool = True,
    ) -> None:  # fmt: skip
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap, "group.id": "billing", "client.id": name, "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 100, "auto.commit.interval.ms": 100, "enable.auto.commit": commits, "log_level": 0,
            "partition.assignment.strategy": ",".join(assignors), "session.timeout.ms": session,
            "max.poll.interval.ms": poll,
        }  # fmt: skip
        if instance is not None:
            settings["group.instance.id"] = instance
        consumer = Consumer(settings)

        def revoked(_: Any, partitions: list[Any]) -> None:
            self._note("revoked", partitions)
            self.on_revoke()

        consumer.subscribe(
            ["orders"],
            on_assign=lambda _, partitions: self._note("assigned", partitions),
            on_revoke=revoked,
            on_lost=lambda _, partitions: self._note("lost", partitions),
        )
        while not self._stop.is_set():
            record = consumer.poll(0.05)
            if record is not None and not record.error():
                self._consumed([(record.partition(), record.offset())])
        consumer.close()

    def _consumed(self, records: list[tuple[int, int]]) -> None:
        with self.changed:
            self.records += records
            self.changed.notify_all()
        self.on_record()


def until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    """Wait for what only a client knows, and tells nobody."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it has not come"
        threading.Event().wait(0.01)
