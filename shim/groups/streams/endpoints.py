"""Where the state of an application can be queried: the endpoints of members, and the partitions their tasks read.

Decides what a member is told of others. After Kafka's `EndpointToPartitionsManager` (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_shim.apis.streams_group_heartbeat import Endpoint, EndpointToPartitions, TopicPartition
from kafka_shim.groups.streams.live import StreamsGroup
from kafka_shim.groups.streams.member import Member
from kafka_shim.groups.streams.tasks import in_order
from kafka_shim.groups.streams.topics import ConfiguredTopology


def by_endpoint(group: StreamsGroup, updated: Member, configured: ConfiguredTopology) -> list[EndpointToPartitions]:
    """One entry for each member that has an endpoint, the one that asks last."""
    others = (member for member in group.members.values() if member.member_id != updated.member_id)
    return [
        EndpointToPartitions(
            Endpoint(*member.user_endpoint),
            _partitions(group, member.assigned.active, configured),
            _partitions(group, member.assigned.standby, configured),
        )
        for member in (*others, updated)
        if member.user_endpoint is not None
    ]


def _partitions(
    group: StreamsGroup, tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology
) -> list[TopicPartition]:
    """What tasks read of topics that are there. Without a topology, as while source topics are missing, nothing:
    Kafka 4.2 answers the heartbeat with UNKNOWN_SERVER_ERROR (-1) then."""
    read = []
    for subtopology_id, partitions in in_order(tasks):
        subtopology = (configured.subtopologies or {}).get(subtopology_id)
        if subtopology is None:
            continue
        for topic in (*subtopology.source_topics, *(each.name for each in subtopology.repartition_sources)):
            count = group.shard.topics.partitions_of(topic)
            existing = [partition for partition in partitions if partition < count]
            if existing:
                read.append(TopicPartition(topic, existing))
    return read
