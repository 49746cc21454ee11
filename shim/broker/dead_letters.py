"""Dead letter queues of share groups (KIP-1191): a record that is never delivered again is written to another topic.

A letter names the record in its headers, and has its key and value if the group copies records. Decides into which
topic and partition letters go, and refuses queues. `share_partition.py` decides which records are dead. After Kafka's
`ShareGroupDLQStateManager` of 4.4 (semantics 4.14).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Final

from kafka_shim.apis.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kafka_shim.apis.readable import readable
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.log import PartitionLog
from kafka_shim.broker.settings import DEAD_LETTER_QUEUE as QUEUE
from kafka_shim.broker.share_batches import Dead, Offsets
from kafka_shim.broker.topics import Topic, Topics
from kafka_shim.persistence.batch import CorruptBatch, Record, last_offset, read_batch, write_batches

log: Final = logging.getLogger("kafka_shim.broker")

ENABLED: Final = "errors.deadletterqueue.group.enable"
AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
COPIES: Final = "errors.deadletterqueue.copy.record.enable"

LETTERS_AT_ONCE: Final = 1_000
"""Letters that are written before other clients are served."""
UNPACKED_AT_ONCE: Final = 2**20
"""Bytes of records after which no further batch is unpacked for letters before other clients are served."""
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
        self._copies = _Copies()

    def has_queue(self, group_id: str) -> bool:
        """Return True if letters are written about records of a group."""
        own = self.topics.settings.groups.get(group_id)
        return bool(own and own.get(QUEUE)) and self._is_on()

    def bury(self, dead: list[Dead], now: float) -> None:
        """Write letters about the first of these records to the queues of their groups, and take those records off the
        list: as many as clients may wait for. The log has the reason of a refusal."""
        room = LETTERS_AT_ONCE
        self._copies.unpacked = 0
        while dead and room > 0:
            group_id, topic_id, index = dead[0].place
            own, topic = self.topics.settings.groups.get(group_id, {}), self.topics.with_id(topic_id)
            partition = None if topic is None else topic.partition(index)
            try:
                queue = None if partition is None else self._queue(own.get(QUEUE, ""), now)
            except Refusal as refusal:
                self._report(group_id, str(refusal))
                queue = None
            if topic is None or partition is None or queue is None:
                room -= 1
                del dead[: _of_first_place(dead)]
                continue
            source = partition.log if own.get(COPIES) == "true" else None
            letters = self._letters(topic.name, dead, source, room, now)
            if not letters:
                break
            room -= len(letters)
            try:
                self._write(queue, index, letters, now)
            except Refusal as refusal:
                self._report(group_id, str(refusal))
        if not dead:
            self._copies = _Copies()

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

    def _letters(self, source: str, dead: list[Dead], log: PartitionLog | None, most: int, now: float) -> list[Record]:
        """Take records of one share partition off the list; return their letters, at most so many. They have key and
        value if there is a `log`, and end where too much of it would be unpacked."""
        place, timestamp = dead[0].place, self._epoch_ms(now)
        letters: list[Record] = []
        done = 0
        while done < len(dead) and dead[done].place == place and len(letters) < most:
            each = dead[done]
            where = (("__dlq.errors.topic", source.encode()), ("__dlq.errors.partition", b"%d" % place.partition))
            reason = (
                ("__dlq.errors.group", place.group_id.encode()),
                ("__dlq.errors.delivery.count", b"%d" % each.delivery_count),
                ("__dlq.errors.message", each.cause.encode()),
            )
            first, last = each.offsets
            for offset in range(first, min(last, first + most - len(letters) - 1) + 1):
                if log is not None and not self._copies.may_read(log, offset):
                    most = 0
                    break
                key, value = (None, None) if log is None else self._copies.at(log, offset)
                headers = (*where, ("__dlq.errors.offset", b"%d" % offset), *reason)
                letters.append(Record(offset, timestamp, key, value, headers))
                first = offset + 1
            if first <= last:
                dead[done] = each._replace(offsets=Offsets(first, last))
            else:
                done += 1
        del dead[:done]
        return letters

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


def _of_first_place(dead: list[Dead]) -> int:
    """Return the number of entries at the beginning that are of one share partition."""
    place = dead[0].place
    return sum(1 for _ in takewhile(lambda each: each.place == place, dead))


class _Copies:
    """Keys and values of the records of logs. The batch that was read last is kept, as records come in order.
    `unpacked` counts the bytes of all since it was set to 0."""

    def __init__(self) -> None:
        self.unpacked = 0
        self._source: PartitionLog | None = None
        self._first, self._last = 0, -1
        self._records: dict[int, tuple[bytes | None, bytes | None]] = {}

    def _has(self, source: PartitionLog, offset: int) -> bool:
        return source is self._source and self._first <= offset <= self._last

    def may_read(self, source: PartitionLog, offset: int) -> bool:
        """Return True if the record is in the batch that was read last, or another one may be unpacked."""
        return self.unpacked < UNPACKED_AT_ONCE or self._has(source, offset)

    def at(self, source: PartitionLog, offset: int) -> tuple[bytes | None, bytes | None]:
        """Return key and value of the record at this offset; None and None if the log does not have it."""
        if not self._has(source, offset):
            self._read(source, offset)
        return self._records.get(offset, (None, None))

    def _read(self, source: PartitionLog, offset: int) -> None:
        self._source, self._first, self._last = source, offset, offset
        self._records = {}
        data = source.read(offset, 1, first_whole=True) if offset >= source.start_offset else b""
        if not data:
            return
        self._last = max(offset, last_offset(data))
        try:
            part = read_batch(data)
            if part is None or part[0].control:
                return
            unpacked = part[0].unpacked()
            self.unpacked += len(unpacked)
            records = part[0].decoded(unpacked)
        except CorruptBatch:
            # A producer may pack records that cannot be unpacked: these letters have headers alone, as in Kafka.
            self.unpacked += UNPACKED_AT_ONCE
            return
        self._records = {each.offset: (each.key, each.value) for each in records}
