"""InitializeShareGroupState (83): the coordinator of a share group sets the group's state in partitions (KIP-932).

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string, uuid


class PartitionData(Struct):
    """A `start_offset` of -1 leaves it to the first fetch."""

    partition: int = field(int32)
    state_epoch: int = field(int32)
    start_offset: int = field(int64)


class InitializeStateData(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


class InitializeShareGroupStateRequest(Message, key=ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions="0", flexible="0+"):
    group_id: str = field(string)
    topics: list[InitializeStateData] = field(array(InitializeStateData))


class PartitionResult(Struct):
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class InitializeStateResult(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionResult] = field(array(PartitionResult))


class InitializeShareGroupStateResponse(Message, key=ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions="0", flexible="0+"):
    results: list[InitializeStateResult] = field(array(InitializeStateResult))


def accepted(request: InitializeShareGroupStateRequest) -> InitializeShareGroupStateResponse:
    """Return the answer that every state is set."""
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(topic.topic_id, [PartitionResult(each.partition) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def error(request: InitializeShareGroupStateRequest, code: int) -> InitializeShareGroupStateResponse:
    response = accepted(request)
    for topic in response.results:
        for each in topic.partitions:
            each.error_code = code
    return response


API = Api(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    "InitializeShareGroupState",
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    error,
)
