"""DescribeTopicPartitions: topics in pages, in the order of their names.

A topic that does not exist takes no room on a page, but none follows on a full page. Sources: KIP-966; Kafka's
DescribeTopicPartitionsRequestHandler and KRaftMetadataCache.describeTopicResponse.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from copy import copy
from typing import Final

from kafka_shim.apis import describe_topic_partitions
from kafka_shim.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import LEADER_EPOCH
from kafka_shim.broker.metadata import NO_LEADER, TOPIC_OPERATIONS
from kafka_shim.broker.topics import INTERNAL_TOPICS, NO_ID, Partition, Topic, Topics, name_refusal

PAGE_LIMIT: Final = "max.request.partition.size.limit"


class TopicPages:
    """The rule of DescribeTopicPartitions. Every broker gives the same answer."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics

    def describe(self, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        """Return a page of at least one partition and at most as many as the request and the broker allow.

        Errors per topic: UNKNOWN_TOPIC_OR_PARTITION (3), INVALID_TOPIC_EXCEPTION (17). INVALID_REQUEST (42) everywhere
        for a cursor at a topic that is not in the request, or below partition 0.
        """
        names = {each.name for each in request.topics}
        cursor = request.cursor
        if not names:
            names = {topic.name for topic in self.topics.all()}
        elif cursor is not None and cursor.topic_name not in names:
            return describe_topic_partitions.error(request, ErrorCode.INVALID_REQUEST)
        if cursor is not None and cursor.partition_index < 0:
            return describe_topic_partitions.error(request, ErrorCode.INVALID_REQUEST)
        limit = self._limit(request)
        response = DescribeTopicPartitionsResponse()
        for name in sorted(names):
            if cursor is not None and name < cursor.topic_name:
                continue
            if limit == 0:
                response.next_cursor = Cursor(name, 0)
                break
            topic = self.topics.named(name)
            if topic is None:
                response.topics.append(_missing(name))
                continue
            first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
            shown = topic.partitions[first : first + limit]
            response.topics.append(self._described(topic, shown))
            limit -= len(shown)
            if first + len(shown) < len(topic.partitions):
                response.next_cursor = Cursor(name, first + len(shown))
                break
        return response

    def parts(self, request: DescribeTopicPartitionsRequest, size: int) -> Iterator[DescribeTopicPartitionsRequest]:
        """Yield requests for so many topics each. Their answers together are the page of a request that names topics.

        The last of them has the topics behind the end of the page.
        """
        cursor = request.cursor
        names = sorted({each.name for each in request.topics})
        if cursor is not None:
            names = names[bisect_left(names, cursor.topic_name) :]
        limit = self._limit(request)
        at = 0
        while at < len(names):
            topics = [self.topics.named(name) for name in names[at : at + size]]
            count = sum(len(topic.partitions) for topic in topics if topic is not None)
            if cursor is not None and topics[0] is not None:
                count -= min(cursor.partition_index, len(topics[0].partitions))
            end = len(names) if count >= limit else at + size
            part = copy(request)
            part.topics = [TopicRequest(name) for name in names[at:end]]
            part.cursor, part.response_partition_limit = cursor, limit
            yield part
            at, cursor, limit = end, None, limit - count

    def _limit(self, request: DescribeTopicPartitionsRequest) -> int:
        return max(min(self.topics.settings.number(PAGE_LIMIT), request.response_partition_limit), 1)

    def _described(self, topic: Topic, partitions: list[Partition]) -> DescribeTopicPartitionsResponseTopic:
        return DescribeTopicPartitionsResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.is_internal,
            partitions=[self._partition(each) for each in partitions],
            topic_authorized_operations=TOPIC_OPERATIONS,
        )

    def _partition(self, partition: Partition) -> DescribeTopicPartitionsResponsePartition:
        nodes = self.topics.nodes
        has_leader = partition.leader in nodes
        return DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=partition.index,
            leader_id=partition.leader if has_leader else NO_LEADER,
            leader_epoch=LEADER_EPOCH,
            replica_nodes=list(partition.replicas),
            isr_nodes=[each for each in partition.replicas if each in nodes],
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=[each for each in partition.replicas if each not in nodes],
        )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_legal = name_refusal(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        topic_id=NO_ID,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
