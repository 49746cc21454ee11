"""Division of the requests about topics, logs and records: the part that each turn answers.

`division.py` has the common functions, `listings.py` the requests that list groups and transactional ids.
`requests.py` has the division of each request.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Final

from kafka_shim.apis.create_topics import CreateTopicsRequest
from kafka_shim.apis.describe_log_dirs import DescribeLogDirsRequest
from kafka_shim.apis.describe_topic_partitions import DescribeTopicPartitionsRequest
from kafka_shim.apis.list_offsets import ListOffsetsRequest, ListOffsetsTopic, ListOffsetsTopicResponse
from kafka_shim.apis.merge import merge
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic
from kafka_shim.apis.produce import ProduceRequest, TopicProduceData, TopicProduceResponse
from kafka_shim.broker.admin.quorum import all_topics
from kafka_shim.broker.admin.topics import Admin
from kafka_shim.broker.batches import is_compressed
from kafka_shim.broker.offsets import is_search
from kafka_shim.broker.produce import Entry
from kafka_shim.broker.topics import Topic
from kafka_shim.server.division import HEAVY, PART, divide, divide_together, is_heavy
from kafka_shim.server.exchange import Exchange

MAX_CREATED: Final = 10_000
"""Partitions that one request may create: `ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`."""

MANY_GROUPS: Final = 5_000
"""Groups from which on a new topic is a part by itself, since each group hears of it."""

UNDIVIDED: Final = 128 * 1024
"""Bytes of records to read at once."""

_ADDS_PARTITIONS: Final = 12
"""The first version of Produce that adds partitions to a transaction (KIP-890)."""


def metadata_parts(request: MetadataRequest, call: Exchange) -> Iterator[MetadataRequest] | None:
    """Divide a request for many topics or partitions, or for all of them. If it names more topics than Kafka's
    controller creates for one request, none is created. A request that looks for changes first (see `metadata`) is
    divided afterwards."""
    shared = call.broker.shared
    if shared is not None and shared.looked_at < call.arrived:
        return None
    topics = request.topics
    if topics is None:
        every = call.broker.topics.all()
        return _all_topics(request, every) if len(every) > PART or is_heavy(every, _partitions) else None

    if len(topics) < 2:
        return None
    catalogue = call.broker.topics
    of_new = 0 if len(call.groups.groups) < MANY_GROUPS else HEAVY

    def weigh(topics: Sequence[MetadataRequestTopic]) -> int:
        answers = [catalogue.named(each.name) if each.name else catalogue.with_id(each.topic_id) for each in topics]
        there = [each for each in answers if each is not None]
        return _partitions(there) + of_new * (len(answers) - len(there))

    if len(topics) <= PART and not is_heavy(topics, weigh):
        return None
    if call.version < 12 and any(topic.name is None or any(topic.topic_id) for topic in topics):
        return None
    view = copy(request)
    view.allow_auto_topic_creation = request.allow_auto_topic_creation and len(topics) <= MAX_CREATED
    by_id = {topic.topic_id: topic for topic in topics if any(topic.topic_id)}
    distinct = by_id.values() or {topic.name or "": topic for topic in topics}.values()
    return divide(view, "topics", distinct, weigh=weigh)


def _all_topics(request: MetadataRequest, topics: list[Topic]) -> Iterator[MetadataRequest]:
    for part in divide(request, "topics", topics, weigh=_partitions):
        part.allow_auto_topic_creation = False
        part.topics = [MetadataRequestTopic(name=topic.name) for topic in part.topics]
        yield part


def log_dirs_parts(request: DescribeLogDirsRequest, call: Exchange) -> Iterator[DescribeLogDirsRequest] | None:
    """Divide a request for all topics."""
    every = call.broker.topics.all()
    if request.topics is not None or (len(every) <= PART and not is_heavy(every, _partitions)):
        return None
    return _all_logs(request, every)


def _all_logs(request: DescribeLogDirsRequest, topics: list[Topic]) -> Iterator[DescribeLogDirsRequest]:
    for part in divide(request, "topics", topics, size=HEAVY, weigh=_partitions):
        part.topics = all_topics(part.topics)
        yield part


def _partitions(topics: Sequence[Topic]) -> int:
    return sum([len(topic.partitions) for topic in topics])


def create_topics_parts(request: CreateTopicsRequest, call: Exchange) -> Iterator[CreateTopicsRequest] | None:
    """Divide a request for many topics. A request for too many partitions is refused as a whole. Processes that share
    topics make all changes of a request at once."""
    broker = call.broker
    size = PART if len(call.groups.groups) < MANY_GROUPS else 1
    if len(request.topics) <= size or broker.shared is not None or Admin(broker.topics).creates_too_many(request):
        return None
    return divide_together(request, "topics", request.topics, lambda topic: topic.name, size=size)


def topic_pages_parts(
    request: DescribeTopicPartitionsRequest, call: Exchange
) -> Iterator[DescribeTopicPartitionsRequest] | None:
    """Divide a request that names many topics, unless its cursor is refused."""
    cursor = request.cursor
    if len(request.topics) <= PART or (
        cursor is not None
        and (cursor.partition_index < 0 or all(each.name != cursor.topic_name for each in request.topics))
    ):
        return None
    return call.broker.pages.parts(request, PART)


def produce_parts(request: ProduceRequest, call: Exchange) -> Iterator[ProduceRequest] | None:
    """Divide a request with many batches, many bytes or several compressed batches: every record is read. One that
    waits for the coordinator of its transaction in another process is not divided."""
    transactional_id, transactions = request.transactional_id, call.broker.transactions.transactions
    if transactional_id is not None and transactions.remote_coordinator(transactional_id) is not None:
        return None
    batches = [(topic, each) for topic in request.topic_data for each in topic.partition_data]
    if len(batches) == 1 or (
        len(batches) <= PART
        and sum(len(each.records or b"") for _, each in batches) <= UNDIVIDED
        and sum(is_compressed(each.records) for _, each in batches) < 2
    ):
        return None
    topics = [TopicProduceData(topic.name, topic.topic_id, [each]) for topic, each in batches]
    if transactional_id is not None and call.version >= _ADDS_PARTITIONS:
        return _in_transaction(request, topics, call)
    return divide(request, "topic_data", topics, size=1)


def _in_transaction(
    request: ProduceRequest, topics: list[TopicProduceData], call: Exchange
) -> Iterator[ProduceRequest]:
    """Yield parts that add partitions to the transaction, and then one for each batch that the client may write."""
    entry: Entry = call.common
    entry.open = True
    yield from divide(request, "topic_data", topics, size=HEAVY)
    entry.open = False
    yield from divide(request, "topic_data", entry.topics, size=1)


def produced_topics(topics: list[TopicProduceResponse]) -> list[TopicProduceResponse]:
    """Merge the answers for one topic: Sarama keeps the last of several."""
    return merge(topics, lambda topic: (topic.name, topic.topic_id), "partition_responses")


def listed_topics(topics: list[ListOffsetsTopicResponse]) -> list[ListOffsetsTopicResponse]:
    """Merge the answers for one topic."""
    return merge(topics, lambda topic: topic.name)


def list_offsets_parts(request: ListOffsetsRequest, call: Exchange) -> Iterator[ListOffsetsRequest] | None:
    """Divide a request that searches many logs for a timestamp: each search may unpack a batch."""
    if sum(is_search(each.timestamp) for topic in request.topics for each in topic.partitions) <= PART:
        return None
    others, searched = call.broker.offsets.searches(request)
    return _searches(request, others, searched) if len(searched) > PART else None


def _searches(
    request: ListOffsetsRequest, others: list[ListOffsetsTopic], searched: list[ListOffsetsTopic]
) -> Iterator[ListOffsetsRequest]:
    if others:
        yield from divide(request, "topics", others, size=len(others))
    yield from divide(request, "topics", searched, size=1)
