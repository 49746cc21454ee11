"""StreamsGroupDescribe (89): state, topology and members of streams groups (KIP-1071).

v0  the first; flexible
v1  topology descriptions (KIP-1331); the name of the assignor (KIP-1357)
"""

from enum import IntEnum

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.streams_group_heartbeat import Endpoint, KeyValue, TaskIds, TaskOffset, TopicInfo
from kafka_shim.apis.streams_group_topology_description_update import TopologyDescription
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int8, int16, int32, string


class StreamsGroupDescribeRequest(Message, key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)
    include_topology_description: bool = field(boolean, versions="1+", ignorable=True)


class Subtopology(Struct):
    subtopology_id: str = field(string)
    source_topics: list[str] = field(array(string))
    repartition_sink_topics: list[str] = field(array(string))
    state_changelog_topics: list[TopicInfo] = field(array(TopicInfo))
    repartition_source_topics: list[TopicInfo] = field(array(TopicInfo))


class Topology(Struct):
    epoch: int = field(int32)
    subtopologies: list[Subtopology] | None = field(array(Subtopology), nullable="0+", default=None)


class Assignment(Struct):
    active_tasks: list[TaskIds] = field(array(TaskIds))
    standby_tasks: list[TaskIds] = field(array(TaskIds))
    warmup_tasks: list[TaskIds] = field(array(TaskIds))


class Member(Struct):
    member_id: str = field(string)
    member_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    topology_epoch: int = field(int32)
    process_id: str = field(string)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = field(array(KeyValue))
    task_offsets: list[TaskOffset] = field(array(TaskOffset))
    task_end_offsets: list[TaskOffset] = field(array(TaskOffset))
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    is_classic: bool = field(boolean)


class DescriptionStatus(IntEnum):
    """Of a topology description; it is null except with AVAILABLE."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    ERROR = 2
    AVAILABLE = 3


class DescribedGroup(Struct):
    """`topology_description_status` is a `DescriptionStatus`."""

    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    group_id: str = field(string)
    group_state: str = field(string)
    group_epoch: int = field(int32)
    assignment_epoch: int = field(int32)
    topology: Topology | None = field(Topology, nullable="0+", default=None)
    members: list[Member] = field(array(Member))
    authorized_operations: int = field(int32, default=-(2**31))
    topology_description: TopologyDescription | None = field(
        TopologyDescription, versions="1+", nullable="1+", default=None, ignorable=True
    )
    topology_description_status: int = field(int8, versions="1+", ignorable=True)
    assignor_name: str | None = field(string, versions="1+", nullable="1+", default=None, ignorable=True)


class StreamsGroupDescribeResponse(Message, key=ApiKey.STREAMS_GROUP_DESCRIBE, versions="0-1", flexible="0+"):
    throttle_time_ms: int = field(int32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))


def group_error(group_id: str, code: int) -> DescribedGroup:
    """Build the answer for one group with an error."""
    return DescribedGroup(error_code=code, group_id=group_id)


def error(request: StreamsGroupDescribeRequest, code: int) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=[group_error(each, code) for each in request.group_ids])


API = Api(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    "StreamsGroupDescribe",
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    error,
)
