"""Provoked cases of commits that the coordinator refuses for good: by a job that is no member, or after a departure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as Partition
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CommitFailedError
from kafka.structs import OffsetAndMetadata

from tests.why.provoked.cases import AIO, CONFLUENT, KIP848, KP3, Case, collector
from tests.why.provoked.lives import QUICK
from tests.why.provoked.stage import SESSION_MS, Stage

OUTSIDE: Final[list[Case]] = []
case = collector(OUTSIDE)

JOB: Final = "job"
COMMITS: Final = 3


@contextmanager
def _kafka_python(stage: Stage, *, subscribes: bool) -> Iterator[Callable[[], object]]:
    """Yield a function that commits an offset; the consumer has unsubscribed, or was never a member."""
    consumer = KafkaConsumer(
        bootstrap_servers=stage.bootstrap,
        client_id=JOB,
        group_id=stage.group,
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
    )
    partition = TopicPartition(stage.group, 0)
    if subscribes:
        consumer.subscribe([stage.group])
        while not consumer.assignment():
            consumer.poll(timeout_ms=200)
        consumer.unsubscribe()
    else:
        consumer.assign([partition])
        consumer.poll(timeout_ms=200)
    yield lambda: consumer.commit({partition: OffsetAndMetadata(5, "", -1)})
    consumer.close(autocommit=False)


@contextmanager
def _librdkafka(stage: Stage, *, subscribes: bool) -> Iterator[Callable[[], object]]:
    consumer = Consumer(
        {
            "bootstrap.servers": stage.bootstrap,
            "client.id": JOB,
            "group.id": stage.group,
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
        }
    )
    if subscribes:
        consumer.subscribe([stage.group])
        while not consumer.assignment():
            consumer.poll(0.2)
        consumer.unsubscribe()
    else:
        consumer.assign([Partition(stage.group, 0)])
        consumer.poll(0.2)
    yield lambda: consumer.commit(offsets=[Partition(stage.group, 0, 5)], asynchronous=False)
    consumer.close()


def _commit(stage: Stage, *, subscribes: bool = False, refused: bool = True) -> None:
    """Commit a few times as a client that is no member: kafka-python in its own groups, librdkafka in all others."""
    job = _kafka_python if stage.client == KP3 else _librdkafka
    with job(stage, subscribes=subscribes) as commit:
        for _ in range(COMMITS):
            error: Exception | None = None
            try:
                commit()
            except (CommitFailedError, KafkaException) as raised:
                error = raised
            assert (error is not None) == refused, error
            stage.rest(1.0)


def _a_job_commits(stage: Stage) -> None:
    stage.started("a", "b")
    _commit(stage)


@case(*(KP3, AIO, CONFLUENT), causes=("COMMIT_REFUSED",), culprits=(JOB,), remedies=("group.id",))
def a_job_commits_in_a_group_of_others(stage: Stage) -> None:
    _a_job_commits(stage)


@case(KIP848, causes=("COMMIT_REFUSED",), culprits=(JOB,), remedies=("group.id",), server=QUICK)
def a_job_commits_in_a_group_of_consumers(stage: Stage) -> None:
    _a_job_commits(stage)


@case(*(KP3, CONFLUENT), causes=("COMMIT_REFUSED",), culprits=(JOB,), remedies=("group.id",), server="relay")
def a_job_commits_behind_a_relay(stage: Stage) -> None:
    _a_job_commits(stage)


@case(*(KP3, CONFLUENT, KIP848), causes=("COMMIT_REFUSED",), culprits=(JOB,), remedies=("group.id",), server="kafka")
def a_job_commits_in_a_group_of_kafka(stage: Stage) -> None:
    _a_job_commits(stage)


# librdkafka leaves in the background, after its first commit.
@case(KP3, causes=("COMMIT_REFUSED",), culprits=(JOB,), remedies=("processing",))
def a_member_commits_after_it_unsubscribed(stage: Stage) -> None:
    stage.started("a", "b")
    _commit(stage, subscribes=True)
    stage.whole()


@case(*(KP3, CONFLUENT), causes=("START",), calm=True)
def a_job_commits_before_the_members_come(stage: Stage) -> None:
    _commit(stage, refused=False)
    stage.started("a", "b")
