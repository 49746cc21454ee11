"""`__consumer_offsets` of a running cluster, one row a record, read by Spark's connector for Kafka.

Reads every partition from its beginning to its end at the start of the task, as a read_committed consumer: it gets no
markers, and no records of aborted or open transactions. So an offset of a transaction stands at its own place in the
log, before later commits. The final offsets are the same, since a later record always wins; only the time of such an
offset is that of its record, not of its marker. Batches and their compression are not visible.

To find the partitions, the connector asks an admin client that omits Kafka's internal topics; with
`spark.sql.streaming.kafka.useDeprecatedOffsetFetching` it joins a group instead, which would write into the very topic
that it reads. So this module asks for the partitions itself and assigns them.
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
"""Prefix of the options that are settings of Kafka's Java clients."""
_PATIENCE_MS: Final = "30000"
_CONNECT_S: Final = 10.0
_OF_CONNECTOR: Final = re.compile(
    r"(?:org\.apache\.kafka\.[\w.]+(?:Exception|Error): |(?=Cannot fetch record for offset ))(.+)"
)
"""The message of the connector or of Kafka's clients, within the text of Spark's error."""
_OLDER_WAY: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_CLIENT: Final = {
    "kafka.default.api.timeout.ms": _PATIENCE_MS,
    "kafka.request.timeout.ms": _PATIENCE_MS,
}
_READ: Final = {
    "startingOffsets": "earliest",
    "endingOffsets": "latest",
    "kafka.isolation.level": "read_committed",
    # The connector asks for the beginning and the end of the partition after each poll: poll many records at once.
    "kafka.max.poll.records": "20000",
    "kafkaConsumer.pollTimeoutMs": _PATIENCE_MS,
    "groupIdPrefix": "kafka-shim-pipeline",
}


def offsets_topic(spark: SparkSession, bootstrap: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """Read the topic from the cluster at `bootstrap` as rows of `LOG_RECORDS`, persisted on disk because the topic
    changes.

    `bootstrap` is HOST:PORT, or several separated by commas. `options` are those of Spark's connector, and settings of
    Kafka's Java clients with the prefix `kafka.`, like `kafka.security.protocol`. Raises `Unreadable` and
    `NoConnector`.
    """
    settings = {**_CLIENT, **(options or {}), "kafka.bootstrap.servers": bootstrap}
    partitions = _partitions(spark, bootstrap, settings)
    spark.conf.set(_OLDER_WAY, "true")
    topic = (
        spark.read.format("kafka").options(**{**_READ, **settings, "assign": json.dumps({TOPIC: partitions})}).load()
    )
    file = f"kafka://{bootstrap}"

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from records.from_messages(batch, file, TOPIC)

    messages = topic.select("key", "value", "partition", "offset", F.unix_millis("timestamp").alias("timestamp"))
    rows = in_arrow(messages, decoded, LOG_RECORDS.ddl)
    patience_s = 2 * int(settings["kafka.default.api.timeout.ms"]) / 1000
    with reading(bootstrap):
        # Planning happens here, and the connector waits without limit for the coordinator of a group.
        return _in_time(lambda: rows.persist(StorageLevel.DISK_ONLY), patience_s, bootstrap)


def _in_time(call: Callable[[], T], patience_s: float, bootstrap: str) -> T:
    """Return the result of `call`. Raises `Unreadable` after `patience_s` seconds; the call then goes on unattended."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return result.result(patience_s)
    except TimeoutError as error:
        raise Unreadable(f"{TOPIC} of {bootstrap} cannot be read: no answer in {patience_s:g} s") from error


def reach(bootstrap: str) -> None:
    """Raise `Unreadable` if none of these addresses accepts a connection."""
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
    """Convert an error of the connector within the block to `Unreadable`."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        match = _OF_CONNECTOR.search(str(error))
        if match is None:
            raise
        raise Unreadable(f"{TOPIC} of {bootstrap} cannot be read: {match[1].strip().rstrip('.')}") from error


def _partitions(spark: SparkSession, bootstrap: str, options: Mapping[str, str]) -> list[int]:
    """Return the numbers of the topic's partitions."""
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
    """Return the message of the innermost Java error."""
    java = error.java_exception
    while java.getCause() is not None:
        java = java.getCause()
    return str(java.getMessage() or java.toString()).rstrip(".")
