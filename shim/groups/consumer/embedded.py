"""Assignments as the classic consumer protocol has them: bytes that name topics. Decides nothing."""

from __future__ import annotations

from kafka_shim.apis.consumer_protocol import ConsumerProtocolAssignment, TopicPartition, assignment_to_bytes
from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.shard import TopicCatalogue


def embedded_assignment(partitions: Partitions, subscription: bytes, topics: TopicCatalogue) -> bytes:
    """An assignment as the classic protocol has it, in the version of the member's subscription."""
    named = [
        TopicPartition(name, sorted(owned))
        for topic, owned in partitions.items()
        if (name := topics.topic_name(topic)) is not None
    ]
    version = min(int.from_bytes(subscription[:2], "big"), 3)
    return assignment_to_bytes(ConsumerProtocolAssignment(named), version)
