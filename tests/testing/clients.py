"""Real consumers of two libraries behind one interface, each in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

from kafka_shim.testing.consumers import LONG_POLL_SECONDS, POLL_SECONDS
from tests.waiting import PATIENCE_S

_ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Member:
    """A consumer of topic `orders` in group `billing`, with the calls of its listener in order.

    `on_revoke` and `on_record` are called in its own thread, in which it polls.
    """

    def __init__(self, kind: str, bootstrap: str, name: str, **options: Any) -> None:
        self.callbacks: list[tuple[str, list[int]]] = []
        self.records: list[tuple[int, int]] = []
        self.on_revoke: Callable[[], object] = lambda: None
        self.on_record: Callable[[], object] = lambda: None
        self.changed = threading.Condition()
        self.closing = threading.Event()
        self._consumer: Any = None
        self._stop = threading.Event()
        run = self._kafka_python if kind == "kafka-python" else self._confluent
        self._thread = threading.Thread(target=run, args=(bootstrap, name), kwargs=options, daemon=True)

    def __enter__(self) -> Member:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_to_close(self) -> None:
        """Let the consumer close, and return when that begins."""
        self._stop.set()
        assert self.closing.wait(PATIENCE_S), "the consumer's poll does not end"

    def close(self) -> None:
        """Close the consumer, and wait for the end of its thread."""
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the consumer does not close"

    def commit(self, partition: int, offset: int) -> None:
        """Send a commit, and do not wait for its answer. For confluent-kafka only its own thread may call this."""
        if isinstance(self._consumer, Consumer):
            self._consumer.commit(offsets=[ConfluentPartition("orders", partition, offset)], asynchronous=True)
        else:
            self._consumer.commit_async({TopicPartition("orders", partition): OffsetAndMetadata(offset, "", -1)})

    def wait_record(self, partition: int, offset: int) -> None:
        """Wait until the record was consumed."""
        self.wait(lambda: (partition, offset) in self.records)

    def wait_callback(self, what: str, after: int = 0) -> list[str]:
        """Wait for this call of the listener behind the first `after` calls, and return all behind those."""
        self.wait(lambda: what in [each for each, _ in self.callbacks[after:]])
        return [each for each, _ in self.callbacks[after:]]

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition on the records or the calls of the listener."""
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE_S), f"callbacks {self.callbacks}, consumed {self.records}"

    def _note(self, what: str, partitions: list[Any]) -> None:
        with self.changed:
            self.callbacks.append((what, sorted(each.partition for each in partitions)))
            self.changed.notify_all()

    def _revoked(self, partitions: list[Any]) -> None:
        self._note("revoked", partitions)
        self.on_revoke()

    def _kafka_python(
        self, bootstrap: str, name: str, assignors: tuple[str, ...] = ("range",), session: int = 10_000,
        poll: int = 300_000, instance: str | None = None, commits: bool = True,
    ) -> None:  # fmt: skip
        member = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Any) -> None:
                member._note("assigned", list(assigned))

            def on_partitions_revoked(self, revoked: Any) -> None:
                member._revoked(list(revoked))

            def on_partitions_lost(self, partitions: Any) -> None:
                member._note("lost", list(partitions))

        consumer = self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id="billing", client_id=name, auto_offset_reset="earliest",
            heartbeat_interval_ms=100, auto_commit_interval_ms=100, enable_auto_commit=commits,
            group_instance_id=instance,
            partition_assignment_strategy=[_ASSIGNORS[each] for each in assignors], session_timeout_ms=session,
            max_poll_interval_ms=poll, request_timeout_ms=max(session + 5_000, 15_000), retry_backoff_ms=50,
        )  # fmt: skip
        consumer.subscribe(["orders"], listener=Listener())
        while not self._stop.is_set():
            for partition, records in consumer.poll(timeout_ms=int(LONG_POLL_SECONDS * 1000)).items():
                self._consumed([(partition.partition, record.offset) for record in records])
        self.closing.set()
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
        consumer = self._consumer = Consumer(settings)
        consumer.subscribe(
            ["orders"],
            on_assign=lambda _, partitions: self._note("assigned", partitions),
            on_revoke=lambda _, partitions: self._revoked(partitions),
            on_lost=lambda _, partitions: self._note("lost", partitions),
        )
        while not self._stop.is_set():
            record = consumer.poll(POLL_SECONDS)
            if record is not None and not record.error():
                self._consumed([(record.partition(), record.offset())])
        self.closing.set()
        consumer.close()

    def _consumed(self, records: list[tuple[int, int]]) -> None:
        with self.changed:
            self.records += records
            self.changed.notify_all()
        self.on_record()
