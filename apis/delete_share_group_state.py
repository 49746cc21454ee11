"""DeleteShareGroupState (86): the coordinator of a share group deletes the group's state in partitions (KIP-932).

v0  the first; flexible
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string, uuid


class PartitionData(Struct):
    partition: int = field(int32)


class DeleteStateData(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


class DeleteShareGroupStateRequest(Message, key=ApiKey.DELETE_SHARE_GROUP_STATE, versions="0", flexible="0+"):
    group_id: str = field(string)
    topics: list[DeleteStateData] = field(array(DeleteStateData))


class PartitionResult(Struct):
    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


class DeleteStateResult(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionResult] = field(array(PartitionResult))


class DeleteShareGroupStateResponse(Message, key=ApiKey.DELETE_SHARE_GROUP_STATE, versions="0", flexible="0+"):
    results: list[DeleteStateResult] = field(array(DeleteStateResult))


def accepted(request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
    """Return the answer that every state is deleted."""
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(topic.topic_id, [PartitionResult(each.partition) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def error(request: DeleteShareGroupStateRequest, code: int) -> DeleteShareGroupStateResponse:
    response = accepted(request)
    for topic in response.results:
        for each in topic.partitions:
            each.error_code = code
    return response


API = Api(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    "DeleteShareGroupState",
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    error,
)
