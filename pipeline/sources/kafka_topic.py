"""`__consumer_offsets` as a cluster serves it, one row a record, read by Spark's own connector for Kafka.

Decides how the connector asks for the topic: every partition from its beginning to where it ends when a task begins. It
is read as committed: a consumer is given neither markers nor what was aborted or is still open, so a transaction's
offset stands at its own place in the log, before what was committed after it. What counts in the end is the same, as an
offset of a transaction never outlasts one that is later in the log; only the time at which it began to count is that of
its record, not of its marker. Batches and their compression are not known either. It does not know what is in a record.

The connector leaves topics of Kafka's own out where it asks an admin client which partitions there are, which it does
unless `spark.sql.streaming.kafka.useDeprecatedOffsetFetching` is set, and then it joins a group for it, which would be
written into the topic that is read. So the partitions are asked for here, and assigned.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import Any, Final, TypeVar

import pyarrow as pa
from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_shim.pipeline.connectors import NoConnector
from kafka_shim.pipeline.decode import records
from kafka_shim.pipeline.schemas import LOG_RECORDS
from kafka_shim.pipeline.sources import in_arrow
from kafka_shim.pipeline.sources.places import Unreadable

T = TypeVar("T")
TOPIC: Final = "__consumer_offsets"
PREFIX: Final = "kafka."
"""Of the names of options that are settings of Kafka's Java clients."""
_PATIENCE_MS: Final = "30000"
_CONNECT_S: Final = 10.0
_OF_CONNECTOR: Final = re.compile(
    r"(?:org\.apache\.kafka\.[\w.]+(?:Exception|Error): |(?=Cannot fetch record for offset ))(.+)"
)
"""What the connector and Kafka's clients say in what Spark raises."""
_OLDER_WAY: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_CLIENT: Final = {
    "kafka.default.api.timeout.ms": _PATIENCE_MS,
    "kafka.request.timeout.ms": _PATIENCE_MS,
}
_READ: Final = {
    "startingOffsets": "earliest",
    "endingOffsets": "latest",
    "kafka.isolation.level": "read_committed",
    # After each poll the connector asks where the partition begins and ends.
    "kafka.max.poll.records": "20000",
    "kafkaConsumer.pollTimeoutMs": _PATIENCE_MS,
    "groupIdPrefix": "kafka-shim-pipeline",
}


def offsets_topic(spark: SparkSession, bootstrap: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """Rows of `LOG_RECORDS` from the cluster at `bootstrap`, HOST:PORT or several separated by commas, kept on disk
    once they were read, as the topic goes on meanwhile. `options` are those of Spark's connector, and settings of
    Kafka's Java clients, prefixed by `kafka.`, like `kafka.security.protocol`. Raises `Unreadable` and `NoConnector`.
    """
    given = {**_CLIENT, **(options or {}), "kafka.bootstrap.servers": bootstrap}
    partitions = _partitions(spark, bootstrap, given)
    spark.conf.set(_OLDER_WAY, "true")
    found = spark.read.format("kafka").options(**{**_READ, **given, "assign": json.dumps({TOPIC: partitions})}).load()
    file = f"kafka://{bootstrap}"

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from records.from_messages(batch, file, TOPIC)

    messages = found.select("key", "value", "partition", "offset", F.unix_millis("timestamp").alias("timestamp"))
    rows = in_arrow(messages, decoded, LOG_RECORDS.ddl)
    patience_s = 2 * int(given["kafka.default.api.timeout.ms"]) / 1000
    with reading(bootstrap):
        # Then it is planned, and the connector waits for a group's coordinator as long as it takes.
        return _in_time(lambda: rows.persist(StorageLevel.DISK_ONLY), patience_s, bootstrap)


def _in_time(call: Callable[[], T], patience_s: float, bootstrap: str) -> T:
    """What this returns. Raises `Unreadable` if it takes longer; then it goes on, and nobody waits for it."""
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return found.result(patience_s)
    except TimeoutError as error:
        raise Unreadable(f"{TOPIC} of {bootstrap} cannot be read: no answer in {patience_s:g} s") from error


def reach(bootstrap: str) -> None:
    """Raises `Unreadable` if nobody listens at any of these addresses."""
    problem = "it is not of the form HOST:PORT"
    for address in bootstrap.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdigit():
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
        except (OSError, OverflowError) as error:
            problem = getattr(error, "strerror", None) or str(error)
        else:
            return
    raise Unreadable(f"{bootstrap} cannot be reached: {problem}")


@contextmanager
def reading(bootstrap: str) -> Iterator[None]:
    """Raises `Unreadable` for what the connector raises within."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        found = _OF_CONNECTOR.search(str(error))
        if found is None:
            raise
        raise Unreadable(f"{TOPIC} of {bootstrap} cannot be read: {found[1].strip().rstrip('.')}") from error


def _partitions(spark: SparkSession, bootstrap: str, options: Mapping[str, str]) -> list[int]:
    """The numbers of the topic's partitions."""
    java: Any = spark._jvm
    admins = java.org.apache.kafka.clients.admin.AdminClient
    if isinstance(admins, JavaPackage):
        raise NoConnector("there is no org.apache.spark:spark-sql-kafka-0-10 among Spark's jars")
    settings = {name[len(PREFIX) :]: value for name, value in options.items() if name.startswith(PREFIX)}
    try:
        admin = admins.create(settings)
    except Py4JJavaError as error:
        raise Unreadable(f"{bootstrap} cannot be read: {_sentence(error)}") from error
    try:
        described = admin.describeTopics([TOPIC]).topicNameValues().get(TOPIC).get()
    except Py4JJavaError as error:
        raise Unreadable(f"{TOPIC} of {bootstrap} cannot be read: {_sentence(error)}") from error
    finally:
        admin.close()
    return sorted(each.partition() for each in described.partitions())


def _sentence(error: Py4JJavaError) -> str:
    """What the innermost of Java's errors says."""
    java = error.java_exception
    while java.getCause() is not None:
        java = java.getCause()
    return str(java.getMessage() or java.toString()).rstrip(".")
