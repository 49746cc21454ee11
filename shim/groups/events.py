"""Trace events of groups of every kind, and of their offsets: refused commits, transactions, expiry.

Callers check first that the trace has a listener. `shim/trace/schema.py` lists the fields; `commits.py` reports
accepted commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_shim.apis.offset_commit import OffsetCommitRequest
from kafka_shim.groups.group import GroupSummary
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.records import OffsetCommitKey, PendingOffsetKey, PendingOffsetValue


def group(outbox: Outbox, group: GroupSummary, change: str) -> None:
    """Report a group that was created, loaded, unloaded or deleted."""
    outbox.event(
        "group",
        group=group.group_id,
        partition=group.partition,
        change=change,
        state=group.state.value,
        generation=group.generation,
        members=group.size,
    )


def commit_refused(shard: Shard, request: OffsetCommitRequest, error: int) -> None:
    """Report an OffsetCommit that was refused as a whole."""
    shard.outbox.event(
        "commit",
        group=request.group_id,
        partition=shard.partition,
        member_id=request.member_id,
        generation=request.generation_id_or_member_epoch,
        error=int(error),
        offsets=[],
    )


def transaction_offsets(
    shard: Shard, change: str, offsets: Iterable[tuple[PendingOffsetKey, PendingOffsetValue]]
) -> None:
    """Report offsets that became pending or left a transaction at its end."""
    by_group: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for key, value in offsets:
        entry = {"topic": key.topic, "partition": key.partition, "offset": value.offset.offset}
        by_group.setdefault((key.group, key.producer_id, value.producer_epoch), []).append(entry)
    for (group_id, producer_id, producer_epoch), each in by_group.items():
        shard.outbox.event(
            "transaction_offsets",
            group=group_id,
            partition=shard.partition,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            change=change,
            offsets=each,
        )


def committed_by_transaction(shard: Shard, offsets: Iterable[tuple[PendingOffsetKey, PendingOffsetValue]]) -> None:
    """Report pending offsets that were just committed."""
    by_group: dict[str, list[dict[str, Any]]] = {}
    for key, value in offsets:
        entry = {"topic": key.topic, "partition": key.partition, "offset": value.offset.offset}
        by_group.setdefault(key.group, []).append(entry)
    for group_id, each in by_group.items():
        shard.outbox.event(
            "commit", group=group_id, partition=shard.partition, member_id="", generation=-1, error=0, offsets=each
        )


def offsets_expired(shard: Shard, group_id: str, expired: list[OffsetCommitKey]) -> None:
    """Report offsets of a group that have just expired."""
    shard.outbox.event(
        "offsets_expired",
        group=group_id,
        partition=shard.partition,
        offsets=[{"topic": key.topic, "partition": key.partition} for key in expired],
    )
