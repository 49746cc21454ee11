"""Topics, records and offsets that a test puts there, or looks at, without a client.

Decides which partition a record goes to, as Kafka's own producer does, and what of a log a consumer sees: no markers,
and of transactions only what was committed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import InvalidBatch, parse_batch
from kafka_shim.broker.topics import Topic, TopicError
from kafka_shim.lab import arguments
from kafka_shim.persistence.batch import Record, read_batch, write_batch
from kafka_shim.server.cluster import Cluster

Value: TypeAlias = str | bytes | None
"""A key or a value; a text is UTF-8, None a tombstone."""

_EVERYTHING: Final = 2**31 - 1


class StoredRecord(NamedTuple):
    """A record in a topic. `timestamp` is milliseconds of Unix time."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


class TopicData:
    """What a test does to the topics and offsets of a `cluster`, in its own thread."""

    cluster: Cluster

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        """Create a topic, with values for settings of its own such as `cleanup.policy`. Raises ValueError."""
        arguments.topics_of({name: partitions})
        topics = self.cluster.topics
        try:
            topic = topics.declare(name, partitions)
        except TopicError as error:
            raise ValueError(error.message) from None
        if config:
            topics.configure(topic, {setting: _text_of(value) for setting, value in config.items()})

    def grow_topic(self, name: str, partitions: int) -> None:
        """Let a topic have so many partitions, which are more than it has. Raises ValueError."""
        topic = self._topic(name)
        if partitions <= len(topic.partitions):
            raise ValueError(f"Topic {name!r} has {len(topic.partitions)} partitions already; it can only have more.")
        topics = self.cluster.topics
        topics.grow(topic, topics.around(partitions - len(topic.partitions), len(topic.partitions[0].replicas)))

    def produce(
        self,
        topic: str,
        *values: Value,
        key: Value = None,
        partition: int | None = None,
        headers: Mapping[str, Value] | None = None,
        timestamp: int | None = None,
        compression: str = "none",
    ) -> list[tuple[int, int]]:
        """Append records to a topic; partition and offset of each.

        Without a `partition` a `key` decides, as in Kafka's producer, or else they go round. `timestamp` is in
        milliseconds of Unix time, now by default. `compression` is none, gzip, snappy, lz4 or zstd. Raises ValueError.
        """
        found = self._topic(topic)
        encoded = tuple((name, _bytes(value)) for name, value in (headers or {}).items())
        stamp = int(time.time() * 1000) if timestamp is None else timestamp
        made = []
        for number, value in enumerate(values):
            index = self._partition_for(found, number, _bytes(key)) if partition is None else partition
            where = found.partition(index)
            if where is None:
                raise ValueError(f"Topic {topic!r} has no partition {index}; it has {len(found.partitions)}.")
            data = write_batch([Record(0, stamp, _bytes(key), _bytes(value), encoded)], codec=compression)
            now = self.cluster.clock()
            try:
                batch = parse_batch(data, max_bytes=found.max_message_bytes)
            except InvalidBatch as error:
                raise ValueError(f"The record cannot be appended: {error}.") from None
            append_time = int((now + self.cluster.wall_offset) * 1000) if found.log_append_time else None
            made.append((index, where.log.append(batch, append_time, now).base_offset))
            self.cluster.topics.settle(now)
        return made

    def records(self, topic: str, partition: int | None = None, *, committed: bool = True) -> list[StoredRecord]:
        """The records of a topic, or of one partition, in the order of their offsets, partition by partition.

        As a consumer sees them: no markers, and of transactions only what was committed; all else too, such as of open
        transactions, without `committed`. Raises ValueError.
        """
        found = self._topic(topic)
        if partition is not None and found.partition(partition) is None:
            raise ValueError(f"Topic {topic!r} has no partition {partition}; it has {len(found.partitions)}.")
        indexes = range(len(found.partitions)) if partition is None else [partition]
        return [each for index in indexes for each in self._read(found, index, committed)]

    def seed_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group that has no members, by topic and partition. Raises ValueError."""
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (name, index), offset in arguments.offsets_of(offsets).items():
            if self._topic(name).partition(index) is None:
                raise ValueError(f"Topic {name!r} has no partition {index}.")
            each = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
            by_topic.setdefault(name, []).append(each)
        request = OffsetCommitRequest(
            group, topics=[OffsetCommitRequestTopic(name, partitions=each) for name, each in by_topic.items()]
        )
        groups = self.cluster.ownership.owner_of(group).groups
        answer = groups.commit(request, self.cluster.clock(), unknown_group_is_69=True)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    error = ErrorCode(partition.error_code)
                    raise ValueError(f"The offsets of {group!r} cannot be set: {error.name} ({error:d}).")

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """By topic and partition, how many records are behind the committed offset; nothing for what has none."""
        groups = self.cluster.ownership.owner_of(group).groups
        shard = groups.shards.get(groups.partition_of(group))
        behind: dict[tuple[str, int], int] = {}
        for name, by_partition in sorted((shard.offsets.of(group) if shard is not None else {}).items()):
            topic = self.cluster.topics.named(name)
            for index, value in sorted(by_partition.items()):
                partition = topic.partition(index) if topic is not None else None
                if partition is not None:
                    behind[name, index] = max(partition.log.readable_end(committed=True) - value.offset, 0)
        return behind

    def _topic(self, name: str) -> Topic:
        topic = self.cluster.topics.named(name)
        if topic is None:
            there = ", ".join(sorted(each.name for each in self.cluster.topics.all())) or "none"
            raise ValueError(f"There is no topic {name!r}; topics are: {there}.")
        return topic

    def _partition_for(self, topic: Topic, number: int, key: bytes | None) -> int:
        count = len(topic.partitions)
        return number % count if key is None else (murmur2(key) & 0x7FFFFFFF) % count

    def _read(self, topic: Topic, index: int, committed: bool) -> list[StoredRecord]:
        log = topic.partitions[index].log
        data = log.read(log.start_offset, _EVERYTHING, first_whole=True, committed=committed)
        aborted = log.aborted(log.start_offset, data) if committed else []
        left_out = {each.producer_id: each.first_offset for each in aborted}
        found: list[StoredRecord] = []
        at = 0
        while at < len(data) and (read := read_batch(data, at)) is not None:
            batch, at = read
            if batch.control:
                left_out.pop(batch.producer_id, None)
                for each in aborted:
                    if each.producer_id == batch.producer_id and each.first_offset > batch.base_offset:
                        left_out.setdefault(each.producer_id, each.first_offset)
                continue
            if batch.transactional and left_out.get(batch.producer_id, batch.base_offset + 1) <= batch.base_offset:
                continue
            found += [
                StoredRecord(topic.name, index, each.offset, each.key, each.value, each.headers, each.timestamp)
                for each in batch.records()
            ]
        return found


def murmur2(data: bytes) -> int:
    """The hash by which Kafka's producer chooses a partition for a key, 32 bits (Kafka's Utils.murmur2)."""
    mask, mixer = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mixer & mask
        word = (word ^ word >> 24) * mixer & mask
        found = (found * mixer & mask) ^ word
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * mixer & mask
    found = (found ^ found >> 13) * mixer & mask
    return found ^ found >> 15


def _bytes(value: Value) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
