"""DeleteTopics (20): deletes topics, by name or by id.

v0  the first
v1  throttle time
v2  throttle time is taken after the answer is sent
v3  TOPIC_DELETION_DISABLED (73) may be answered
v4  flexible
v5  error messages; THROTTLING_QUOTA_EXCEEDED (89) may be answered (KIP-599)
v6  topics by name or by id (KIP-516)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, field, int16, int32, string, uuid


class DeleteTopicState(Struct):
    """A topic by its name, or by its id if the name is null."""

    name: str | None = field(string, versions="6+", nullable="6+", default=None)
    topic_id: bytes = field(uuid, versions="6+")


class DeleteTopicsRequest(Message, key=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    topics: list[DeleteTopicState] = field(array(DeleteTopicState), versions="6+")
    topic_names: list[str] = field(array(string), versions="0-5", ignorable=True)
    timeout_ms: int = field(int32)


class DeletableTopicResult(Struct):
    name: str | None = field(string, nullable="6+")
    topic_id: bytes = field(uuid, versions="6+", ignorable=True)
    error_code: int = field(int16)
    error_message: str | None = field(string, versions="5+", nullable="5+", default=None, ignorable=True)


class DeleteTopicsResponse(Message, key=ApiKey.DELETE_TOPICS, versions="0-6", flexible="4+"):
    throttle_time_ms: int = field(int32, versions="1+", ignorable=True)
    responses: list[DeletableTopicResult] = field(array(DeletableTopicResult))


def normalise(request: DeleteTopicsRequest, version: int) -> DeleteTopicsRequest:
    """Before version 6, build `topics` from the list of names. Changes `request` in place."""
    if version < 6:
        request.topics = [DeleteTopicState(name) for name in request.topic_names]
    return request


def error(request: DeleteTopicsRequest, code: int) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code) for topic in request.topics
        ]
    )


API = Api(ApiKey.DELETE_TOPICS, "DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse, error, normalise=normalise)
