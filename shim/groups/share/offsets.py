"""AlterShareGroupOffsets and DeleteShareGroupOffsets: set or delete the progress of an Empty share group.

`shim/server/share.py` reads the progress, since it knows the logs. After Kafka's
`GroupCoordinatorService.alterShareGroupOffsets` and `deleteShareGroupOffsets` (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_shim.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from kafka_shim.apis.alter_share_group_offsets import ResponsePartition as AlteredPartition
from kafka_shim.apis.alter_share_group_offsets import ResponseTopic as AlteredTopic
from kafka_shim.apis.alter_share_group_offsets import error as alter_refused
from kafka_shim.apis.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from kafka_shim.apis.delete_share_group_offsets import ResponseTopic as DeletedTopic
from kafka_shim.apis.delete_share_group_offsets import error as delete_refused
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.epochs.requests import find
from kafka_shim.groups.interface import Refusal
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.share import records
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.persister import Place
from kafka_shim.groups.share.records import Initialized, Start

_NOT_HERE = "This server does not host this topic-partition."
_NO_ID = bytes(16)


def initialized(shard: Shard, group_id: str) -> Mapping[bytes, Initialized]:
    """Return the partitions with a share state of the group, by topic id."""
    shard.outbox.touch(shard)
    group = shard.groups.get(group_id)
    return group.initialized if isinstance(group, ShareGroup) else {}


def alter(shard: Shard, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    """Set start offsets to any value; create the group if it does not exist and one of the partitions does.

    Errors: GROUP_ID_NOT_FOUND (69) for a group of another kind, NON_EMPTY_GROUP (68); of a partition that does not
    exist UNKNOWN_TOPIC_OR_PARTITION (3).
    """
    shard.outbox.touch(shard)
    group = shard.groups.get(request.group_id)
    if group is not None and not isinstance(group, ShareGroup):
        return alter_refused(request, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group.")
    if group is not None and group.members:
        return alter_refused(request, ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    epoch = int(shard.rules.first_epoch_two) if group is None else group.group_epoch
    altered = []
    resets: list[tuple[Place, int, int]] = []
    previous = {} if group is None else group.initialized
    initialized = dict(previous)
    added: dict[tuple[bytes, str], set[int]] = {}
    previous_starts = {} if group is None else group.starts
    starts = dict(previous_starts)
    for topic in request.topics:
        topic_id = shard.topics.topic_id(topic.topic_name)
        existing = range(shard.topics.partitions_of(topic.topic_name))
        answer = AlteredTopic(topic.topic_name, topic_id or _NO_ID)
        for each in topic.partitions:
            if topic_id is None or each.partition_index not in existing:
                answer.partitions.append(
                    AlteredPartition(each.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_HERE)
                )
                continue
            resets.append((Place(request.group_id, topic_id, each.partition_index), epoch, each.start_offset))
            starts[topic_id, each.partition_index] = Start(epoch, each.start_offset)
            added.setdefault((topic_id, topic.topic_name), set()).add(each.partition_index)
            answer.partitions.append(AlteredPartition(each.partition_index))
        altered.append(answer)
    for (topic_id, name), indexes in added.items():
        topic_state = initialized.get(topic_id, Initialized(name, frozenset()))
        initialized[topic_id] = topic_state._replace(partitions=topic_state.partitions | indexes)
    if initialized != previous:
        if group is None:
            shard.write(*records.epoch(request.group_id, epoch, 0))
        shard.write(*records.initialized(request.group_id, initialized))
    if starts != previous_starts:
        shard.write(*records.starts(request.group_id, starts))
    for reset in resets:
        find(shard, request.group_id, ShareGroup).share_states.reset(*reset)
    return AlterShareGroupOffsetsResponse(responses=altered)


def delete(shard: Shard, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    """Delete the share states of topics: later subscribers start as in a new group.

    Errors: GROUP_ID_NOT_FOUND (69), NON_EMPTY_GROUP (68); UNKNOWN_TOPIC_OR_PARTITION (3) of a topic that does not exist
    or has no share state of the group.
    """
    shard.outbox.touch(shard)
    try:
        group = find(shard, request.group_id, ShareGroup)
    except Refusal as refusal:
        return delete_refused(request, refusal.code, refusal.message)
    if group.members:
        return delete_refused(request, ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    deleted, deleted_ids = [], set()
    for topic in request.topics:
        topic_id = shard.topics.topic_id(topic.topic_name)
        answer = DeletedTopic(topic.topic_name, _NO_ID)
        if topic_id in group.initialized:
            answer.topic_id = topic_id
            deleted_ids.add(topic_id)
        else:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.error_message = _NOT_HERE if topic_id is None else "There is no offset information to delete."
        deleted.append(answer)
    if deleted_ids:
        group.forget(deleted_ids)
    return DeleteShareGroupOffsetsResponse(responses=deleted)
