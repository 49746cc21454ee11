"""OffsetDelete (47): deletes committed offsets of single partitions (KIP-496).

v0  the first, and the only one; not flexible
"""

from kafka_shim.apis.api import Api, unshaped
from kafka_shim.apis.call import Call
from kafka_shim.apis.merge import merge
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string
from kafka_shim.apis.wire.errors import ErrorCode


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = field(int32)


class OffsetDeleteRequestTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetDeleteRequestPartition] = field(array(OffsetDeleteRequestPartition))


class OffsetDeleteRequest(Message, key=47, versions="0"):
    group_id: str = field(string)
    topics: list[OffsetDeleteRequestTopic] = field(array(OffsetDeleteRequestTopic))


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = field(int32)
    error_code: int = field(int16)


class OffsetDeleteResponseTopic(Struct):
    name: str = field(string)
    partitions: list[OffsetDeleteResponsePartition] = field(array(OffsetDeleteResponsePartition))


class OffsetDeleteResponse(Message, key=47, versions="0"):
    error_code: int = field(int16)
    throttle_time_ms: int = field(int32)
    topics: list[OffsetDeleteResponseTopic] = field(array(OffsetDeleteResponseTopic))


def error(request: OffsetDeleteRequest, code: int) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)


def handle(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    """Refuse what does not exist, UNKNOWN_TOPIC_OR_PARTITION (3); the rest is the group's.

    The group is asked even if nothing is left; an error of the group is the whole answer (semantics 3.5).
    """
    has = call.broker.has
    refused = []
    for topic in request.topics:
        unknown = [each.partition_index for each in topic.partitions if not has(topic.name, each.partition_index)]
        if unknown:
            topic.partitions = [each for each in topic.partitions if has(topic.name, each.partition_index)]
            code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            answers = [OffsetDeleteResponsePartition(index, code) for index in unknown]
            refused.append(OffsetDeleteResponseTopic(topic.name, answers))
    if refused:
        request.topics = [topic for topic in request.topics if topic.partitions]
    response = call.groups.delete_offsets(request, call.now)
    if refused and response.error_code == 0:
        response.topics = merge(refused + response.topics, lambda topic: topic.name)
    return response


API = Api(47, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse, handle, unshaped, error)
