"""Metadata and DescribeCluster: the brokers, the topics and the leaders of their partitions.

A topic that the request creates is in the next answer: in this one it is still UNKNOWN_TOPIC_OR_PARTITION (3), as in
Kafka, and clients try again. Sources: Kafka's KafkaApis; KIP-516, KIP-700.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from kafka_shim.apis.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from kafka_shim.apis.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import LEADER_EPOCH
from kafka_shim.broker.topics import INTERNAL_TOPICS, NO_ID, Partition, Topic, TopicError, Topics, name_refusal
from kafka_shim.groups.outbox import Outbox

TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""All operations on the cluster, as a bit field of AclOperation codes: without ACLs all are allowed."""

BROKERS_ENDPOINT: Final = 1
CONTROLLERS_ENDPOINT: Final = 2
NO_LEADER: Final = -1


class MetadataApi:
    """The rules of both APIs. Every broker gives the same answer; one that shows a new topic waits for its batch."""

    def __init__(self, topics: Topics, outbox: Outbox) -> None:
        self.topics = topics
        self._outbox = outbox

    def describe_topics(self, request: MetadataRequest, now: float) -> MetadataResponse:
        """Describe topics by name, or by id if the name is null. Null topics mean all topics."""
        response = MetadataResponse(
            brokers=[MetadataResponseBroker(*node) for node in self.topics.nodes.values()],
            cluster_id=self.topics.cluster_id,
            controller_id=self.topics.controller_id(),
            topics=list(self._topics(request)),
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
        # The answer shows no topic that is not durable.
        self._outbox.required_batch = max(self._outbox.required_batch, self.topics.batch)
        self.topics.settle(now)
        return response

    def describe_cluster(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        """List the brokers. An endpoint type of controllers is MISMATCHED_ENDPOINT_TYPE (114), an unknown type
        UNSUPPORTED_ENDPOINT_TYPE (115) (KIP-919)."""
        if request.endpoint_type == CONTROLLERS_ENDPOINT:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
                "CONTROLLER",
            )
        if request.endpoint_type != BROKERS_ENDPOINT:
            return DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message=f"Unsupported endpoint type {request.endpoint_type}",
            )
        response = DescribeClusterResponse(
            cluster_id=self.topics.cluster_id,
            controller_id=self.topics.controller_id(),
            brokers=[DescribeClusterBroker(*node) for node in self.topics.nodes.values()],
        )
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = CLUSTER_OPERATIONS
        return response

    def _topics(self, request: MetadataRequest) -> Iterable[MetadataResponseTopic]:
        if request.topics is None:
            return [self._described(topic) for topic in self.topics.all()]
        ids = {each.topic_id: None for each in request.topics if each.topic_id != NO_ID}
        if ids:
            return [self._identified(topic_id) for topic_id in ids]
        may_create = request.allow_auto_topic_creation and self.topics.settings.flag("auto.create.topics.enable")
        names = {each.name or "": None for each in request.topics}
        return [self._named(name, may_create=may_create) for name in names]

    def _identified(self, topic_id: bytes) -> MetadataResponseTopic:
        topic = self.topics.with_id(topic_id)
        if topic is not None:
            return self._described(topic)
        return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)

    def _named(self, name: str, *, may_create: bool) -> MetadataResponseTopic:
        topic = self.topics.named(name)
        if topic is not None:
            return self._described(topic)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name_refusal(name) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif may_create:
            # A name that collides with another topic's is never created, and Kafka gives no reason.
            with suppress(TopicError):
                self.topics.auto_create(name)
        return MetadataResponseTopic(error, name, is_internal=name in INTERNAL_TOPICS)

    def _described(self, topic: Topic) -> MetadataResponseTopic:
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.is_internal,
            partitions=[self._partition(partition) for partition in topic.partitions],
        )

    def _partition(self, partition: Partition) -> MetadataResponsePartition:
        live = [node_id for node_id in partition.replicas if node_id in self.topics.nodes]
        has_leader = partition.leader in self.topics.nodes
        return MetadataResponsePartition(
            error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=partition.index,
            leader_id=partition.leader if has_leader else NO_LEADER,
            leader_epoch=LEADER_EPOCH,
            replica_nodes=list(partition.replicas),
            isr_nodes=live,
            offline_replicas=[node_id for node_id in partition.replicas if node_id not in self.topics.nodes],
        )
