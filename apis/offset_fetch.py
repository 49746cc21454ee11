"""OffsetFetch (9): the committed offsets of groups.

v0  the first; read from ZooKeeper then
v1  read from the offsets topic; the same bytes
v2  null topics mean all; an error for the whole answer
v3  throttle time
v4  throttle time is taken after the answer is sent
v5  leader epoch (KIP-320)
v6  flexible
v7  a client may insist on stable offsets (KIP-447)
v8  many groups in one request, one answer per group (KIP-709)
v9  member id and epoch per group, for members of KIP-848 groups
v10 topic ids in place of names, in both directions
"""

from apis.wire import Message, Struct, array, boolean, field, int16, int32, int64, string, uuid


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


class OffsetFetchRequest(Message, key=9, versions="0-10", flexible="6+"):
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


class OffsetFetchResponse(Message, key=9, versions="0-10", flexible="6+"):
    throttle_time_ms: int = field(int32, versions="3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(array(OffsetFetchResponseTopic), versions="0-7")
    error_code: int = field(int16, versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(array(OffsetFetchResponseGroup), versions="8+")
