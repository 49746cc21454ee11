"""Source `kafka_offsets_topic`: `__consumer_offsets` as a cluster serves it, one row a record, read by librdkafka.

Decides how the topic is asked for: a task reads a partition from its beginning to where it ended when the work was
planned. It is read as committed: a consumer is given neither markers nor what was aborted or is still open, so a
transaction's offset stands at its own place in the log, before what was committed after it. What counts in the end is
the same, as an offset of a transaction never outlasts one that is later in the log; only the time at which it began to
count is that of its record, not of its marker. Batches and their compression are not told either.

Options: `bootstrap`, HOST:PORT or several separated by commas, and any of librdkafka's, prefixed by `kafka.`, like
`kafka.security.protocol`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafka_shim.pipeline.decode import records
from kafka_shim.pipeline.schemas import LOG_RECORDS
from kafka_shim.pipeline.sources.places import Unreadable

TOPIC: Final = "__consumer_offsets"
BATCH: Final = 10_000
WAIT_S: Final = 0.2
PATIENCE_S: Final = 30.0
_PREFIX: Final = "kafka."


class OffsetsTopic(DataSource):
    """`spark.read.format("kafka_offsets_topic")`."""

    @classmethod
    def name(cls) -> str:
        return "kafka_offsets_topic"

    def schema(self) -> str:
        return LOG_RECORDS.ddl

    def reader(self, schema: StructType) -> OffsetsTopicReader:
        more = {name[len(_PREFIX) :]: value for name, value in self.options.items() if name.startswith(_PREFIX)}
        return OffsetsTopicReader(self.options["bootstrap"], more)


class OffsetsTopicReader(DataSourceReader):
    """Plans and reads partitions."""

    def __init__(self, bootstrap: str, options: dict[str, str]) -> None:
        self.bootstrap = bootstrap
        self.options = options

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        settings = {"group.id": "kafka-shim-pipeline", "enable.auto.commit": False, "isolation.level": "read_committed"}
        return Consumer({"bootstrap.servers": self.bootstrap, **settings, "enable.partition.eof": True, **self.options})

    def partitions(self) -> Sequence[InputPartition]:
        from confluent_kafka import KafkaException

        consumer = self._consumer()
        try:
            found = consumer.list_topics(TOPIC, PATIENCE_S).topics[TOPIC]
        except KafkaException as error:
            raise Unreadable(f"{self.bootstrap} cannot be read: {error.args[0].str()}") from error
        finally:
            consumer.close()
        if found.error is not None:
            raise Unreadable(f"{self.bootstrap} has no topic {TOPIC}: {found.error.str()}")
        return [InputPartition(number) for number in sorted(found.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(TOPIC, partition.value, OFFSET_BEGINNING)])
            ended = False
            last = time.monotonic()
            while not ended:
                # It would wait for a batch to be full.
                messages = consumer.consume(BATCH, WAIT_S)
                if messages:
                    last = time.monotonic()
                elif time.monotonic() - last > PATIENCE_S:
                    raise Unreadable(f"{self.bootstrap} does not answer about {TOPIC}-{partition.value}")
                sound = []
                for message in messages:
                    error = message.error()
                    if error is None:
                        sound.append(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended = True
                    else:
                        raise Unreadable(f"{TOPIC}-{partition.value} cannot be read: {error.str()}")
                if sound:
                    yield records.from_messages(_columns(sound), f"kafka://{self.bootstrap}", TOPIC)
        finally:
            consumer.close()


def _columns(messages: list[Any]) -> pa.RecordBatch:
    rows = [(each.key(), each.value(), each.partition(), each.offset(), each.timestamp()[1]) for each in messages]
    names = ("key", "value", "partition", "offset", "timestamp")
    return pa.RecordBatch.from_pylist([dict(zip(names, each, strict=True)) for each in rows], schema=_MESSAGES)


_MESSAGES: Final = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32()), ("offset", pa.int64()),
     ("timestamp", pa.int64())]
)  # fmt: skip
