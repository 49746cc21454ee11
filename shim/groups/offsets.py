"""OffsetFetch, OffsetDelete and the expiry of offsets in one shard.

The server has already checked the topics and the coordinator; the group checks members and determines the start of
retention. `commits.py` accepts commits.

Source: semantics 3.3, 3.4, 3.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafka_shim.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafka_shim.apis.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.committed_offsets import NO_PARTITIONS, ByPartition
from kafka_shim.groups.group import Attached, Group
from kafka_shim.groups.shard import ExpiryPass, Shard
from kafka_shim.persistence.records import NO_TOPIC_ID, OffsetCommitKey, OffsetCommitValue

_NONE = int(ErrorCode.NONE)
_UNSTABLE_OFFSET_COMMIT = int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
_GROUP_SUBSCRIBED_TO_TOPIC = int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)

LOOKS_AT_ONCE: Final = 10_000
"""Offsets, topics and groups after that a pass of the expiry lets clients be served. A topic is one look at least."""
_ERASURE: Final = 20
"""Looks that take as long as the deletion of a group."""


# Fetch


def fetch(shard: Shard, request: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
    """Fetch the committed offsets of a group; -1, without an error, for a missing one (semantics 3.3).

    An unknown group has no offsets. `topics` None asks for all. An offset that was committed for a deleted topic of the
    same name counts as missing. With `require_stable`, an offset that an open transaction may change is
    UNSTABLE_OFFSET_COMMIT (88) (KIP-447). The group may refuse the member: an error for the whole request.
    """
    shard.outbox.touch(shard)
    group = shard.groups.get(request.group_id)
    if group is not None and (error := group.check_fetch(request.member_id, request.member_epoch)):
        return OffsetFetchResponseGroup(request.group_id, [], error)
    if require_stable and shard.pending.has_group(request.group_id):
        return _stable(shard, request)
    return _fetch(shard, request)


def _fetch(shard: Shard, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    committed = shard.offsets.of(request.group_id)
    if request.topics is None:
        return OffsetFetchResponseGroup(
            request.group_id,
            [
                OffsetFetchResponseTopics(
                    name,
                    NO_TOPIC_ID,
                    [_partition(partition, value) for partition, value in by_partition.items()],
                )
                for name, by_partition in committed.items()
            ],
            _NONE,
        )
    topics = []
    for topic in request.topics:
        topic_id = topic.topic_id
        by_partition = committed.get(topic.name, NO_PARTITIONS)
        partitions = []
        for index in topic.partition_indexes:
            value = by_partition.get(index)
            if value is None or _of_another_topic(value.topic_id, topic_id):
                partitions.append(OffsetFetchResponsePartitions(index, -1, -1, "", _NONE))
            else:
                partitions.append(_partition(index, value))
        topics.append(OffsetFetchResponseTopics(topic.name, topic_id, partitions))
    return OffsetFetchResponseGroup(request.group_id, topics, _NONE)


def _stable(shard: Shard, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """Fetch as `_fetch` does, and mark the unstable offsets."""
    answer = _fetch(shard, request)
    for topic in answer.topics:
        for each in topic.partitions:
            if shard.pending.has(request.group_id, topic.name, each.partition_index):
                each.committed_offset = each.committed_leader_epoch = -1
                each.metadata = ""
                each.error_code = _UNSTABLE_OFFSET_COMMIT
    return answer


def _partition(partition: int, value: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, value.offset, value.leader_epoch, value.metadata, _NONE)


def _of_another_topic(stored: bytes, requested: bytes) -> bool:
    return stored != requested and stored != NO_TOPIC_ID and requested != NO_TOPIC_ID


# Delete


def delete(shard: Shard, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete single offsets; a missing one counts as deleted (semantics 3.5, KIP-496).

    Errors: GROUP_ID_NOT_FOUND (69), NON_EMPTY_GROUP (68) for the whole; GROUP_SUBSCRIBED_TO_TOPIC (86) per partition.
    """
    shard.outbox.touch(shard)
    group = shard.groups.get(request.group_id)
    refusal = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete_offsets()
    if group is None or refusal:
        return OffsetDeleteResponse(int(refusal), 0, [])
    committed = shard.offsets.of(request.group_id)
    topics = []
    for topic in request.topics:
        indexes = [each.partition_index for each in topic.partitions]
        if not indexes:
            continue
        error = _GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(topic.name) else _NONE
        if not error:
            existing = committed.get(topic.name, NO_PARTITIONS)
            for index in indexes:
                if index in existing:
                    shard.write(OffsetCommitKey(request.group_id, topic.name, index), None)
                    shard.counters.offset_deletions += 1
                for key in shard.pending.keys(request.group_id, topic.name, index):
                    shard.write(key, None)
        partitions = [OffsetDeleteResponsePartition(index, error) for index in indexes]
        topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
    return OffsetDeleteResponse(_NONE, 0, topics)


def delete_all(shard: Shard, group_id: str) -> int:
    """Write a tombstone for every offset of a group that is being deleted; return their number.

    Deletes pending offsets too: a later commit of their transaction has no effect here.
    """
    for key in shard.pending.keys_of(group_id):
        shard.write(key, None)
    return _delete_each(shard, shard.offsets.keys_of(group_id))


def delete_topic(shard: Shard, topic: str, topic_id: bytes) -> int:
    """Write a tombstone for every offset in a deleted topic, pending ones too; return their number.

    An offset with the id of another topic of that name stays, if the release looks at ids.
    """
    for_all = not shard.rules.offsets_end_with_topic_id
    for pending in shard.pending.keys_of_topic(topic):
        if for_all or not _of_another_topic(shard.pending.value(pending).offset.topic_id, topic_id):
            shard.write(pending, None)
    keys = shard.offsets.keys_of_topic(topic)
    if not for_all:
        keys = (key for key in keys if not _of_another_topic(shard.offsets.value(key).topic_id, topic_id))
    return _delete_each(shard, keys)


def _delete_each(shard: Shard, keys: Iterator[OffsetCommitKey]) -> int:
    count = 0
    for key in keys:
        shard.write(key, None)
        count += 1
    shard.counters.offset_deletions += count
    return count


# Expiry


def schedule_expiry(shard: Shard, now: float) -> None:
    """Arm the timer of the next pass, in offsets.retention.check.interval.ms."""
    shard.arm(shard.expiry_timer, now + shard.config.offsets_retention_check_interval_ms / 1000)


def expire(shard: Shard, now: float) -> bool:
    """Delete expired offsets, then the groups without any offset; return True if the pass has another part.

    A pass of semantics 3.4, by parts, so that clients are served in between. Offsets in an open transaction stay. An
    Empty group without offsets is deleted at the next pass, at any age.
    """
    if shard.expiry_pass is None:
        shard.expiry_pass = ExpiryPass(list(reversed(shard.groups)))
    under_way = shard.expiry_pass
    looks = LOOKS_AT_ONCE
    while looks > 0 and under_way.groups:
        group = shard.groups.get(under_way.groups[-1])
        if group is not None:
            looks = _expire_of_group(shard, group, under_way, now, looks)
        if group is None or not under_way.topics:
            under_way.groups.pop()
            under_way.topics = None
            looks -= 1
            if group is not None and _delete_if_unused(shard, group):
                looks -= _ERASURE
    if under_way.groups:
        return True
    shard.expiry_pass = None
    return False


def _expire_of_group(shard: Shard, group: Group, under_way: ExpiryPass, now: float, looks: int) -> int:
    """Delete the expired offsets in some topics of a group; return the number of looks left."""
    group_id, wall_ms = group.group_id, shard.wall_ms(now)
    retention_ms = shard.config.offsets_retention_minutes * 60_000
    committed = shard.offsets.of(group_id)
    if under_way.topics is None:
        under_way.topics = list(reversed(committed))
    all_expired: list[OffsetCommitKey] = []
    while looks > 0 and under_way.topics:
        topic = under_way.topics.pop()
        by_partition = committed.get(topic, NO_PARTITIONS)
        looks -= len(by_partition) + 1
        expired = list(_expired(group, topic, by_partition, wall_ms, retention_ms))
        if shard.pending.has_group(group_id):
            expired = [key for key in expired if not shard.pending.has(group_id, key.topic, key.partition)]
        for key in expired:
            shard.write(key, None)
        all_expired += expired
    if all_expired and shard.outbox.listening:
        events.offsets_expired(shard, group_id, all_expired)
    shard.counters.offset_expirations += len(all_expired)
    return looks


def _delete_if_unused(shard: Shard, group: Group) -> bool:
    if group.size or shard.offsets.of(group.group_id) or shard.pending.has_group(group.group_id):
        return False
    if isinstance(group, Attached) and group.let_go():
        return False
    if group.is_disposable:
        group.erase()
        if shard.outbox.listening:
            events.group(shard.outbox, group, "expired")
        return True
    return False


def _expired(
    group: Group, topic: str, by_partition: ByPartition, wall_ms: int, retention_ms: int
) -> Iterator[OffsetCommitKey]:
    if group.is_subscribed(topic):
        return
    for partition, value in by_partition.items():
        since = group.offsets_expire_since(value.commit_timestamp)
        if since is None:
            return
        if wall_ms >= value.expire_timestamp if value.expire_timestamp != -1 else wall_ms - since >= retention_ms:
            yield OffsetCommitKey(group.group_id, topic, partition)
