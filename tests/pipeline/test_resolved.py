"""The final offsets of a log: the pipeline, `persistence/interchange.py` and Kafka itself agree."""

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_shim.persistence.interchange import Compacted
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue
from kafka_shim.persistence.segments import read_partition
from kafka_shim.pipeline.sources.kafka_topic import offsets_topic
from kafka_shim.pipeline.tables import offsets
from tests.persistence.real_kafka import PARTITIONS as KAFKAS
from tests.persistence.real_kafka import RealKafka
from tests.persistence.test_kafka_interchange import consumer, patiently

from . import random_logs

LOGS = 1000
SEEDS = (20261122, 7)

Offsets = dict[tuple[str, int], int]


def by_interchange(folder: Path) -> Offsets:
    offsets = {}
    for place in sorted(folder.iterdir()):
        compacted = Compacted(place, lambda problem: pytest.fail(str(problem)))
        for batch, records in read_partition(place, lambda problem: pytest.fail(str(problem))):
            compacted.feed(batch, records)
        for key, (_, value) in compacted.live.items():
            assert isinstance(key, OffsetCommitKey)
            assert isinstance(value, OffsetCommitValue)
            offsets[key.group, key.partition] = value.offset
    return offsets


def by_pipeline(spark: SparkSession, paths: str) -> Offsets:
    return resolved(spark.read.format("kafka_offsets_log").option("records", "commits").load(paths))


def resolved(records: DataFrame) -> Offsets:
    history = offsets.history_of_segments(records)
    # Effective changes are in the order of the log.
    last = history.groupBy("group_id", "partition").agg(
        F.max_by("committed_offset", "position").alias("committed_offset")
    )
    return {
        (row.group_id, row.partition): row.committed_offset
        for row in last.collect()
        if row.committed_offset is not None
    }


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    for seed in SEEDS:
        groups = [f"group-{seed}-{number}" for number in range(LOGS // len(SEEDS))]
        random_logs.write(folder / str(seed), random_logs.woven(groups, seed, 8, 1_760_000_000_000))
    return folder


def test_the_pipeline_and_an_import_resolve_a_thousand_logs_alike(spark: SparkSession, logs: Path) -> None:
    for seed in SEEDS:
        expected = by_interchange(logs / str(seed))
        assert len(expected) > LOGS // len(SEEDS)
        assert by_pipeline(spark, str(logs / str(seed))) == expected


def test_copies_of_a_log_count_once(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    first = logs / str(SEEDS[0])
    # A follower that lags behind, and one that has all.
    for broker, share in (("b1", 1.0), ("b2", 0.6), ("b3", 1.0)):
        for place in first.iterdir():
            copy = tmp_path / broker / place.name
            copy.mkdir(parents=True)
            whole = (place / f"{0:020d}.log").read_bytes()
            (copy / f"{0:020d}.log").write_bytes(whole[: int(len(whole) * share)])
    paths = ",".join(str(tmp_path / broker) for broker in ("b1", "b2", "b3"))
    rows = spark.read.format("kafka_offsets_log").load(paths)
    once = offsets.history_of_segments(spark.read.format("kafka_offsets_log").load(str(first)))
    assert by_pipeline(spark, paths) == by_interchange(first)
    assert offsets.history_of_segments(rows).count() == once.count()


@pytest.mark.everything("a Kafka that resolves logs, beside Spark")
def test_kafka_resolves_logs_alike(connector: SparkSession, tmp_path: Path) -> None:
    groups = [f"group-{number}" for number in range(40)]
    logs = tmp_path / "logs"
    random_logs.write(logs, random_logs.woven(groups, 3, KAFKAS, int(time.time() * 1000), ended=True))
    expected = by_interchange(logs)
    assert by_pipeline(connector, str(logs)) == expected

    kafka = RealKafka(tmp_path)
    with kafka.running() as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(random_logs.TOPIC, random_logs.PARTITIONS, 1)])[random_logs.TOPIC].result(30)
        # The first search for a coordinator creates the offsets topic.
        one = consumer(bootstrap, "nobody")
        patiently(lambda: one.committed([TopicPartition(random_logs.TOPIC, 0)], 30))
        one.close()
    for place in logs.iterdir():
        theirs = kafka.data / place.name
        for file in theirs.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        shutil.copytree(place, theirs, dirs_exist_ok=True)
    offsets = {}
    with kafka.running() as bootstrap:
        for group in groups:
            each = consumer(bootstrap, group)
            partitions = [TopicPartition(random_logs.TOPIC, number) for number in range(random_logs.PARTITIONS)]
            answers = patiently(lambda each=each, partitions=partitions: each.committed(partitions, 30))
            offsets |= {(group, answer.partition): answer.offset for answer in answers if answer.offset >= 0}
            each.close()
        topic = offsets_topic(connector, bootstrap)
        live = resolved(topic)
        assert topic.where("reason is not null").count() == 0
    assert offsets == expected
    assert live == expected
