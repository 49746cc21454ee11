"""AlterShareGroupOffsets and DeleteShareGroupOffsets: where an Empty share group is to go on, and what it forgets.

Decides who may, and what becomes of share states. How far a group has come is read in `shim/server/share.py`, which
knows the logs. After Kafka's `GroupCoordinatorService.alterShareGroupOffsets` and `deleteShareGroupOffsets`
(semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_shim.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from kafka_shim.apis.alter_share_group_offsets import ResponsePartition as AlteredPartition
from kafka_shim.apis.alter_share_group_offsets import ResponseTopic as AlteredTopic
from kafka_shim.apis.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from kafka_shim.apis.delete_share_group_offsets import ResponseTopic as DeletedTopic
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.share import records
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.initialize import forget
from kafka_shim.groups.share.persister import Place
from kafka_shim.groups.share.records import Initialized

_NOT_HERE = "This server does not host this topic-partition."
_NO_ID = bytes(16)


def alter_refused(
    request: AlterShareGroupOffsetsRequest, code: int, message: str | None = None
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(error_code=code, error_message=message)


def delete_refused(
    request: DeleteShareGroupOffsetsRequest, code: int, message: str | None = None
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(error_code=code, error_message=message)


def initialized(shard: Shard, group_id: str) -> Mapping[bytes, Initialized]:
    """The topics, by id, and partitions in which a group has a share state."""
    shard.outbox.touch(shard)
    group = shard.groups.get(group_id)
    return group.initialized if isinstance(group, ShareGroup) else {}


def alter(shard: Shard, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    """Set start offsets, of whatever value; a group that does not exist is made, unless no partition does.

    Errors: GROUP_ID_NOT_FOUND (69) for a group of another kind, NON_EMPTY_GROUP (68); of a partition that does not
    exist UNKNOWN_TOPIC_OR_PARTITION (3).
    """
    shard.outbox.touch(shard)
    group = shard.groups.get(request.group_id)
    if group is not None and not isinstance(group, ShareGroup):
        return alter_refused(request, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group.")
    if group is not None and group.members:
        return alter_refused(request, ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    altered = []
    known = {} if group is None else group.initialized
    initialized = dict(known)
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
            shard.share_states.reset(Place(request.group_id, topic_id, each.partition_index), each.start_offset)
            topic_state = initialized.get(topic_id, Initialized(topic.topic_name, frozenset()))
            initialized[topic_id] = topic_state._replace(partitions=topic_state.partitions | {each.partition_index})
            answer.partitions.append(AlteredPartition(each.partition_index))
        altered.append(answer)
    if initialized != known:
        if group is None:
            shard.write(*records.epoch(request.group_id, 0, 0))
        shard.write(*records.initialized(request.group_id, initialized))
    return AlterShareGroupOffsetsResponse(responses=altered)


def delete(shard: Shard, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    """Forget topics: whoever subscribes to them again begins as in a new group.

    Errors: GROUP_ID_NOT_FOUND (69), NON_EMPTY_GROUP (68); of a topic that does not exist, or that the group has nothing
    of, UNKNOWN_TOPIC_OR_PARTITION (3).
    """
    shard.outbox.touch(shard)
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ShareGroup):
        why = "not found." if group is None else "is not a share group."
        return delete_refused(request, ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {why}")
    if group.members:
        return delete_refused(request, ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    deleted, gone = [], set()
    for topic in request.topics:
        topic_id = shard.topics.topic_id(topic.topic_name)
        answer = DeletedTopic(topic.topic_name, _NO_ID)
        if topic_id in group.initialized:
            answer.topic_id = topic_id
            gone.add(topic_id)
        else:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer.error_message = _NOT_HERE if topic_id is None else "There is no offset information to delete."
        deleted.append(answer)
    if gone:
        forget(group, gone)
    return DeleteShareGroupOffsetsResponse(responses=deleted)
