"""Dead letter queues of share groups (KIP-1191): a record that is never delivered again is written to another topic.

A letter names the record in its headers, and has its key and value if the group copies records. Decides into which
topic and partition letters go, and refuses queues. `share_partition.py` decides which records are dead. After Kafka's
`ShareGroupDLQStateManager` of 4.4 (semantics 4.14).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from kafka_shim.apis.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.readable import readable
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.settings import DEAD_LETTER_QUEUE as QUEUE
from kafka_shim.broker.share_batches import Dead
from kafka_shim.broker.topics import Topic, Topics
from kafka_shim.persistence.batch import CorruptBatch, Record, last_offset, read_batch, write_batches

log: Final = logging.getLogger("kafka_shim.broker")

ENABLED: Final = "errors.deadletterqueue.group.enable"
AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
COPIES: Final = "errors.deadletterqueue.copy.record.enable"

_MOST_REASONS: Final = 1_000
"""Refusals that the log has only once."""


class Refusal(Exception):
    """The reason why a queue takes no letters."""


class DeadLetters:
    """The writer of letters on one broker.

    `produce(leader, request, now)` appends for the node `leader`. `create(request, now)` creates a topic and returns
    the error, empty for none; it is None where several processes share the topics: the creation would follow later.
    `is_here(leader)` returns True if this process has the logs of a node. `epoch_ms` turns monotonic seconds into ms
    since the epoch; `is_on()` returns True if the level of `share.version` allows queues.
    """

    def __init__(
        self,
        topics: Topics,
        produce: Callable[[int, ProduceRequest, float], ProduceResponse],
        create: Callable[[CreateTopicsRequest, float], str] | None,
        is_here: Callable[[int], bool],
        epoch_ms: Callable[[float], int],
        is_on: Callable[[], bool],
    ) -> None:
        self.topics = topics
        self._produce = produce
        self._create = create
        self._is_here = is_here
        self._epoch_ms = epoch_ms
        self._is_on = is_on
        self._reasons: set[tuple[str, str]] = set()

    def has_queue(self, group_id: str) -> bool:
        """Return True if letters are written about records of a group."""
        own = self.topics.settings.groups.get(group_id)
        return bool(own and own.get(QUEUE)) and self._is_on()

    def bury(self, dead: Sequence[Dead], now: float) -> None:
        """Write letters about these records to the queues of their groups. The log has the reason of a refusal."""
        for place, parts in groupby(dead, key=lambda each: each.place):
            group_id, topic_id, index = place
            own, topic = self.topics.settings.groups.get(group_id, {}), self.topics.with_id(topic_id)
            partition = None if topic is None else topic.partition(index)
            if topic is None or partition is None:
                continue
            try:
                queue = self._queue(own.get(QUEUE, ""), now)
                copies = _Copies(partition.log) if own.get(COPIES) == "true" else None
                self._write(queue, index, self._letters(topic.name, parts, copies, now), now)
            except Refusal as refusal:
                self._report(group_id, str(refusal))

    def _queue(self, name: str, now: float) -> Topic:
        """Return the topic of a queue, created if necessary. Raises `Refusal`."""
        settings, topic, text = self.topics.settings, self.topics.named(name), readable(name)
        if not name:
            raise Refusal("the group has no queue any more.")
        if topic is not None and settings.topic_text(ENABLED, topic.configs).lower() != "true":
            raise Refusal(f"the topic {text} does not have {ENABLED}=true.")
        if topic is None and not settings.flag(AUTO_CREATE):
            raise Refusal(f"the topic {text} does not exist, and {AUTO_CREATE} is false.")
        if not name.startswith(prefix := settings.text(PREFIX)):
            raise Refusal(f"the name {text} does not begin with {readable(prefix)}, the value of {PREFIX}.")
        if topic is None:
            if self._create is None:
                raise Refusal(f"the topic {text} does not exist, and several processes share their topics.")
            configs = [
                CreatableTopicConfig(ENABLED, "true"),
                CreatableTopicConfig("message.timestamp.type", "CreateTime"),
            ]
            if error := self._create(CreateTopicsRequest([CreatableTopic(name, -1, -1, [], configs)]), now):
                raise Refusal(readable(error))
            topic = self.topics.named(name)
        if topic is None:
            raise Refusal(f"the topic {text} was not created.")
        return topic

    def _letters(self, source: str, dead: Iterable[Dead], copies: _Copies | None, now: float) -> Iterator[Record]:
        """Yield the letters about records of one share partition, with key and value if there are `copies`."""
        timestamp = self._epoch_ms(now)
        for each in dead:
            place = (("__dlq.errors.topic", source.encode()), ("__dlq.errors.partition", b"%d" % each.place.partition))
            reason = (
                ("__dlq.errors.group", each.place.group_id.encode()),
                ("__dlq.errors.delivery.count", b"%d" % each.delivery_count),
                ("__dlq.errors.message", each.cause.encode()),
            )
            for offset in range(each.offsets.first, each.offsets.last + 1):
                key, value = (None, None) if copies is None else copies.at(offset)
                headers = (*place, ("__dlq.errors.offset", b"%d" % offset), *reason)
                yield Record(offset, timestamp, key, value, headers)

    def _write(self, queue: Topic, index: int, letters: Iterable[Record], now: float) -> None:
        """Append letters to the queue, in as many batches as it needs. Raises `Refusal`, but not before the last one: a
        batch may be refused alone, as too large."""
        count = len(queue.partitions)
        places = (queue.partitions[(index + step) % count] for step in range(count))
        partition = next((each for each in places if self._is_here(each.leader)), None)
        if partition is None:
            raise Refusal(f"another process leads all partitions of {readable(queue.name)}.")
        refusal: Refusal | None = None
        for batch in write_batches(letters, queue.max_message_bytes):
            data = TopicProduceData(queue.name, partition_data=[PartitionProduceData(partition.index, batch)])
            answer = self._produce(partition.leader, ProduceRequest(acks=-1, timeout_ms=0, topic_data=[data]), now)
            if error := answer.responses[0].partition_responses[0].error_code:
                refusal = Refusal(f"the topic {readable(queue.name)} answered {ErrorCode(error).name}.")
        if refusal is not None:
            raise refusal

    def _report(self, group_id: str, reason: str) -> None:
        """Write one line for each reason."""
        if len(self._reasons) >= _MOST_REASONS:
            self._reasons.clear()
        if (group_id, reason) not in self._reasons:
            self._reasons.add((group_id, reason))
            log.warning("Group %s lost dead letters: %s", readable(group_id), reason)


class _Copies:
    """Keys and values of the records of a log. The batch that was read last is kept, as records come in order."""

    def __init__(self, source: PartitionLog) -> None:
        self._source = source
        self._first, self._last = 0, -1
        self._records: dict[int, tuple[bytes | None, bytes | None]] = {}

    def at(self, offset: int) -> tuple[bytes | None, bytes | None]:
        """Return key and value of the record at this offset; None and None if the log does not have it."""
        if not self._first <= offset <= self._last:
            self._read(offset)
        return self._records.get(offset, (None, None))

    def _read(self, offset: int) -> None:
        self._first = self._last = offset
        self._records = {}
        data = self._source.read(offset, 1, first_whole=True) if offset >= self._source.start_offset else b""
        if not data:
            return
        self._last = max(offset, last_offset(data))
        try:
            part = read_batch(data)
            records = part[0].records() if part is not None and not part[0].control else []
        except CorruptBatch:
            # A producer may pack records that cannot be unpacked: these letters have headers alone, as in Kafka.
            return
        self._records = {each.offset: (each.key, each.value) for each in records}
