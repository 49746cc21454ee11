"""Records of a consumer group; `epochs/records.py` has the order of their tombstones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_shim.groups.assignors.spec import Partitions
from kafka_shim.groups.consumer.member import AssignmentEpochs, Member, ResolvedRegex
from kafka_shim.groups.epochs.member import from_records, to_records
from kafka_shim.groups.epochs.records import Record, RecordClasses
from kafka_shim.persistence.records import (
    AssignedTopicPartitions,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    RecordError,
)


def epoch(group_id: str, group_epoch: int, metadata_hash: int) -> Record:
    return ConsumerGroupMetadataKey(group_id), ConsumerGroupMetadataValue(group_epoch, metadata_hash)


def member_metadata(group_id: str, member: Member) -> Record:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
        extension=member.extension,
    )
    return ConsumerGroupMemberMetadataKey(group_id, member.member_id), value


def current_assignment(group_id: str, member: Member) -> Record:
    epochs = member.assignment_epochs
    lists: list[list[AssignedTopicPartitions]] = []
    for partitions in (member.assigned, member.pending_revocation):
        topics = []
        for topic, owned in partitions.items():
            numbers = sorted(owned)
            of_numbers = None if epochs is None else [epochs[topic][number] for number in numbers]
            topics.append(AssignedTopicPartitions(topic, numbers, of_numbers))
        lists.append(topics)
    value = ConsumerGroupCurrentMemberAssignmentValue(member.epoch, member.previous_epoch, member.state, *lists)
    return ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value


def epochs_from_records(*lists: Iterable[AssignedTopicPartitions], member_epoch: int) -> AssignmentEpochs:
    """Return the assignment epochs of partitions in the records of a member at `member_epoch`.

    Raises `RecordError` unless there is one epoch for each partition, or none at all.
    """
    epochs: dict[bytes, dict[int, int]] = {}
    for topics in lists:
        for topic in topics:
            of_topic = topic.assignment_epochs
            if of_topic is None:
                of_topic = [member_epoch] * len(topic.partitions)
            elif len(of_topic) != len(topic.partitions):
                raise RecordError(f"A topic has {len(topic.partitions)} partitions and {len(of_topic)} epochs.")
            epochs.setdefault(topic.topic_id, {}).update(zip(topic.partitions, of_topic, strict=True))
    return epochs


def target_assignment(group_id: str, member_id: str, target: Partitions, extension: bytes = b"") -> Record:
    value = ConsumerGroupTargetAssignmentMemberValue(to_records(target), extension)
    return ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value


def resolved_regex(group_id: str, pattern: str, resolved: ResolvedRegex) -> Record:
    value = ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.timestamp_ms)
    return ConsumerGroupRegularExpressionKey(group_id, pattern), value


def regex_tombstone(group_id: str, pattern: str) -> Record:
    return ConsumerGroupRegularExpressionKey(group_id, pattern), None


def partition_metadata_tombstone(group_id: str) -> Record:
    return ConsumerGroupPartitionMetadataKey(group_id), None


CLASSES: Final = RecordClasses(
    group=ConsumerGroupMetadataKey,
    member=ConsumerGroupMemberMetadataKey,
    current_assignment=ConsumerGroupCurrentMemberAssignmentKey,
    target_assignment=ConsumerGroupTargetAssignmentMemberKey,
    target_value=lambda target: ConsumerGroupTargetAssignmentMemberValue(to_records(target)),
    target_from=lambda value: from_records(value.topic_partitions),
    target_epoch=ConsumerGroupTargetAssignmentMetadataKey,
    target_epoch_value=ConsumerGroupTargetAssignmentMetadataValue,
    member_record=member_metadata,
    assignment_record=current_assignment,
    others=(ConsumerGroupPartitionMetadataKey, ConsumerGroupRegularExpressionKey),
)
