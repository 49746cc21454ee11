"""Plain OffsetCommit: checks, and the records of accepted offsets.

The server and `service.py` have already checked the topics and the coordinator.

A member commits the same partitions repeatedly, and only the offsets differ. So a commit has two parts: a `Commit` with
the sender, the partitions and the metadata, and the offsets beside it. `repeat` accepts new offsets for a `Commit` that
was accepted before, by the same steps.

Source: semantics 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse, accepted
from kafka_shim.apis.offset_commit import error as refused_with
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events, transactions
from kafka_shim.groups.group import Group, LateCommits
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.recent_commits import RECORD
from kafka_shim.persistence.records import NO_TOPIC_ID, OffsetCommitKey, OffsetCommitValue, OffsetCommitValues
from kafka_shim.trace.templates import HOLE, Template, template

_T = TypeVar("_T")
_tuple = tuple.__new__
_NONE = int(ErrorCode.NONE)
_UNKNOWN_SERVER_ERROR = int(ErrorCode.UNKNOWN_SERVER_ERROR)
_OTHER_EPOCH = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)
_OFFSET_METADATA_TOO_LARGE = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)


_MAX_TOGETHER = 256
"""Up to this number the offsets of a commit are stored as one object, which lives while any of them is the newest of
its partition."""
_EXPIRE_BY_SETTING = {count: (-1,) * count for count in range(_MAX_TOGETHER + 1)}
"""Expire timestamps by number of offsets, for offsets with the retention of the setting."""
_BATCH_BYTES = 61
_CHARACTER_BYTES = 4
"""Upper bound for the bytes of a character."""


class Commit:
    """Commit without its offsets: the sender, and for each offset its key, leader epoch, metadata, timestamp (-1 for
    the time of the commit) and topic id.

    `places` has the index of each key in `keys`. `member_epochs`: the version of the request has member epochs (v9+).
    `repeats`: it was accepted before. `event_template` is the template of its trace event, from its second acceptance
    on.
    """

    __slots__ = (
        "generation",
        "group_id",
        "group_instance_id",
        "keys",
        "leader_epochs",
        "member_epochs",
        "member_id",
        "metadata",
        "places",
        "repeats",
        "retention_ms",
        "size_bound",
        "timestamps",
        "topic_ids",
        "event_template",
    )

    def __init__(self, request: OffsetCommitRequest, shard: Shard, *, member_epochs: bool) -> None:
        group_id = request.group_id
        id_of = shard.topics.topic_id if shard.rules.ids_in_commits else None
        self.size_bound = _BATCH_BYTES
        """Upper bound for the bytes of its records."""
        keys: list[OffsetCommitKey] = []
        leader_epochs: list[int] = []
        metadata: list[str] = []
        timestamps: list[int] = []
        topic_ids: list[bytes] = []
        for topic in request.topics:
            name = topic.name
            partitions = topic.partitions
            self.size_bound += len(partitions) * (RECORD + _CHARACTER_BYTES * (len(group_id) + len(name)))
            # Avoids the call of the named tuple's constructor: a commit has some ten keys.
            keys += [_tuple(OffsetCommitKey, (group_id, name, each.partition_index, 1)) for each in partitions]
            leader_epochs += [each.committed_leader_epoch for each in partitions]
            metadata += [each.committed_metadata or "" for each in partitions]
            timestamps += [each.commit_timestamp for each in partitions]
            topic_id = topic.topic_id
            if id_of is not None and topic_id == NO_TOPIC_ID:
                topic_id = id_of(name) or NO_TOPIC_ID
            topic_ids += [topic_id] * len(partitions)
        self.group_id = group_id
        self.generation = request.generation_id_or_member_epoch
        self.member_id = request.member_id
        self.group_instance_id = request.group_instance_id
        self.member_epochs = member_epochs
        self.retention_ms = request.retention_time_ms
        self.keys: Sequence[OffsetCommitKey] = keys
        self.places = dict(zip(keys, range(len(keys)), strict=True))
        self.leader_epochs: Sequence[int] = leader_epochs
        self.metadata: Sequence[str] = metadata
        if any(metadata):
            self.size_bound += _CHARACTER_BYTES * sum(map(len, metadata))
        self.timestamps: Sequence[int] | None = timestamps if any(each != -1 for each in timestamps) else None
        """None if all are -1."""
        self.topic_ids: Sequence[bytes] = topic_ids
        self.event_template: Template | None = None
        self.repeats = False

    def _set_keys(self, keys: Sequence[OffsetCommitKey]) -> None:
        self.keys = keys
        self.places = dict(zip(keys, range(len(keys)), strict=True))

    def with_keys(self, keys: Sequence[OffsetCommitKey], leader_epochs: Sequence[int]) -> Commit:
        """Return the same commit for other partitions of the same topics."""
        other: Commit = object.__new__(Commit)
        other.group_id = self.group_id
        other.generation = self.generation
        other.member_id = self.member_id
        other.group_instance_id = self.group_instance_id
        other.member_epochs = self.member_epochs
        other.retention_ms = self.retention_ms
        other.size_bound = self.size_bound
        other._set_keys(keys)
        other.leader_epochs = leader_epochs
        other.metadata = self.metadata
        other.timestamps = self.timestamps
        other.topic_ids = self.topic_ids
        other.event_template = None
        other.repeats = False
        return other

    def remove_refused(self, refused: Sequence[bool]) -> None:
        """Remove the refused offsets."""

        def remaining(values: Sequence[_T]) -> list[_T]:
            return [value for value, is_refused in zip(values, refused, strict=True) if not is_refused]

        self._set_keys(remaining(self.keys))
        self.leader_epochs = remaining(self.leader_epochs)
        self.metadata, self.topic_ids = remaining(self.metadata), remaining(self.topic_ids)
        self.timestamps = None if self.timestamps is None else remaining(self.timestamps)

    def too_large(self, limit: int) -> list[bool]:
        """Return for each offset if its metadata is longer than `limit`; [] if no offset has metadata."""
        if not any(self.metadata):
            return []
        return [_utf16_length(text) > limit for text in self.metadata]

    def has_room(self, shard: Shard) -> bool:
        """Return True if its records fit into one batch, for any offsets."""
        if self.size_bound <= shard.topics.max_batch_bytes:
            return True
        records = [
            (key, OffsetCommitValue(0, leader_epoch, metadata, 0, -1, topic_id))
            for key, leader_epoch, metadata, topic_id in zip(
                self.keys, self.leader_epochs, self.metadata, self.topic_ids, strict=True
            )
        ]
        return shard.has_room_for(records)


def commit(
    shard: Shard, request: OffsetCommitRequest, now: float, *, unknown_group_is_69: bool
) -> OffsetCommitResponse:
    """Accept or refuse a plain OffsetCommit. An error of the group is the error of every partition.

    Errors for all: ILLEGAL_GENERATION (22), GROUP_ID_NOT_FOUND (69), UNKNOWN_SERVER_ERROR (-1) if its records are too
    large together, or an error of the group's check; OFFSET_METADATA_TOO_LARGE (12) for single partitions.
    """
    group = shard.groups.get(request.group_id)
    if group is None:
        if request.generation_id_or_member_epoch >= 0:
            error = ErrorCode.GROUP_ID_NOT_FOUND if unknown_group_is_69 else ErrorCode.ILLEGAL_GENERATION
        else:
            error = ErrorCode.NONE
    else:
        error = group.check_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            member_epochs=unknown_group_is_69,
        )
        if error in _OTHER_EPOCH and _is_late(group, request):
            error = ErrorCode.NONE
    if error:
        if shard.outbox.listening:
            events.commit_refused(shard, request, error)
        return refused_with(request, int(error))
    content = Commit(request, shard, member_epochs=unknown_group_is_69)
    offsets = [each.committed_offset for topic in request.topics for each in topic.partitions]
    answer = accepted(request)
    too_large = content.too_large(shard.config.offset_metadata_max_bytes) if any(content.metadata) else []
    if any(too_large):
        content.remove_refused(too_large)
        offsets = [offset for offset, refused in zip(offsets, too_large, strict=True) if not refused]
        answers = [each for topic in answer.topics for each in topic.partitions]
        for each, refused in zip(answers, too_large, strict=True):
            each.error_code = _OFFSET_METADATA_TOO_LARGE if refused else _NONE
    if content.size_bound > shard.topics.max_batch_bytes and not content.has_room(shard):
        if group is not None:
            group.renew(content.member_id, now)
        if shard.outbox.listening:
            events.commit_refused(shard, request, _UNKNOWN_SERVER_ERROR)
        return refused_with(request, _UNKNOWN_SERVER_ERROR)
    if group is None:
        group = shard.make_simple(request.group_id)
    _accept(shard, group, content, offsets, now)
    return answer


def _is_late(group: Group, request: OffsetCommitRequest) -> bool:
    """Return True if the group accepts this commit of an older epoch."""
    partitions = ((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    return isinstance(group, LateCommits) and group.allows_late_commit(
        request.member_id, request.generation_id_or_member_epoch, partitions
    )


def repeatable(shard: Shard, request: OffsetCommitRequest, *, member_epochs: bool) -> Commit | None:
    """Return the commit for `repeat`, or None if its metadata or its records are too large."""
    commit = Commit(request, shard, member_epochs=member_epochs)
    return (
        None if any(commit.too_large(shard.config.offset_metadata_max_bytes)) or not commit.has_room(shard) else commit
    )


def repeat(shard: Shard, group: Group, commit: Commit, offsets: Sequence[int], now: float) -> bool:
    """Accept a commit that differs from an earlier one only in its offsets.

    Returns False, with nothing done, if the check of the sender fails.
    """
    if group.check_commit(
        commit.member_id, commit.group_instance_id, commit.generation, member_epochs=commit.member_epochs
    ):
        return False
    repeats, commit.repeats = commit.repeats, True
    if shard.outbox.tracing and commit.event_template is None and repeats:
        commit.event_template = _event_template(shard, commit)
    _accept(shard, group, commit, offsets, now, repeats=repeats)
    return True


def _accept(
    shard: Shard, group: Group, commit: Commit, offsets: Sequence[int], now: float, *, repeats: bool = False
) -> None:
    group.renew(commit.member_id, now)
    count = len(commit.keys)
    timestamps: Sequence[int] = shard.timestamps(now, count)
    expire_timestamps = _EXPIRE_BY_SETTING.get(count)
    if expire_timestamps is None or commit.retention_ms != -1 or commit.timestamps is not None:
        timestamp = shard.wall_ms(now)
        expire = -1 if commit.retention_ms == -1 else _as_int64(timestamp + commit.retention_ms)
        expire_timestamps = (expire,) * count
        if commit.timestamps is not None:
            timestamps = [timestamp if each == -1 else each for each in commit.timestamps]
    # Avoids the call of the named tuple's constructor.
    values = _tuple(
        OffsetCommitValues,
        (
            commit.places,
            offsets,
            commit.leader_epochs,
            commit.metadata,
            timestamps,
            expire_timestamps,
            commit.topic_ids,
            commit.size_bound,
            repeats,
        ),
    )
    if count > _MAX_TOGETHER:
        for key in commit.places:
            shard.write(key, values.of(key))
    elif count:
        shard.write_commit(values)
    if shard.pending.has_group(commit.group_id):
        for key in commit.places:
            transactions.overtake(shard, commit.group_id, key.topic, key.partition)
    shard.counters.offset_commits += count
    if shard.outbox.tracing:
        if commit.event_template is None:
            shard.outbox.events.append(_event(shard, commit, offsets))
        else:
            shard.outbox.events.append((commit.event_template, tuple(offsets), None))


def _as_int64(value: int) -> int:
    """The value as a Java `long` has it. In Kafka too a retention near 2^63 ms ends before it began: the offset goes at
    the next look for expired ones (`OffsetMetadataManager.expireTimestampMs`)."""
    return (value + 2**63) % 2**64 - 2**63


def _utf16_length(text: str) -> int:
    """Count characters as Java does."""
    return len(text) + sum(character > "\uffff" for character in text)


def _event_template(shard: Shard, commit: Commit) -> Template:
    """Return the template of trace events for commits that differ only in their offsets."""
    return template(_event(shard, commit, [HOLE] * len(commit.keys)))


def _event(shard: Shard, commit: Commit, offsets: Sequence[Any]) -> dict[str, Any]:
    return {
        "event": "commit",
        "group": commit.group_id,
        "partition": shard.partition,
        "member_id": commit.member_id,
        "generation": commit.generation,
        "error": 0,
        "offsets": [
            {"topic": topic, "partition": partition, "offset": offset}
            for (_, topic, partition, _), offset in zip(commit.keys, offsets, strict=True)
        ],
    }
