"""Committing offsets: who may, and what is stored for whom.

Decides whether a plain OffsetCommit is accepted, and what is refused of one that is. It does not know versions of
requests, which topics exist, or who coordinates the group: `handle` functions and `service.py` have asked that before.

A member commits to the same partitions again and again, and only the offsets differ. So a commit is taken apart: who
commits, to what, with which metadata, is a `Commit`; the offsets stand beside it. `again` accepts other offsets for a
`Commit` that is known, by the same steps.

Source: semantics 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_shim.apis.offset_commit import error as answer_all
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import offset_events, transactions
from kafka_shim.groups.group import Group
from kafka_shim.groups.repeated import HOLE, Template, template
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue

_tuple = tuple.__new__
_NONE = int(ErrorCode.NONE)
_UNKNOWN_SERVER_ERROR = int(ErrorCode.UNKNOWN_SERVER_ERROR)
_OFFSET_METADATA_TOO_LARGE = int(ErrorCode.OFFSET_METADATA_TOO_LARGE)


_BATCH_BYTES = 61
_RECORD_BYTES = 128
"""Bytes of a record at most, but for its texts."""
_CHARACTER_BYTES = 4
"""Bytes of a character at most."""

Row: TypeAlias = tuple[OffsetCommitKey, int, str, int, bytes]
"""What a commit says of one partition besides the offset: key, leader epoch, metadata, timestamp (-1 for that of the
commit itself) and topic id."""


class Commit:
    """What a commit says besides its offsets, of which there is one for each of `rows`.

    `member_epochs`: the version of the request knows member epochs (v9+). `repeats`: it was made at least once.
    `traced` is the template of its trace event, once it was made again.
    """

    __slots__ = (
        "generation",
        "group_id",
        "group_instance_id",
        "member_epochs",
        "member_id",
        "repeats",
        "retention_ms",
        "rows",
        "size_bound",
        "traced",
    )

    def __init__(self, request: OffsetCommitRequest, *, member_epochs: bool) -> None:
        group_id = request.group_id
        rows: list[Row] = []
        self.size_bound = _BATCH_BYTES
        """Bytes that its records have at most, but for metadata."""
        for topic in request.topics:
            name = topic.name
            topic_id = topic.topic_id
            self.size_bound += len(topic.partitions) * (_RECORD_BYTES + _CHARACTER_BYTES * (len(group_id) + len(name)))
            rows += [
                (
                    # What the constructor of this named tuple does, without the call: there are ten in a commit.
                    _tuple(OffsetCommitKey, (group_id, name, each.partition_index, 1)),
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    each.commit_timestamp,
                    topic_id,
                )
                for each in topic.partitions
            ]
        self.group_id = group_id
        self.generation = request.generation_id_or_member_epoch
        self.member_id = request.member_id
        self.group_instance_id = request.group_instance_id
        self.member_epochs = member_epochs
        self.retention_ms = request.retention_time_ms
        self.rows = rows
        self.traced: Template | None = None
        self.repeats = False

    def of(self, rows: list[Row]) -> Commit:
        """The same commit of other partitions."""
        made: Commit = object.__new__(Commit)
        made.group_id = self.group_id
        made.generation = self.generation
        made.member_id = self.member_id
        made.group_instance_id = self.group_instance_id
        made.member_epochs = self.member_epochs
        made.retention_ms = self.retention_ms
        made.rows = rows
        made.traced = None
        made.repeats = False
        return made

    def too_large(self, limit: int) -> list[bool]:
        """For each of `rows` whether its metadata is longer than `limit`; nothing if none has any."""
        metadata = [row[2] for row in self.rows]
        if not any(metadata):
            return []
        self.size_bound += _CHARACTER_BYTES * sum(map(len, metadata))
        return [_utf16_length(text) > limit for text in metadata]

    def has_room(self, shard: Shard) -> bool:
        """Whether its records are small enough together, whatever the offsets. Call `too_large` before."""
        if self.size_bound <= shard.topics.max_batch_bytes():
            return True
        records = [
            (key, OffsetCommitValue(0, leader_epoch, metadata, 0, -1, topic_id))
            for key, leader_epoch, metadata, _, topic_id in self.rows
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
    if error:
        if shard.outbox.listening:
            offset_events.commit_refused(shard, request, error)
        return answer_all(request, int(error))
    made = Commit(request, member_epochs=unknown_group_is_69)
    offsets = [each.committed_offset for topic in request.topics for each in topic.partitions]
    answer = answer_all(request, _NONE)
    too_large = made.too_large(shard.config.offset_metadata_max_bytes)
    if any(too_large):
        made.rows = [row for row, refused in zip(made.rows, too_large, strict=True) if not refused]
        offsets = [offset for offset, refused in zip(offsets, too_large, strict=True) if not refused]
        answers = [each for topic in answer.topics for each in topic.partitions]
        for each, refused in zip(answers, too_large, strict=True):
            each.error_code = _OFFSET_METADATA_TOO_LARGE if refused else _NONE
    if not made.has_room(shard):
        if group is not None:
            group.renew(made.member_id, now)
        if shard.outbox.listening:
            offset_events.commit_refused(shard, request, _UNKNOWN_SERVER_ERROR)
        return answer_all(request, _UNKNOWN_SERVER_ERROR)
    if group is None:
        group = shard.make_simple(request.group_id)
    _accept(shard, group, made, offsets, now)
    return answer


def known(shard: Shard, request: OffsetCommitRequest, *, member_epochs: bool) -> Commit | None:
    """What `again` is to be given, or None if some of its metadata is too large, or all of it together."""
    made = Commit(request, member_epochs=member_epochs)
    return None if any(made.too_large(shard.config.offset_metadata_max_bytes)) or not made.has_room(shard) else made


def again(shard: Shard, known: Commit, offsets: Sequence[int], now: float) -> bool:
    """Accept a commit that is `known` but for its offsets.

    False, and nothing done, if it is not to be accepted: `commit` knows why.
    """
    group = shard.groups.get(known.group_id)
    if group is None or group.check_commit(
        known.member_id, known.group_instance_id, known.generation, member_epochs=known.member_epochs
    ):
        return False
    if shard.outbox.tracing and known.traced is None and known.repeats:
        known.traced = _event_template(shard, known)
    known.repeats = True
    _accept(shard, group, known, offsets, now)
    return True


def _accept(shard: Shard, group: Group, made: Commit, offsets: Sequence[int], now: float) -> None:
    group.renew(made.member_id, now)
    timestamp = shard.wall_ms(now)
    expire = -1 if made.retention_ms == -1 else timestamp + made.retention_ms
    home = shard.partition
    records = [
        (
            home,
            key,
            _tuple(
                OffsetCommitValue,
                (offset, leader_epoch, metadata, timestamp if asked == -1 else asked, expire, topic_id),
            ),
        )
        for (key, leader_epoch, metadata, asked, topic_id), offset in zip(made.rows, offsets, strict=True)
    ]
    if records:
        shard.write_offsets(records)
        if shard.pending.has_group(made.group_id):
            for _, key, _ in records:
                transactions.overtake(shard, made.group_id, key.topic, key.partition)
    shard.counters.offset_commits += len(records)
    if shard.outbox.tracing:
        if made.traced is None:
            shard.outbox.events.append(_event(shard, made, offsets))
        else:
            shard.outbox.events.append((made.traced, tuple(offsets), None))


def _utf16_length(text: str) -> int:
    """Characters as Java counts them."""
    return len(text) + sum(character > "\uffff" for character in text)


def _event_template(shard: Shard, made: Commit) -> Template:
    """What is the same in all trace events of commits that differ in their offsets only."""
    return template(_event(shard, made, [HOLE] * len(made.rows)))


def _event(shard: Shard, made: Commit, offsets: Sequence[Any]) -> dict[str, Any]:
    return {
        "event": "commit",
        "group": made.group_id,
        "partition": shard.partition,
        "member_id": made.member_id,
        "generation": made.generation,
        "error": 0,
        "offsets": [
            {"topic": topic, "partition": partition, "offset": offset}
            for ((_, topic, partition, _), _, _, _, _), offset in zip(made.rows, offsets, strict=True)
        ],
    }
