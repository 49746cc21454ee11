"""ReadShareGroupStateSummary (87): how far a share group has come in partitions, for its coordinator (KIP-932).

v0  the first; flexible
v1  the number of offsets with a complete delivery (KIP-1226)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, int64, string, uuid


class PartitionData(Struct):
    partition: int = field(int32)
    leader_epoch: int = field(int32)


class ReadStateSummaryData(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionData] = field(array(PartitionData))


class ReadShareGroupStateSummaryRequest(
    Message, key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions="0-1", flexible="0+"
):
    group_id: str = field(string)
    topics: list[ReadStateSummaryData] = field(array(ReadStateSummaryData))


class PartitionResult(Struct):
    """`start_offset` is -1 in a partition without a state, or before the first acknowledgement."""

    partition: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    state_epoch: int = field(int32)
    leader_epoch: int = field(int32)
    start_offset: int = field(int64)
    delivery_complete_count: int = field(int32, versions="1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = field(uuid)
    partitions: list[PartitionResult] = field(array(PartitionResult))


class ReadShareGroupStateSummaryResponse(
    Message, key=ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions="0-1", flexible="0+"
):
    results: list[ReadStateSummaryResult] = field(array(ReadStateSummaryResult))


def accepted(request: ReadShareGroupStateSummaryRequest) -> ReadShareGroupStateSummaryResponse:
    """Return the answer without errors; the caller fills in the states."""
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(topic.topic_id, [PartitionResult(each.partition) for each in topic.partitions])
            for topic in request.topics
        ]
    )


def error(request: ReadShareGroupStateSummaryRequest, code: int) -> ReadShareGroupStateSummaryResponse:
    response = accepted(request)
    for topic in response.results:
        for each in topic.partitions:
            each.error_code = code
    return response


API = Api(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    "ReadShareGroupStateSummary",
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    error,
)
