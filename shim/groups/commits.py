"""Committing offsets: who may, and what is stored for whom.

Decides whether a plain OffsetCommit is accepted, and what is refused of one that is. It does not know versions of
requests, which topics exist, or who coordinates the group: that is checked before, by the server and `service.py`.

A member commits to the same partitions again and again, and only the offsets differ. So a commit is taken apart: who
commits, to what, with which metadata, is a `Commit`; the offsets stand beside it. `again` accepts other offsets for a
`Commit` that was accepted before, by the same steps.

Source: semantics 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_shim.apis.offset_commit import error as answer_all
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import offset_events, transactions
from kafka_shim.groups.event_templates import HOLE, Template, template
from kafka_shim.groups.group import Group, LateCommits
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue, OffsetCommitValues

_T = TypeVar("_T")
_tuple = tuple.__new__
_NONE = int(ErrorCode.NONE)
_UNKNOWN_SERVER_ERROR = int(ErrorCode.UNKNOWN_SERVER_ERROR)
_OFFSET_METADATA_TOO_LARGE = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)


_MAX_TOGETHER = 256
"""Offsets of a commit that are kept as it came: while one of them is the newest of its partition, all are."""
_EXPIRE_BY_SETTING = {count: (-1,) * count for count in range(_MAX_TOGETHER + 1)}
"""By number of offsets, the expire timestamps of those that expire as the settings say."""
_BATCH_BYTES = 61
_RECORD_BYTES = 128
"""Bytes of a record at most, but for its texts."""
_CHARACTER_BYTES = 4
"""Bytes of a character at most."""


class Commit:
    """What a commit says besides its offsets: who commits, and for each offset its key, leader epoch, metadata,
    timestamp (-1 for that of the commit itself) and topic id.

    `places` has the place of each key among `keys`. `member_epochs`: the version of the request has
    member epochs (v9+). `repeats`: it was accepted at least once. `traced` is the template of its trace event, once it
    was accepted again.
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
        "traced",
    )

    def __init__(self, request: OffsetCommitRequest, *, member_epochs: bool) -> None:
        group_id = request.group_id
        self.size_bound = _BATCH_BYTES
        """Bytes that its records have at most, but for metadata."""
        keys: list[OffsetCommitKey] = []
        leader_epochs: list[int] = []
        metadata: list[str] = []
        timestamps: list[int] = []
        topic_ids: list[bytes] = []
        for topic in request.topics:
            name = topic.name
            partitions = topic.partitions
            self.size_bound += len(partitions) * (_RECORD_BYTES + _CHARACTER_BYTES * (len(group_id) + len(name)))
            # What the constructor of this named tuple does, without the call: there are ten in a commit.
            keys += [_tuple(OffsetCommitKey, (group_id, name, each.partition_index, 1)) for each in partitions]
            leader_epochs += [each.committed_leader_epoch for each in partitions]
            metadata += [each.committed_metadata or "" for each in partitions]
            timestamps += [each.commit_timestamp for each in partitions]
            topic_ids += [topic.topic_id] * len(partitions)
        self.group_id = group_id
        self.generation = request.generation_id_or_member_epoch
        self.member_id = request.member_id
        self.group_instance_id = request.group_instance_id
        self.member_epochs = member_epochs
        self.retention_ms = request.retention_time_ms
        self._set_keys(keys)
        self.leader_epochs: Sequence[int] = leader_epochs
        self.metadata: Sequence[str] = metadata
        self.timestamps: Sequence[int] | None = timestamps if any(each != -1 for each in timestamps) else None
        """None if all are -1."""
        self.topic_ids: Sequence[bytes] = topic_ids
        self.traced: Template | None = None
        self.repeats = False

    def _set_keys(self, keys: Sequence[OffsetCommitKey]) -> None:
        self.keys = keys
        self.places = dict(zip(keys, range(len(keys)), strict=True))

    def moved(self, keys: Sequence[OffsetCommitKey], leader_epochs: Sequence[int]) -> Commit:
        """The same commit of other partitions of the same topics."""
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
        other.traced = None
        other.repeats = False
        return other

    def without(self, refused: Sequence[bool]) -> None:
        """Leave out what is refused."""

        def rest(values: Sequence[_T]) -> list[_T]:
            return [value for value, is_refused in zip(values, refused, strict=True) if not is_refused]

        self._set_keys(rest(self.keys))
        self.leader_epochs = rest(self.leader_epochs)
        self.metadata, self.topic_ids = rest(self.metadata), rest(self.topic_ids)
        self.timestamps = None if self.timestamps is None else rest(self.timestamps)

    def too_large(self, limit: int) -> list[bool]:
        """For each offset whether its metadata is longer than `limit`; nothing if none has any."""
        if not any(self.metadata):
            return []
        self.size_bound += _CHARACTER_BYTES * sum(map(len, self.metadata))
        return [_utf16_length(text) > limit for text in self.metadata]

    def has_room(self, shard: Shard) -> bool:
        """Whether its records are small enough together, whatever the offsets. Call `too_large` before."""
        if self.size_bound <= shard.topics.max_batch_bytes():
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
    """Accept or refuse a plain OffsetCommit. A group-level error is that of every partition.

    Errors: ILLEGAL_GENERATION (22), GROUP_ID_NOT_FOUND (69), UNKNOWN_SERVER_ERROR (-1) if its records are too large
    together, or what the group refuses it with, for all; OFFSET_METADATA_TOO_LARGE (12) for single partitions.
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
        if error is ErrorCode.STALE_MEMBER_EPOCH and _is_late(group, request):
            error = ErrorCode.NONE
    if error:
        if shard.outbox.listening:
            offset_events.commit_refused(shard, request, error)
        return answer_all(request, int(error))
    content = Commit(request, member_epochs=unknown_group_is_69)
    offsets = [each.committed_offset for topic in request.topics for each in topic.partitions]
    answer = answer_all(request, _NONE)
    too_large = content.too_large(shard.config.offset_metadata_max_bytes)
    if any(too_large):
        content.without(too_large)
        offsets = [offset for offset, refused in zip(offsets, too_large, strict=True) if not refused]
        answers = [each for topic in answer.topics for each in topic.partitions]
        for each, refused in zip(answers, too_large, strict=True):
            each.error_code = _OFFSET_METADATA_TOO_LARGE if refused else _NONE
    if not content.has_room(shard):
        if group is not None:
            group.renew(content.member_id, now)
        if shard.outbox.listening:
            offset_events.commit_refused(shard, request, _UNKNOWN_SERVER_ERROR)
        return answer_all(request, _UNKNOWN_SERVER_ERROR)
    if group is None:
        group = shard.make_simple(request.group_id)
    _accept(shard, group, content, offsets, now)
    return answer


def _is_late(group: Group, request: OffsetCommitRequest) -> bool:
    """Whether the group lets a commit of an older epoch in."""
    partitions = ((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    return isinstance(group, LateCommits) and group.allows_late_commit(
        request.member_id, request.generation_id_or_member_epoch, partitions
    )


def repeatable(shard: Shard, request: OffsetCommitRequest, *, member_epochs: bool) -> Commit | None:
    """The commit that `again` takes, or None if some of its metadata is too large, or all of it together."""
    commit = Commit(request, member_epochs=member_epochs)
    return (
        None if any(commit.too_large(shard.config.offset_metadata_max_bytes)) or not commit.has_room(shard) else commit
    )


def again(shard: Shard, group: Group, commit: Commit, offsets: Sequence[int], now: float) -> bool:
    """Accept a commit that is like an earlier one but for its offsets.

    False, and nothing done, if it is not to be accepted: `commit` knows why.
    """
    if group.check_commit(
        commit.member_id, commit.group_instance_id, commit.generation, member_epochs=commit.member_epochs
    ):
        return False
    repeats, commit.repeats = commit.repeats, True
    if shard.outbox.tracing and commit.traced is None and repeats:
        commit.traced = _event_template(shard, commit)
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
        expire = -1 if commit.retention_ms == -1 else timestamp + commit.retention_ms
        expire_timestamps = (expire,) * count
        if commit.timestamps is not None:
            timestamps = [timestamp if each == -1 else each for each in commit.timestamps]
    # What the constructor of this named tuple does, without the call.
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
            repeats,
        ),
    )
    if count > _MAX_TOGETHER:
        for key in commit.places:
            shard.write(key, values.of(key))
    elif count:
        shard.write_commit(values)
    if shard.pending.has_group(commit.group_id):
        for key in commit.keys:
            transactions.overtake(shard, commit.group_id, key.topic, key.partition)
    shard.counters.offset_commits += count
    if shard.outbox.tracing:
        if commit.traced is None:
            shard.outbox.events.append(_event(shard, commit, offsets))
        else:
            shard.outbox.events.append((commit.traced, tuple(offsets), None))


def _utf16_length(text: str) -> int:
    """Characters as Java counts them."""
    return len(text) + sum(character > "\uffff" for character in text)


def _event_template(shard: Shard, commit: Commit) -> Template:
    """What is the same in all trace events of commits that differ in their offsets only."""
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
