"""OffsetFetch (9): the committed offsets of groups.

v0  the first; read from ZooKeeper then
v1  read from the offsets topic; the same bytes
v2  null topics mean all; an error for the whole answer
v3  throttle time
v4  throttle time is taken after the answer is sent
v5  leader epoch (KIP-320)
v6  flexible
v7  `require_stable` (KIP-447)
v8  many groups in one request, one answer per group (KIP-709)
v9  member id and epoch per group, for members of KIP-848 groups
v10 topic ids in place of names, in both directions
"""

from typing import Final

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int16, int32, int64, string, uuid

NO_TOPIC_ID: Final = bytes(16)


class OffsetFetchRequestTopic(Struct):
    name: str = field(string, versions="0-7")
    partition_indexes: list[int] = field(array(int32), versions="0-7")


class OffsetFetchRequestTopics(Struct):
    name: str = field(string, versions="8-9", ignorable=True)
    topic_id: bytes = field(uuid, versions="10+", ignorable=True)
    partition_indexes: list[int] = field(array(int32), versions="8+")


class OffsetFetchRequestGroup(Struct):
    group_id: str = field(string, versions="8+")
    member_id: str | None = field(string, versions="9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = field(int32, versions="9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(array(OffsetFetchRequestTopics), versions="8+", nullable="8+")


class OffsetFetchRequest(Message, key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    """With `require_stable`, an offset that an open transaction may change is answered UNSTABLE_OFFSET_COMMIT (88)."""

    group_id: str = field(string, versions="0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(array(OffsetFetchRequestTopic), versions="0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(array(OffsetFetchRequestGroup), versions="8+")
    require_stable: bool = field(boolean, versions="7+")


class OffsetFetchResponsePartition(Struct):
    partition_index: int = field(int32, versions="0-7")
    committed_offset: int = field(int64, versions="0-7")
    committed_leader_epoch: int = field(int32, versions="5-7", default=-1, ignorable=True)
    metadata: str | None = field(string, versions="0-7", nullable="0-7")
    error_code: int = field(int16, versions="0-7")


class OffsetFetchResponseTopic(Struct):
    name: str = field(string, versions="0-7")
    partitions: list[OffsetFetchResponsePartition] = field(array(OffsetFetchResponsePartition), versions="0-7")


class OffsetFetchResponsePartitions(Struct):
    """A `committed_offset` of -1 means that the group has no committed offset for the partition."""

    partition_index: int = field(int32, versions="8+")
    committed_offset: int = field(int64, versions="8+")
    committed_leader_epoch: int = field(int32, versions="8+", default=-1, ignorable=True)
    metadata: str | None = field(string, versions="8+", nullable="8+")
    error_code: int = field(int16, versions="8+")


class OffsetFetchResponseTopics(Struct):
    name: str = field(string, versions="8-9", ignorable=True)
    topic_id: bytes = field(uuid, versions="10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(array(OffsetFetchResponsePartitions), versions="8+")


class OffsetFetchResponseGroup(Struct):
    group_id: str = field(string, versions="8+")
    topics: list[OffsetFetchResponseTopics] = field(array(OffsetFetchResponseTopics), versions="8+")
    error_code: int = field(int16, versions="8+")


class OffsetFetchResponse(Message, key=ApiKey.OFFSET_FETCH, versions="0-10", flexible="6+"):
    throttle_time_ms: int = field(int32, versions="3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), versions="0-7")
    error_code: int = field(int16, versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), versions="8+")


def normalise(request: OffsetFetchRequest, version: int) -> OffsetFetchRequest:
    """Before version 8, move the single group into the list. Changes `request` in place."""
    if version < 8:
        topics = None
        if request.topics is not None:
            topics = [
                OffsetFetchRequestTopics(each.name, partition_indexes=each.partition_indexes) for each in request.topics
            ]
        request.groups = [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]
    return request


def shape(response: OffsetFetchResponse, version: int) -> OffsetFetchResponse:
    """Before version 8, answer with the single group; before version 2, with errors in its partitions alone.

    From version 2 on, a group with an error has no topics.
    """
    if version >= 2:
        for group in response.groups:
            if group.error_code:
                group.topics = []
    if version < 8 and response.groups:
        (group,) = response.groups
        response.groups = []
        response.error_code = group.error_code
        response.topics = [
            OffsetFetchResponseTopic(
                topic.name,
                [
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ]
    return response


def group_error(group: OffsetFetchRequestGroup, code: int) -> OffsetFetchResponseGroup:
    """Build the answer for one group with `code` for the group and, as versions 0 and 1 need it, for each partition."""
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
        ],
        error_code=code,
    )


def error(request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    return OffsetFetchResponse(groups=[group_error(group, code) for group in request.groups])


API = Api(
    ApiKey.OFFSET_FETCH, "OffsetFetch", OffsetFetchRequest, OffsetFetchResponse, error, normalise=normalise, shape=shape
)
