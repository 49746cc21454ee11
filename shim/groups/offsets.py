"""Committed offsets of one shard: fetch, delete, and when they go away by themselves.

Decides what a fetch shows and which offsets have expired. It does not know versions of requests, which topics exist, or
who coordinates the group: `handle` functions and `service.py` have asked that before; nor who may commit, which is in
`commits.py`. A committed offset changes in `Offsets.replay` alone, whether its record was just written or is read back.

Source: semantics 3.3, 3.4, 3.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

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
from kafka_shim.groups import trace
from kafka_shim.groups.classic.group import CONSUMER, ClassicGroup
from kafka_shim.groups.classic.states import State
from kafka_shim.persistence.records import NO_TOPIC_ID, OffsetCommitKey, OffsetCommitValue

if TYPE_CHECKING:
    from kafka_shim.groups.shard import Shard

ByPartition: TypeAlias = dict[int, OffsetCommitValue]
ByTopic: TypeAlias = dict[str, ByPartition]

_NONE = int(ErrorCode.NONE)
_UNSTABLE_OFFSET_COMMIT = int(ErrorCode.UNSTABLE_OFFSET_COMMIT)
_GROUP_SUBSCRIBED_TO_TOPIC = int(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
_NO_TOPICS: ByTopic = {}
_NO_PARTITIONS: ByPartition = {}


class Offsets:
    """The committed offsets of one shard: hard state, changed by records alone."""

    __slots__ = ("_groups", "count")

    def __init__(self) -> None:
        self._groups: dict[str, ByTopic] = {}
        self.count = 0
        """How many there are, over all groups."""

    def of(self, group_id: str) -> ByTopic:
        """The offsets of a group by topic and partition; not to be changed."""
        return self._groups.get(group_id, _NO_TOPICS)

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        """Let the record of one offset take effect; None as a value is a tombstone."""
        group_id, topic, partition, _ = key
        if value is None:
            self._remove(group_id, topic, partition)
            return
        by_partition = self._of_topic(group_id, topic)
        if partition not in by_partition:
            self.count += 1
        by_partition[partition] = value

    def replay_all(self, records: Iterable[tuple[int, OffsetCommitKey, OffsetCommitValue]]) -> None:
        """What `replay` does to each record, with one look-up for records of one topic in a row."""
        group_id = topic = None
        by_partition = _NO_PARTITIONS
        for _, key, value in records:
            if key[1] != topic or key[0] != group_id:
                group_id, topic = key[0], key[1]
                by_partition = self._of_topic(group_id, topic)
            partition = key[2]
            if partition not in by_partition:
                self.count += 1
            by_partition[partition] = value

    def _of_topic(self, group_id: str, topic: str) -> ByPartition:
        by_topic = self._groups.get(group_id)
        if by_topic is None:
            by_topic = self._groups[group_id] = {}
        by_partition = by_topic.get(topic)
        if by_partition is None:
            by_partition = by_topic[topic] = {}
        return by_partition

    def _remove(self, group_id: str, topic: str, partition: int) -> None:
        by_topic = self.of(group_id)
        by_partition = by_topic.get(topic, _NO_PARTITIONS)
        if partition not in by_partition:
            return
        self.count -= 1
        del by_partition[partition]
        if not by_partition:
            del by_topic[topic]
            if not by_topic:
                del self._groups[group_id]

    def keys_of(self, group_id: str) -> Iterator[OffsetCommitKey]:
        """A key for each offset of a group; what is yielded may be deleted on the way."""
        for topic, by_partition in list(self.of(group_id).items()):
            for partition in list(by_partition):
                yield OffsetCommitKey(group_id, topic, partition)

    def keys_of_topic(self, topic: str) -> Iterator[OffsetCommitKey]:
        """A key for each offset any group has in a topic; what is yielded may be deleted on the way."""
        for group_id, by_topic in list(self._groups.items()):
            for partition in list(by_topic.get(topic, _NO_PARTITIONS)):
                yield OffsetCommitKey(group_id, topic, partition)


# Fetch


def fetch(shard: Shard, asked: OffsetFetchRequestGroup, *, require_stable: bool) -> OffsetFetchResponseGroup:
    """The committed offsets of a group; -1, without an error, where there is none (semantics 3.3).

    A group that does not exist has none. `topics` None asks for all. An offset that was committed for another topic of
    the same name, by topic id, is not shown. With `require_stable`, one that an open transaction may change is
    UNSTABLE_OFFSET_COMMIT (88) (KIP-447).
    """
    shard.outbox.touch(shard)
    if require_stable and shard.pending.has_group(asked.group_id):
        return _stable(shard, asked)
    committed = shard.offsets.of(asked.group_id)
    if asked.topics is None:
        return OffsetFetchResponseGroup(
            asked.group_id,
            [
                OffsetFetchResponseTopics(
                    name, NO_TOPIC_ID, [_shown(partition, value) for partition, value in by_partition.items()]
                )
                for name, by_partition in committed.items()
            ],
            _NONE,
        )
    topics = []
    for topic in asked.topics:
        topic_id = topic.topic_id
        by_partition = committed.get(topic.name, _NO_PARTITIONS)
        partitions = []
        for index in topic.partition_indexes:
            value = by_partition.get(index)
            if value is None or _of_another_topic(value.topic_id, topic_id):
                partitions.append(OffsetFetchResponsePartitions(index, -1, -1, "", _NONE))
            else:
                partitions.append(_shown(index, value))
        topics.append(OffsetFetchResponseTopics(topic.name, topic_id, partitions))
    return OffsetFetchResponseGroup(asked.group_id, topics, _NONE)


def _stable(shard: Shard, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """What is shown without minding transactions, but for what is unstable."""
    answer = fetch(shard, asked, require_stable=False)
    for topic in answer.topics:
        for each in topic.partitions:
            if shard.pending.has(asked.group_id, topic.name, each.partition_index):
                each.committed_offset = each.committed_leader_epoch = -1
                each.metadata = ""
                each.error_code = _UNSTABLE_OFFSET_COMMIT
    return answer


def _shown(partition: int, value: OffsetCommitValue) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, value.offset, value.leader_epoch, value.metadata, _NONE)


def _of_another_topic(stored: bytes, asked: bytes) -> bool:
    return stored != asked and stored != NO_TOPIC_ID and asked != NO_TOPIC_ID


# Delete


def delete(shard: Shard, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """Delete single offsets; an offset that is not there is deleted all the same (semantics 3.5, KIP-496).

    Errors: GROUP_ID_NOT_FOUND (69), NON_EMPTY_GROUP (68) for the whole; GROUP_SUBSCRIBED_TO_TOPIC (86) per partition.
    """
    shard.outbox.touch(shard)
    group = shard.groups.get(request.group_id)
    if group is None or group.state is State.DEAD:
        return OffsetDeleteResponse(int(ErrorCode.GROUP_ID_NOT_FOUND), 0, [])
    if group.state is not State.EMPTY and group.protocol_type != CONSUMER:
        return OffsetDeleteResponse(int(ErrorCode.NON_EMPTY_GROUP), 0, [])
    committed = shard.offsets.of(request.group_id)
    topics = []
    for topic in request.topics:
        indexes = [asked.partition_index for asked in topic.partitions]
        error = _GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(topic.name) else _NONE
        if not error:
            there = committed.get(topic.name, _NO_PARTITIONS)
            for index in indexes:
                if index in there:
                    shard.write(OffsetCommitKey(request.group_id, topic.name, index), None)
                    shard.counters.offset_deletions += 1
                for key in shard.pending.keys(request.group_id, topic.name, index):
                    shard.write(key, None)
        partitions = [OffsetDeleteResponsePartition(index, error) for index in indexes]
        topics.append(OffsetDeleteResponseTopic(topic.name, partitions))
    return OffsetDeleteResponse(_NONE, 0, topics)


def delete_all(shard: Shard, group_id: str) -> int:
    """Write a tombstone for every offset of a group that is being deleted; returns how many there were.

    Pending offsets go too: a transaction that is committed later has nothing to commit here.
    """
    for key in shard.pending.keys_of(group_id):
        shard.write(key, None)
    return _delete_each(shard, shard.offsets.keys_of(group_id))


def delete_topic(shard: Shard, topic: str) -> int:
    """Write a tombstone for every offset in a topic that was deleted, pending ones too; returns how many there were."""
    for key in shard.pending.keys_of_topic(topic):
        shard.write(key, None)
    return _delete_each(shard, shard.offsets.keys_of_topic(topic))


def _delete_each(shard: Shard, keys: Iterator[OffsetCommitKey]) -> int:
    count = 0
    for key in keys:
        shard.write(key, None)
        count += 1
    shard.counters.offset_deletions += count
    return count


# Expiry


def schedule_expiry(shard: Shard, now: float) -> None:
    """The next pass is one offsets.retention.check.interval.ms from now."""
    shard.arm(shard.expiry_timer, now + shard.config.offsets_retention_check_interval_ms / 1000)


def expire(shard: Shard, now: float) -> int:
    """Delete the offsets that have expired, then the groups that are left with nothing; returns how many offsets.

    One pass of semantics 3.4. What a transaction is open for stays. A group that is Empty and has no offsets goes at
    the next pass, however young it is; but not one that was made ahead of its first member.
    """
    wall_ms = shard.wall_ms(now)
    retention_ms = shard.config.offsets_retention_minutes * 60_000
    total = 0
    for group in list(shard.groups.values()):
        group_id = group.group_id
        expired = list(_expired(group, shard.offsets.of(group_id), wall_ms, retention_ms))
        if shard.pending.has_group(group_id):
            expired = [key for key in expired if not shard.pending.has(group_id, key.topic, key.partition)]
        for key in expired:
            shard.write(key, None)
        if expired and shard.outbox.listening:
            trace.offsets_expired(shard, group_id, expired)
        total += len(expired)
        if (
            group.state is State.EMPTY
            and not group.is_awaited
            and not shard.offsets.of(group_id)
            and not shard.pending.has_group(group_id)
        ):
            shard.erase(group)
            if shard.outbox.listening:
                trace.group(shard.outbox, group, "expired")
    shard.counters.offset_expirations += total
    return total


def _expired(group: ClassicGroup, committed: ByTopic, wall_ms: int, retention_ms: int) -> Iterator[OffsetCommitKey]:
    for topic, by_partition in committed.items():
        if group.is_subscribed(topic):
            continue
        for partition, value in by_partition.items():
            since = group.offsets_expire_since(value.commit_timestamp)
            if since is None:
                return
            if wall_ms >= value.expire_timestamp if value.expire_timestamp != -1 else wall_ms - since >= retention_ms:
                yield OffsetCommitKey(group.group_id, topic, partition)
