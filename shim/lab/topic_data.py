"""`TopicData`: topics, records and offsets that a test writes or reads without a client.

A record goes to the partition that Kafka's producer would choose. Reading returns the records that a consumer sees: no
markers, and of transactions only committed records.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.similar import similar_name
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.admin.changes import Change
from kafka_shim.broker.admin.configs import Operation, ResourceType
from kafka_shim.broker.batches import InvalidBatch, parse_batch
from kafka_shim.broker.log_transactions import AbortedTxn
from kafka_shim.broker.settings import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from kafka_shim.broker.topics import Topic, TopicError
from kafka_shim.groups.config import NAMES
from kafka_shim.groups.group import owned_partitions
from kafka_shim.lab import arguments
from kafka_shim.persistence.batch import Batch, Record, read_batch, write_batch
from kafka_shim.server.cluster import Cluster

Value: TypeAlias = str | bytes | None
"""A key or a value; a text is UTF-8, None a tombstone."""

_HINTS: Final = 20
"""Settings of a change that are compared with the known ones if they are unknown: that takes about a millisecond."""
SLICE_BYTES: Final = 2**20


class StoredRecord(NamedTuple):
    """A record in a topic. `timestamp` is milliseconds of Unix time."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


class Slice(NamedTuple):
    """Some batches of a partition, and the aborted transactions among them; `start` is the first offset to return."""

    topic: str
    partition: int
    batches: list[Batch]
    aborted: list[AbortedTxn]
    start: int

    def records(self) -> Iterator[list[StoredRecord]]:
        """Decode the records that a consumer sees, batch by batch: one can be large. Raises CorruptBatch."""
        left_out = {each.producer_id: each.first_offset for each in self.aborted}
        for batch in self.batches:
            if batch.control:
                left_out.pop(batch.producer_id, None)
                for each in self.aborted:
                    if each.producer_id == batch.producer_id and each.first_offset > batch.base_offset:
                        left_out.setdefault(each.producer_id, each.first_offset)
                continue
            if batch.transactional and left_out.get(batch.producer_id, batch.base_offset + 1) <= batch.base_offset:
                continue
            yield [
                StoredRecord(
                    self.topic, self.partition, each.offset, each.key, each.value, each.headers, each.timestamp
                )
                for each in batch.records()
                if each.offset >= self.start
            ]


class TopicData:
    """Actions on the topics and offsets of a `cluster`, in its own thread."""

    cluster: Cluster

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        """Create a topic, with values for its own settings such as `cleanup.policy`. Raises ValueError."""
        arguments.topics_of({name: partitions})
        topics = self.cluster.topics
        try:
            topic = topics.declare(name, partitions)
        except TopicError as error:
            raise ValueError(error.message) from None
        if config:
            topics.configure(topic, {setting: _text_of(value) for setting, value in config.items()})

    def set_config(
        self,
        config: Mapping[str, Any],
        *,
        topic: str | None = None,
        group: str | None = None,
        broker: int | None = None,
    ) -> None:
        """Set settings of a topic, a group or a broker by Kafka's names, or of all brokers; None removes a value.

        It is the request of an administrator without a client: a setting that Kafka cannot change while a broker runs
        is refused. Raises ValueError.
        """
        resources = [
            (type_, str(name))
            for type_, name in (
                (ResourceType.TOPIC, topic),
                (ResourceType.GROUP, group),
                (ResourceType.BROKER, broker),
            )
            if name is not None
        ]
        if len(resources) > 1:
            raise ValueError("set_config takes one of topic, group and broker, or none for all brokers.")
        if topic is not None:
            self._topic(topic)
        type_, name = resources[0] if resources else (ResourceType.BROKER, "")
        hints = [hint for setting in islice(config, _HINTS) if (hint := _similar(setting, type_))]
        if hints and type_ == ResourceType.BROKER:
            # Kafka accepts unknown names for a broker, because they may be a plugin's.
            raise ValueError(f"That is not a setting of a broker; {hints[0]}")
        changes = [
            AlterableConfig(setting, Operation.SET if value is not None else Operation.DELETE, _setting_text(value))
            for setting, value in config.items()
        ]
        nodes = self.cluster.nodes
        node = (None if broker is None else nodes.get(broker)) or next(iter(nodes.values()))
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(type_, name, changes)])
        answer = Change(request, node.id, self.cluster.config.release, self.cluster.clock()).apply(self.cluster.topics)
        assert isinstance(answer, IncrementalAlterConfigsResponse)
        refused = answer.responses[0]
        if refused.error_code:
            error = ErrorCode(refused.error_code)
            reason = f"{refused.error_message or 'The settings are refused.'} ({error.name})"
            raise ValueError("; ".join([reason, *hints[:1]]))

    def grow_topic(self, name: str, partitions: int) -> None:
        """Increase the number of a topic's partitions to `partitions`. Raises ValueError."""
        topic = self._topic(name)
        if partitions <= len(topic.partitions):
            raise ValueError(f"Topic {name!r} has {len(topic.partitions)} partitions already; it can only grow.")
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
        """Append records to a topic; return partition and offset of each.

        Without a `partition` a `key` chooses it, as in Kafka's producer; without a key the records go round all
        partitions. `timestamp` is in milliseconds of Unix time, now by default. `compression` is none, gzip, snappy,
        lz4 or zstd. Raises ValueError.
        """
        target = self._topic(topic)
        encoded = tuple((name, _bytes(value)) for name, value in (headers or {}).items())
        stamp = int(time.time() * 1000) if timestamp is None else timestamp
        places = []
        if partition is None and key is not None:
            # All of them go there, and the hash of a long key takes time.
            partition = self._partition_for(target, 0, _bytes(key))
        for number, value in enumerate(values):
            index = self._partition_for(target, number, None) if partition is None else partition
            where = target.partition(index)
            if where is None:
                raise ValueError(f"Topic {topic!r} has no partition {index}; it has {len(target.partitions)}.")
            data = write_batch([Record(0, stamp, _bytes(key), _bytes(value), encoded)], codec=compression)
            now = self.cluster.clock()
            try:
                batch = parse_batch(data, max_bytes=target.max_message_bytes)
            except InvalidBatch as error:
                raise ValueError(f"The record cannot be appended: {error}.") from None
            append_time = int((now + self.cluster.wall_offset) * 1000) if target.log_append_time else None
            places.append((index, where.log.append(batch, append_time, now).base_offset))
            self.cluster.topics.settle(now)
        return places

    def records(self, topic: str, partition: int | None = None, *, committed: bool = True) -> list[StoredRecord]:
        """Return the records of a topic, or of one partition, in the order of their offsets, partition by partition.

        With `committed`, as a consumer sees them: of transactions only committed records. Without it, records of open
        and aborted transactions too. Markers are left out. Raises ValueError.
        """
        slices = self.slices(topic, partition, committed=committed)
        return [record for each in slices for batch in each.records() for record in batch]

    def slices(
        self, topic: str, partition: int | None = None, *, committed: bool = True, start: int = 0
    ) -> Iterator[Slice]:
        """Yield the batches of `records`, from the offset `start` of each partition on. Raises ValueError."""
        target = self._topic(topic)
        if partition is not None and target.partition(partition) is None:
            raise ValueError(f"Topic {topic!r} has no partition {partition}; it has {len(target.partitions)}.")
        for index in range(len(target.partitions)) if partition is None else [partition]:
            log = target.partitions[index].log
            offset = start
            while data := log.read(max(offset, log.start_offset), SLICE_BYTES, first_whole=True, committed=committed):
                aborted = log.aborted(max(offset, log.start_offset), data) if committed else []
                batches: list[Batch] = []
                at = 0
                while at < len(data) and (read := read_batch(data, at)) is not None:
                    batch, at = read
                    batches.append(batch)
                yield Slice(topic, index, batches, aborted, offset)
                offset = batches[-1].last_offset + 1

    def seed_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit offsets for a group without members, by topic and partition. Raises ValueError."""
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
                    has_members = error is ErrorCode.UNKNOWN_MEMBER_ID
                    hint = "; it has members, and `rewind` sets those of a live group" if has_members else ""
                    raise ValueError(f"The offsets of {group!r} cannot be set: {error.name} ({error:d}){hint}.")

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """Return the number of records after the committed offset, by topic and partition.

        A partition that a member of a classic or consumer group owns counts from its first record until it has an
        offset, so that a sum of 0 says that all is committed. As in Kafka's tool the number is below 0 for an offset
        beyond the end. Raises ValueError for a group that does not exist, and
        for one without a member and without an offset.
        """
        groups = self.cluster.ownership.owner_of(group).groups
        shard = groups.shards.get(groups.partition_of(group))
        offsets = shard.offsets.of(group) if shard is not None else {}
        there = groups.groups.get(group)
        if not offsets and there is None:
            raise ValueError(self._no_group(group))
        if not offsets and there is not None and not there.size:
            raise ValueError(f"The group {group!r} has committed no offset, and it has no member.")
        places = {(name, index): each.offset for name, by_index in offsets.items() for index, each in by_index.items()}
        behind: dict[tuple[str, int], int] = {}
        for name, index in sorted(places.keys() | (owned_partitions(there) if there is not None else set())):
            topic = self.cluster.topics.named(name)
            partition = topic.partition(index) if topic is not None else None
            if partition is not None:
                read = places.get((name, index), partition.log.start_offset)
                behind[name, index] = partition.log.readable_end(committed=True) - read
        return behind

    def _no_group(self, name: str) -> str:
        there = sorted({each for node in self.cluster.nodes.values() for each in node.groups.groups})
        meant = similar_name(name, there)
        hint = f"; did you mean {meant!r}?" if meant else f"; groups are: {', '.join(there) or 'none'}."
        return f"There is no group {name!r}{hint}"

    def _topic(self, name: str) -> Topic:
        topic = self.cluster.topics.named(name)
        if topic is None:
            there = ", ".join(sorted(each.name for each in self.cluster.topics.all())) or "none"
            raise ValueError(f"There is no topic {name!r}; topics are: {there}.")
        return topic

    def _partition_for(self, topic: Topic, number: int, key: bytes | None) -> int:
        count = len(topic.partitions)
        return number % count if key is None else (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    """Compute the 32-bit hash by which Kafka's producer chooses a partition for a key (Kafka's Utils.murmur2)."""
    mask, mixer = 0xFFFFFFFF, 0x5BD1E995
    hashed = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mixer & mask
        word = (word ^ word >> 24) * mixer & mask
        hashed = (hashed * mixer & mask) ^ word
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * mixer & mask
    hashed = (hashed ^ hashed >> 13) * mixer & mask
    return hashed ^ hashed >> 15


def _bytes(value: Value) -> bytes | None:
    if value is not None and not isinstance(value, str | bytes):
        raise ValueError(f"A key, a value or a header is text, bytes or None, not {value!r}.")
    return value.encode() if isinstance(value, str) else value


def _similar(setting: str, type_: int) -> str | None:
    """Return a question with the most similar name, for a setting that such a resource does not have."""
    names = {*NAMES, *BROKER_SETTINGS}
    if type_ == ResourceType.TOPIC:
        names = {*TOPIC_SETTINGS}
    elif type_ == ResourceType.GROUP:
        names = {*GROUP_SETTINGS}
        if setting.partition(".")[0] not in {each.partition(".")[0] for each in names}:
            # Each kind of group has the setting under its own name.
            setting = f"consumer.{setting}"
    near = None if setting in names else similar_name(setting, names)
    return f"did you mean {near!r}?" if near else None


def _setting_text(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return None if value is None else _text_of(value)


def _text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
