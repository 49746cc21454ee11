"""Metadata (3): the brokers, and of topics their ids, partitions, leaders and replicas.

v0  the first; an empty list of topics means all
v1  rack, controller, internal flag; null topics mean all, an empty list none
v2  cluster id
v3  throttle time
v4  the client says whether topics may be created
v5  offline replicas
v6  throttle time is taken after the answer is sent
v7  leader epoch (KIP-320)
v8  authorized operations (KIP-430)
v9  flexible
v10 topic ids in the answer (KIP-516)
v11 no longer carries the authorized operations of the cluster (KIP-700)
v12 topics by id, with a null name
v13 an error for the whole answer (KIP-1102)
"""

from kafka_shim.apis.api import Api
from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.wire import Message, Struct, array, boolean, field, int16, int32, string, uuid


class MetadataRequestTopic(Struct):
    """A topic by its name, or by its id if the name is null."""

    topic_id: bytes = field(uuid, versions="10+", ignorable=True)
    name: str | None = field(string, nullable="10+")


class MetadataRequest(Message, key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = field(array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = field(boolean, versions="4+", default=True)
    include_cluster_authorized_operations: bool = field(boolean, versions="8-10")
    include_topic_authorized_operations: bool = field(boolean, versions="8+")


class MetadataResponseBroker(Struct):
    node_id: int = field(int32)
    host: str = field(string)
    port: int = field(int32)
    rack: str | None = field(string, versions="1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = field(int16)
    partition_index: int = field(int32)
    leader_id: int = field(int32)
    leader_epoch: int = field(int32, versions="7+", default=-1, ignorable=True)
    replica_nodes: list[int] = field(array(int32))
    isr_nodes: list[int] = field(array(int32))
    offline_replicas: list[int] = field(array(int32), versions="5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """`topic_authorized_operations` has one bit per operation; the highest bit alone means that the client did not
    ask.
    """

    error_code: int = field(int16)
    name: str | None = field(string, nullable="12+")
    topic_id: bytes = field(uuid, versions="10+", ignorable=True)
    is_internal: bool = field(boolean, versions="1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = field(array(MetadataResponsePartition))
    topic_authorized_operations: int = field(int32, versions="8+", default=-(2**31))


class MetadataResponse(Message, key=ApiKey.METADATA, versions="0-13", flexible="9+"):
    throttle_time_ms: int = field(int32, versions="3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = field(array(MetadataResponseBroker))
    cluster_id: str | None = field(string, versions="2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = field(int32, versions="1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(int32, versions="8-10", default=-(2**31))
    error_code: int = field(int16, versions="13+", ignorable=True)


def normalise(request: MetadataRequest, version: int) -> MetadataRequest:
    """In version 0, replace an empty list of topics by null: both mean all topics. Changes `request` in place."""
    if version == 0 and not request.topics:
        request.topics = None
    return request


def shape(response: MetadataResponse, version: int) -> MetadataResponse:
    """Before version 12, write a null topic name as an empty string."""
    if version < 12:
        for topic in response.topics:
            topic.name = topic.name or ""
    return response


def error(request: MetadataRequest, code: int) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
            for topic in request.topics or ()
        ],
        error_code=code,
    )


API = Api(ApiKey.METADATA, "Metadata", MetadataRequest, MetadataResponse, error, normalise=normalise, shape=shape)
