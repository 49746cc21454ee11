"""Spark's own connector for Kafka on a server of the default release: it writes topics, reads them and goes on."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.testing import CoordinatorServer

FIRST = [(f"key-{number}", f"value-{number}", number % 3) for number in range(30)]
LATER = [(f"key-{number}", f"value-{number}", number % 3) for number in range(30, 40)]
SCHEMA = "key string, value string, partition int"
COLUMNS = ("CAST(key AS string)", "CAST(value AS string)", "partition")
WITH_A_CONSUMER = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Whether the driver asks for offsets with a consumer, a member of a classic group; otherwise with an admin client."""


def write(spark: SparkSession, server: CoordinatorServer, rows: list[tuple[str, str, int]]) -> None:
    sink = spark.createDataFrame(rows, SCHEMA).write.format("kafka").option("topic", "orders")
    sink.option("kafka.bootstrap.servers", server.bootstrap).save()


def read_on(spark: SparkSession, server: CoordinatorServer, folder: Path) -> None:
    """Read from where the checkpoint ends up to the present end of the topic."""
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", server.bootstrap)
    rows = source.option("subscribe", "orders").option("startingOffsets", "earliest").load().selectExpr(*COLUMNS)
    sink = rows.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    sink.trigger(availableNow=True).start(str(folder / "rows")).awaitTermination()


def values(rows: DataFrame) -> list[tuple[str, str, int]]:
    return sorted(map(tuple, rows.collect()), key=lambda row: int(row[0].removeprefix("key-")))


@pytest.mark.parametrize("consumer", [False, True], ids=["admin", "consumer"])
def test_what_the_connector_writes_it_reads_and_reads_on(
    connector: SparkSession, tmp_path: Path, consumer: bool
) -> None:
    connector.conf.set(WITH_A_CONSUMER, str(consumer).lower())
    try:
        with CoordinatorServer(topics={"orders": 3}, release=DEFAULT_RELEASE) as server:
            write(connector, server, FIRST)
            batch = connector.read.format("kafka").option("kafka.bootstrap.servers", server.bootstrap)
            assert values(batch.option("subscribe", "orders").load().selectExpr(*COLUMNS)) == FIRST
            read_on(connector, server, tmp_path)
            assert values(connector.read.parquet(str(tmp_path / "rows"))) == FIRST
            # The second run begins at its checkpoint: it reads each record once.
            write(connector, server, LATER)
            read_on(connector, server, tmp_path)
            assert values(connector.read.parquet(str(tmp_path / "rows"))) == FIRST + LATER
            admin = AdminClient({"bootstrap.servers": server.bootstrap})
            groups = {each.group_id for each in admin.list_consumer_groups().result().valid}
    finally:
        connector.conf.unset(WITH_A_CONSUMER)
    assert any(name.startswith("spark-kafka-source-") for name in groups) == consumer
