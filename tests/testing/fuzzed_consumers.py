"""Three wrong consumers and three right ones, for the fuzzer of consumers.

    python -m tests.testing.fuzzed_consumers --seconds 600

plays against the wrong ones until each is found, then for so long against each right one.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any

import hypothesis
import kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from kafka_shim.testing.stateful import (
    GRACEFUL,
    Run,
    fuzz,
    nothing_after_commit,
    nothing_lost,
    nothing_twice,
    order_by_key,
    results_exact,
)


def kafka_python(run: Run) -> KafkaConsumer:
    return KafkaConsumer(
        run.topic,
        bootstrap_servers=run.bootstrap,
        group_id=run.group,
        client_id=run.client_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=50,
        session_timeout_ms=10_000,
        retry_backoff_ms=20,
        reconnect_backoff_ms=20,
    )


def confluent(run: Run, **options: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": run.bootstrap,
            "group.id": run.group,
            "client.id": run.client_id,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": 10_000,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
        | options
    )


def batch(consumer: KafkaConsumer) -> list[Any]:
    """Return the polled records, all partitions in one list.

    A long poll: on a busy machine kafka-python 3.0 loses a join that ends between two polls, and then it may stand
    still for ever, so that a right consumer processes nothing. With half a second that came in 2 of 420 journals.
    """
    return [record for records in consumer.poll(2000).values() for record in records]


# Wrong


def commits_before_processing(run: Run) -> None:
    with closing(kafka_python(run)) as consumer:
        while run.running:
            records = batch(consumer)
            if records:
                consumer.commit()
            for record in records:
                run.process(record)


def forgets_work_on_revoke(run: Run) -> None:
    """It commits all that it has polled when it loses its partitions, and drops what it has not processed."""
    waiting: list[Any] = []
    consumer = confluent(run, **{"enable.auto.offset.store": True})

    def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        waiting.clear()
        with suppress(KafkaException):  # nothing to commit, or no member any more
            consumer.commit(asynchronous=False)

    consumer.subscribe([run.topic], on_revoke=on_revoke)
    while run.running:
        waiting += [each for each in consumer.consume(10, 0.05) if each.error() is None]
        if waiting:
            run.process(message := waiting.pop(0))
            if not waiting:
                consumer.commit(message, asynchronous=False)
    consumer.close()


def ignores_fencing(run: Run) -> None:
    with closing(kafka_python(run)) as consumer:
        while run.running:
            for record in batch(consumer):
                run.process(record)
                with suppress(KafkaError):  # "it will be committed with the next one"
                    consumer.commit(offset_after(record))


# Right


def offset_after(record: Any) -> dict[Any, Any]:
    return {kafka.TopicPartition(record.topic, record.partition): OffsetAndMetadata(record.offset + 1, "", -1)}


def commits_each_record(run: Run) -> None:
    """It commits each record after it was processed, and drops the rest of its batch when that fails."""
    with closing(kafka_python(run)) as consumer:
        while run.running:
            for record in batch(consumer):
                run.process(record)
                consumer.commit(offset_after(record))  # an error ends the process, and another one starts


def finishes_work_on_revoke(run: Run) -> None:
    """It processes and commits all that it has polled before it gives partitions away."""
    waiting: list[Any] = []
    consumer = confluent(run)

    def work() -> None:
        message = waiting.pop(0)
        run.process(message)
        consumer.commit(message, asynchronous=False)

    def on_revoke(_: Consumer, partitions: list[TopicPartition]) -> None:
        while waiting:
            work()

    consumer.subscribe([run.topic], on_revoke=on_revoke, on_lost=lambda *_: waiting.clear())
    while run.running:
        waiting += [each for each in consumer.consume(10, 0.05) if each.error() is None]
        if waiting:
            work()
    while waiting:
        work()
    consumer.close()


def writes_in_transactions(run: Run) -> None:
    """Its effects are records, in one transaction with their offsets."""
    consumer = confluent(run, **{"isolation.level": "read_committed"})
    producer = Producer(
        {
            "bootstrap.servers": run.bootstrap,
            "client.id": run.client_id,
            "transactional.id": run.client_id,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(10)
    consumer.subscribe([run.topic])
    while run.running:
        for message in consumer.consume(10, 0.05):
            if message.error() is not None:
                continue
            producer.begin_transaction()
            run.process(message)
            producer.produce("results", message.value())
            producer.send_offsets_to_transaction(
                [TopicPartition(message.topic(), message.partition(), message.offset() + 1)],
                consumer.consumer_group_metadata(),
                10,
            )
            producer.commit_transaction(10)
    consumer.close()


CRASHES = (KafkaError, KafkaException)
WRONG: dict[str, Callable[..., None]] = {
    "commits before processing": partial(fuzz, commits_before_processing, nothing_lost),
    "forgets work on revoke": partial(fuzz, forgets_work_on_revoke, nothing_lost, steps=GRACEFUL),
    "ignores fencing": partial(fuzz, ignores_fencing, nothing_after_commit, steps=("start", "process", "zombie")),
}
RIGHT: dict[str, Callable[..., None]] = {
    "commits each record": partial(fuzz, commits_each_record, nothing_lost, order_by_key, nothing_after_commit),
    "finishes work on revoke": partial(
        fuzz, finishes_work_on_revoke, nothing_lost, nothing_twice, order_by_key, steps=GRACEFUL
    ),
    "writes in transactions": partial(fuzz, writes_in_transactions, nothing_lost, results_exact),
}


def main(seconds: float) -> None:
    """Find each wrong consumer and shrink its journal; then play so long against each right one."""
    logging.disable(logging.CRITICAL)
    all_phases = hypothesis.settings(max_examples=500, database=None)
    phases = {"found": hypothesis.settings(all_phases, phases=[hypothesis.Phase.generate]), "shrunk": all_phases}
    for name, fuzzed in WRONG.items():
        for what, settings in phases.items():
            began = time.monotonic()
            try:
                fuzzed(crashes=CRASHES, settings=settings, seed=1)
            except AssertionError as error:
                print(f"{name}: {what} after {time.monotonic() - began:.1f} s: {error}", flush=True)
                print(f"  {error.__notes__[0]}", flush=True)
            else:
                sys.exit(f"{name}: nothing was found in 500 journals")
    for name, fuzzed in RIGHT.items():
        end = time.monotonic() + seconds
        for seed in itertools.count(1):
            fuzzed(crashes=CRASHES, settings=hypothesis.settings(max_examples=20, database=None), seed=seed)
            if time.monotonic() > end:
                print(f"{name}: nothing in {seed * 20} journals", flush=True)
                break


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    main(parser.parse_args().seconds)
