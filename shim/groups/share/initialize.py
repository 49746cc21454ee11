"""Share states that come and go with the topics of a share group.

Decides in which partitions a group has a share state: in those of every topic a member ever subscribed to, until the
topic or the group's offsets in it are deleted. Kafka asks its share coordinator and writes a record before and after;
here the state is there at once, and a partition is assigned from the next heartbeat on, as in Kafka. After Kafka's
`GroupMetadataManager.maybeCreateInitializeShareGroupStateRequest` (semantics 4.13).
"""

from __future__ import annotations

from collections.abc import Collection

from kafka_shim.groups.share import records
from kafka_shim.groups.share.group import ShareGroup
from kafka_shim.groups.share.persister import Place
from kafka_shim.groups.share.records import Initialized


def initialize(group: ShareGroup) -> None:
    """Make the states that are missing in topics somebody subscribes to."""
    catalogue, made = group.shard.topics, {}
    for name in sorted(group.topic_names):
        topic_id = catalogue.topic_id(name)
        if topic_id is None:
            continue
        there = frozenset(range(catalogue.partitions_of(name)))
        topic = group.initialized.get(topic_id)
        if topic is None or not there <= topic.partitions:
            made[topic_id] = Initialized(name, there)
    if made:
        group.shard.write(*records.initialized(group.group_id, group.initialized | made))
        restore(group)


def restore(group: ShareGroup) -> None:
    """Make sure that there is a state for every partition of the group's record; states live as long as the process."""
    for topic_id, topic in group.initialized.items():
        for partition in topic.partitions:
            group.shard.share_states.initialize(Place(group.group_id, topic_id, partition))


def forget(group: ShareGroup, topic_ids: set[bytes]) -> None:
    """The group has no states in these topics any more."""
    kept = {topic_id: topic for topic_id, topic in group.initialized.items() if topic_id not in topic_ids}
    drop_states(group, topic_ids)
    group.shard.write(*records.initialized(group.group_id, kept))


def forget_deleted(group: ShareGroup, names: Collection[str]) -> None:
    """Forget those of the topics with these names that were deleted, even if there is another by the name now."""
    gone = {
        topic_id
        for topic_id, topic in group.initialized.items()
        if topic.name in names and group.shard.topics.topic_id(topic.name) != topic_id
    }
    if gone:
        forget(group, gone)


def drop_states(group: ShareGroup, topic_ids: set[bytes]) -> None:
    """Delete the states themselves, not the record that says that they are there."""
    for topic_id in topic_ids:
        for partition in group.initialized[topic_id].partitions:
            group.shard.share_states.delete(Place(group.group_id, topic_id, partition))
