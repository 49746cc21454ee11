"""What transactions mean to one shard: offsets that are pending until their transaction ends, and transactional ids.

Decides who may commit offsets within a transaction, which pending offset counts when its transaction is committed, and
what an open transaction keeps from being deleted. It does not decide when a transaction ends, nor whether a producer is
the one its transactional id belongs to: that is the transaction coordinator, `shim/broker/transactions.py`.

In Kafka a pending offset is a record in a transactional batch, and the marker that ends the transaction follows it in
the log. Our store keeps the newest record of every key and no order between keys, so a pending offset is a record of
its own kind, keyed by its producer too; the marker is its tombstone, in one batch with the offsets it commits. The
order that Kafka reads from the log, the latest write wins, is kept in `PendingOffsetValue.sequence`.

Source: semantics 3.2, 3.3, 3.5; KIP-98, KIP-447, KIP-890.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafka_shim.apis.txn_offset_commit import error as refuse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import trace
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.classic.states import State
from kafka_shim.groups.timers import Timer, TimerKind
from kafka_shim.persistence.records import (
    OffsetCommitKey,
    OffsetCommitValue,
    PendingOffsetKey,
    PendingOffsetValue,
    TransactionKey,
    TransactionPartitions,
    TransactionValue,
)

if TYPE_CHECKING:
    from kafka_shim.groups.shard import Shard

OVERTAKEN: Final = 0
"""The sequence of a pending offset that was committed otherwise since."""

_NONE: Final = int(ErrorCode.NONE)
_OFFSET_METADATA_TOO_LARGE: Final = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)
_NO_OFFSETS: Final[Mapping[PendingOffsetKey, PendingOffsetValue]] = {}
_NO_PARTITIONS: Final[Mapping[tuple[str, int], None]] = {}


class MarkerEpochs:
    """By producer, the epoch of the coordinator that ended its last transaction somewhere; of the newest producers."""

    __slots__ = ("_epochs",)

    KEPT: Final = 10_000

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}

    def note(self, producer_id: int, epoch: int) -> None:
        self._epochs.pop(producer_id, None)
        self._epochs[producer_id] = epoch
        if len(self._epochs) > self.KEPT:
            del self._epochs[next(iter(self._epochs))]

    def of(self, producer_id: int) -> int:
        """-1 where there is none."""
        return self._epochs.get(producer_id, -1)


class PendingOffsets:
    """The pending offsets of one shard: hard state, changed by records alone, but for `marker_epochs`."""

    __slots__ = ("_by_group", "_by_producer", "marker_epochs", "newest")

    def __init__(self) -> None:
        self.newest = OVERTAKEN
        """The largest sequence there was."""
        self.marker_epochs = MarkerEpochs()
        self._by_producer: dict[int, dict[PendingOffsetKey, PendingOffsetValue]] = {}
        self._by_group: dict[str, dict[tuple[str, int], dict[int, PendingOffsetKey]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def replay(self, key: PendingOffsetKey, value: PendingOffsetValue | None) -> None:
        """Let the record of one pending offset take effect; None as a value is a tombstone."""
        group, topic, partition, producer_id, _ = key
        if value is not None:
            self.newest = max(self.newest, value.sequence)
            self._by_producer.setdefault(producer_id, {})[key] = value
            self._by_group.setdefault(group, {}).setdefault((topic, partition), {})[producer_id] = key
            return
        offsets = self._by_producer.get(producer_id)
        if offsets is None or offsets.pop(key, None) is None:
            return
        if not offsets:
            del self._by_producer[producer_id]
        by_partition = self._by_group[group]
        del by_partition[topic, partition][producer_id]
        if not by_partition[topic, partition]:
            del by_partition[topic, partition]
            if not by_partition:
                del self._by_group[group]

    def of_producer(self, producer_id: int) -> Mapping[PendingOffsetKey, PendingOffsetValue]:
        """The offsets in the producer's open transaction; not to be changed."""
        return self._by_producer.get(producer_id, _NO_OFFSETS)

    def has_group(self, group_id: str) -> bool:
        """Whether a transaction is open that has an offset of the group."""
        return group_id in self._by_group

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction is open that has this offset."""
        by_partition = self._by_group.get(group_id)
        return by_partition is not None and (topic, partition) in by_partition

    def keys(self, group_id: str, topic: str, partition: int) -> list[PendingOffsetKey]:
        """A key for each open transaction that has this offset."""
        return list(self._by_group.get(group_id, {}).get((topic, partition), {}).values())

    def keys_of(self, group_id: str) -> list[PendingOffsetKey]:
        """A key for each pending offset of a group."""
        return [key for keys in self._by_group.get(group_id, {}).values() for key in keys.values()]

    def keys_of_topic(self, topic: str) -> Iterator[PendingOffsetKey]:
        """A key for each pending offset any group has in a topic; what is yielded may be deleted on the way."""
        for offsets in list(self._by_producer.values()):
            yield from [key for key in offsets if key.topic == topic]

    def value(self, key: PendingOffsetKey) -> PendingOffsetValue:
        """The pending offset of a key that is there."""
        return self._by_producer[key.producer_id][key]


def is_within(shard: Shard, producer_id: int, producer_epoch: int) -> bool:
    """Whether the producer's open transaction has offsets here already, so that nobody need be asked again."""
    return any(value.producer_epoch == producer_epoch for value in shard.pending.of_producer(producer_id).values())


def commit(shard: Shard, request: TxnOffsetCommitRequest, now: float) -> TxnOffsetCommitResponse:
    """Accept or refuse offsets of a group in a producer's transaction (semantics 3.2).

    Errors: COORDINATOR_NOT_AVAILABLE (15), ILLEGAL_GENERATION (22), UNKNOWN_MEMBER_ID (25), FENCED_INSTANCE_ID (82) for
    all; OFFSET_METADATA_TOO_LARGE (12) for single partitions.
    """
    group_id = request.group_id
    group = shard.groups.get(group_id)
    if group is not None:
        error = _check(group, request)
    elif request.generation_id < 0:
        shard.obtain(group_id)
        error = ErrorCode.NONE
    else:
        error = ErrorCode.ILLEGAL_GENERATION
    if error:
        return refuse(request, int(error))
    limit = shard.config.offset_metadata_max_bytes
    timestamp = shard.wall_ms(now)
    written: list[tuple[PendingOffsetKey, PendingOffsetValue]] = []
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            metadata = asked.committed_metadata or ""
            if len(metadata.encode("utf-16-le")) // 2 > limit:
                partitions.append(TxnOffsetCommitResponsePartition(asked.partition_index, _OFFSET_METADATA_TOO_LARGE))
                continue
            offset = OffsetCommitValue(asked.committed_offset, asked.committed_leader_epoch, metadata, timestamp)
            key = PendingOffsetKey(group_id, topic.name, asked.partition_index, request.producer_id)
            value = PendingOffsetValue(request.producer_epoch, shard.pending.newest + 1, offset)
            shard.write(key, value)
            written.append((key, value))
            shard.counters.offset_commits += 1
            partitions.append(TxnOffsetCommitResponsePartition(asked.partition_index, _NONE))
        topics.append(TxnOffsetCommitResponseTopic(topic.name, partitions))
    if shard.outbox.listening:
        trace.transaction_offsets(shard, "pending", written)
    return TxnOffsetCommitResponse(topics=topics)


def _check(group: ClassicGroup, request: TxnOffsetCommitRequest) -> ErrorCode:
    if group.state is State.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if request.generation_id < 0:
        # Before KIP-447 a producer said nothing of the group it commits for.
        nobody = not request.member_id and request.group_instance_id is None
        if nobody or group.state is State.EMPTY:
            return ErrorCode.NONE
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    return ErrorCode.NONE if request.generation_id == group.generation else ErrorCode.ILLEGAL_GENERATION


def end(shard: Shard, producer_id: int, coordinator_epoch: int, *, committed: bool) -> None:
    """A producer's transaction has ended: its offsets become the group's, those that came later stay; or they go.

    A producer without a transaction here has nothing to end.
    """
    shard.outbox.touch(shard)
    shard.pending.marker_epochs.note(producer_id, coordinator_epoch)
    ended = list(shard.pending.of_producer(producer_id).items())
    counts = [each for each in ended if committed and each[1].sequence != OVERTAKEN]
    for key, _ in ended:
        shard.write(key, None)
    for key, (_, sequence, offset) in counts:
        shard.write(OffsetCommitKey(key.group, key.topic, key.partition), offset)
        overtake(shard, key.group, key.topic, key.partition, before=sequence)
    if shard.outbox.listening:
        trace.transaction_offsets(shard, "committed" if committed else "aborted", ended)
        trace.committed_by_transaction(shard, counts)


def overtake(shard: Shard, group_id: str, topic: str, partition: int, *, before: int | None = None) -> None:
    """An offset was committed: pending ones that are older, than `before` if given, come too late from now on."""
    for key in shard.pending.keys(group_id, topic, partition):
        value = shard.pending.value(key)
        if value.sequence != OVERTAKEN and (before is None or value.sequence < before):
            shard.write(key, value._replace(sequence=OVERTAKEN))


# Transactional ids


class Status(IntEnum):
    """State of a transactional id, by Kafka's numbers. What is prepared is decided, and not all have been told."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


class Transaction:
    """A transactional id, and its open or last transaction: hard state but for the timer, the previous producer, and
    how far the telling of a decision is.

    `last_producer` is the id and epoch before the newest ones, by which a producer that did not hear the answer of its
    InitProducerId is known again (KIP-360); it is forgotten with the process, as in Kafka. While a decision is carried
    out `producer_epoch` is that of its markers, and `next_producer_id` the id that follows if the epoch was the last,
    else -1. `ending` is an object of its own for each decision; `untold` are the partitions that do not know of it, and
    `asked` those of them that another process is asked to tell.
    """

    __slots__ = (
        "asked",
        "ending",
        "last_producer",
        "next_producer_id",
        "partitions",
        "producer_epoch",
        "producer_id",
        "status",
        "timeout_ms",
        "timer",
        "untold",
        "updated_ms",
    )

    def __init__(self, transactional_id: str, partition: int) -> None:
        self.producer_id = -1
        self.producer_epoch = -1
        self.next_producer_id = -1
        self.timeout_ms = 0
        self.updated_ms = 0
        """Unix time of the last change."""
        self.status = Status.EMPTY
        self.partitions: dict[tuple[str, int], None] = {}
        self.ending: object | None = None
        self.untold: set[tuple[str, int]] = set()
        self.asked: set[tuple[str, int]] = set()
        self.last_producer = (-1, -1)
        self.timer = Timer(TimerKind.TRANSACTION, partition, transactional_id)

    @property
    def is_ongoing(self) -> bool:
        return self.status is Status.ONGOING

    @property
    def is_prepared(self) -> bool:
        """Decided, and not everybody has been told."""
        return self.status in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def is_committed(self) -> bool:
        """What was decided, or was in the end."""
        return self.status in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT)


def replay_transaction(shard: Shard, key: TransactionKey, value: TransactionValue | None) -> None:
    """Let the record of a transactional id take effect."""
    transactional_id = key.transactional_id
    transaction = shard.transactions.get(transactional_id)
    if value is None:
        if transaction is not None:
            shard.cancel(transaction.timer)
            del shard.transactions[transactional_id]
        return
    if transaction is None:
        transaction = shard.transactions[transactional_id] = Transaction(transactional_id, shard.partition)
    transaction.producer_id = value.producer_id
    transaction.producer_epoch = value.producer_epoch
    transaction.next_producer_id = value.next_producer_id
    transaction.timeout_ms = value.transaction_timeout_ms
    transaction.updated_ms = value.transaction_last_update_timestamp_ms
    transaction.status = Status(value.transaction_status)
    transaction.partitions = {
        (topic.topic, partition): None for topic in value.transaction_partitions for partition in topic.partition_ids
    }
    transaction.ending = object() if transaction.is_prepared else None
    transaction.untold = set(transaction.partitions) if transaction.is_prepared else set()
    transaction.asked = set()


def write_transaction(
    shard: Shard,
    transactional_id: str,
    now: float,
    *,
    producer: tuple[int, int],
    timeout_ms: int,
    status: Status,
    partitions: Mapping[tuple[str, int], None] = _NO_PARTITIONS,
    next_producer_id: int = -1,
) -> None:
    """Write the record of a transactional id; its timer runs while a transaction is open."""
    known = shard.transactions.get(transactional_id)
    was_ongoing = known is not None and known.is_ongoing
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    shard.write(
        TransactionKey(transactional_id),
        TransactionValue(
            producer_id=producer[0],
            next_producer_id=next_producer_id,
            producer_epoch=producer[1],
            transaction_timeout_ms=timeout_ms,
            transaction_status=status,
            transaction_partitions=[TransactionPartitions(*each) for each in by_topic.items()],
            transaction_last_update_timestamp_ms=shard.wall_ms(now),
            transaction_start_timestamp_ms=shard.wall_ms(now) if status is Status.ONGOING else -1,
        ),
    )
    timer = shard.transactions[transactional_id].timer
    if status is not Status.ONGOING:
        shard.cancel(timer)
    elif not was_ongoing:
        shard.arm(timer, now + timeout_ms / 1000)


def activate(shard: Shard, now: float) -> None:
    """Transactions that were open when the shard was loaded have their whole time again; what was decided is due."""
    for transaction in shard.transactions.values():
        if transaction.is_ongoing:
            shard.arm(transaction.timer, now + transaction.timeout_ms / 1000)
        elif transaction.is_prepared:
            shard.arm(transaction.timer, now)


def resign(shard: Shard) -> None:
    """The shard is this node's no more."""
    for transaction in shard.transactions.values():
        shard.cancel(transaction.timer)
