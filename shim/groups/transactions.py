"""Transactions in one shard: pending offsets and the records of transactional ids.

Checks commits of offsets within a transaction, and applies those that count when it is committed. The transaction
coordinator, `shim/broker/transactions.py`, ends transactions and checks producers.

In Kafka a pending offset is a record in a transactional batch, and the marker that ends the transaction follows it in
the log. Our store keeps the newest record of every key and no order between keys, so a pending offset is a record of
its own kind, with its producer in the key; the marker is its tombstone, in one batch with the offsets that it commits.
`PendingOffsetValue.sequence` replaces the order of Kafka's log, by which the latest write wins.

Source: semantics 3.2, 3.3, 3.5; KIP-98, KIP-447, KIP-890.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_shim.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kafka_shim.apis.txn_offset_commit import error as refuse
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.group import LateCommits
from kafka_shim.groups.pending_offsets import OVERTAKEN
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.transactional_ids import Status
from kafka_shim.persistence.records import (
    NO_TOPIC_ID,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingOffsetKey,
    PendingOffsetValue,
    TransactionKey,
    TransactionPartitions,
    TransactionValue,
)

MAX_PENDING: Final = 10_000
"""Most pending offsets of one producer in a partition of `__consumer_offsets`: their end is one step, because readers
see all of it or nothing."""

_NONE: Final = int(ErrorCode.NONE)
_OTHER_EPOCH: Final = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)
_OFFSET_METADATA_TOO_LARGE: Final = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)
_NO_PARTITIONS: Final[Mapping[tuple[str, int], None]] = {}


def is_within(shard: Shard, producer_id: int, producer_epoch: int) -> bool:
    """Return True if the producer's open transaction already has offsets here, and so was verified before."""
    return any(value.producer_epoch == producer_epoch for value in shard.pending.of_producer(producer_id).values())


def commit(
    shard: Shard, request: TxnOffsetCommitRequest, now: float, *, epoch_errors: bool = False
) -> TxnOffsetCommitResponse:
    """Accept or refuse offsets of a group in a producer's transaction (semantics 3.2).

    Errors for all: COORDINATOR_NOT_AVAILABLE (15), ILLEGAL_GENERATION (22), UNKNOWN_MEMBER_ID (25), FENCED_INSTANCE_ID
    (82), or UNKNOWN_SERVER_ERROR (-1) if the records are too large together, or more than `MAX_PENDING` with those
    before; OFFSET_METADATA_TOO_LARGE (12) for single partitions. `epoch_errors`: v6+ knows GROUP_ID_NOT_FOUND (69) and
    STALE_MEMBER_EPOCH (113), which are 22 before.
    """
    group_id = request.group_id
    group = shard.groups.get(group_id)
    if group is not None:
        error = group.check_commit_in_transaction(request.member_id, request.group_instance_id, request.generation_id)
        if error in _OTHER_EPOCH and isinstance(group, LateCommits):
            places = ((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
            if group.allows_late_commit(request.member_id, request.generation_id, places):
                error = ErrorCode.NONE
    else:
        missing = ErrorCode.GROUP_ID_NOT_FOUND if epoch_errors else ErrorCode.ILLEGAL_GENERATION
        error = ErrorCode.NONE if request.generation_id < 0 else missing
    if error is ErrorCode.STALE_MEMBER_EPOCH and not epoch_errors:
        error = ErrorCode.ILLEGAL_GENERATION
    if error:
        return refuse(request, int(error))
    limit = shard.config.offset_metadata_max_bytes
    timestamp = shard.wall_ms(now)
    sequence = shard.pending.newest
    pending: list[tuple[PendingOffsetKey, PendingOffsetValue]] = []
    topics = []
    ids_are_stored = shard.rules.ids_in_transactions
    for topic in request.topics:
        partitions = []
        topic_id = (shard.topics.topic_id(topic.name) if ids_are_stored else None) or NO_TOPIC_ID
        for each in topic.partitions:
            metadata = each.committed_metadata or ""
            if len(metadata.encode("utf-16-le")) // 2 > limit:
                partitions.append(TxnOffsetCommitResponsePartition(each.partition_index, _OFFSET_METADATA_TOO_LARGE))
                continue
            offset = OffsetCommitValue(
                each.committed_offset, each.committed_leader_epoch, metadata, timestamp, topic_id=topic_id
            )
            key = PendingOffsetKey(group_id, topic.name, each.partition_index, request.producer_id)
            sequence += 1
            pending.append((key, PendingOffsetValue(request.producer_epoch, sequence, offset)))
            partitions.append(TxnOffsetCommitResponsePartition(each.partition_index, _NONE))
        topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, partitions))
    records = [(OffsetCommitKey(group_id, key.topic, key.partition), value.offset) for key, value in pending]
    present = shard.pending.of_producer(request.producer_id)
    count = len(present) + sum(key not in present for key, _ in pending)
    if count > MAX_PENDING or not shard.has_room_for(records):
        return refuse(request, int(ErrorCode.UNKNOWN_SERVER_ERROR))
    if group is None:
        shard.make_simple(group_id)
    for key, value in pending:
        shard.write(key, value)
    shard.counters.offset_commits += len(pending)
    if shard.outbox.listening:
        events.transaction_offsets(shard, "pending", pending)
    return TxnOffsetCommitResponse(topics=topics)


def end(shard: Shard, producer_id: int, coordinator_epoch: int, *, committed: bool) -> None:
    """End a producer's transaction: commit its pending offsets, except where a later commit won, or drop them.

    Does nothing if the producer has no transaction here.
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
        events.transaction_offsets(shard, "committed" if committed else "aborted", ended)
        events.committed_by_transaction(shard, counts)


def overtake(shard: Shard, group_id: str, topic: str, partition: int, *, before: int | None = None) -> None:
    """Mark pending offsets of a partition as overwritten by a commit; with `before`, only those of lower sequence."""
    for key in shard.pending.keys(group_id, topic, partition):
        value = shard.pending.value(key)
        if value.sequence != OVERTAKEN and (before is None or value.sequence < before):
            shard.write(key, value._replace(sequence=OVERTAKEN))


# Transactional ids


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
    before = shard.transactions.get(transactional_id)
    was_ongoing = before is not None and before.is_ongoing
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    started_ms = before.started_ms if before is not None else -1
    if status is Status.EMPTY:
        started_ms = -1
    elif not was_ongoing and (status is Status.ONGOING or started_ms == -1):
        started_ms = shard.wall_ms(now)
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
            transaction_start_timestamp_ms=started_ms,
        ),
    )
    timer = shard.transactions[transactional_id].timer
    if status is not Status.ONGOING:
        shard.cancel(timer)
    elif not was_ongoing:
        shard.arm(timer, now + timeout_ms / 1000)


def activate(shard: Shard, now: float) -> None:
    """Restart the timers after a load: the full timeout for open transactions, at once for decided ones."""
    for transaction in shard.transactions.values():
        if transaction.is_ongoing:
            shard.arm(transaction.timer, now + transaction.timeout_ms / 1000)
        elif transaction.is_prepared:
            shard.arm(transaction.timer, now)


def resign(shard: Shard) -> None:
    """Cancel the timers of a shard that moves to another node."""
    for transaction in shard.transactions.values():
        shard.cancel(transaction.timer)
