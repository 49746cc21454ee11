"""Share group (KIP-932): members, epochs and assignments, built from records, and the share states of its topics.

Only `replay` changes the hard state; `heartbeat.py` has the rule of a heartbeat. A group has a share state in each
partition of every topic that a member ever subscribed to, until the topic or the group's offsets in it are deleted.
Kafka asks its share coordinator and writes a record before and after; here the state exists at once. As in Kafka, a
partition is assigned from the next heartbeat on. Commits of offsets are refused, since the progress of the group is in
its share states. After Kafka's `ShareGroup` and `GroupMetadataManager.maybeCreateInitializeShareGroupStateRequest`
(semantics 4.11, 4.13, 5.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.epochs import events
from kafka_shim.groups.epochs.group import EpochGroup
from kafka_shim.groups.epochs.member import LEAVE, by_topic_name, count, from_records
from kafka_shim.groups.epochs.metadata_hash import metadata_hash
from kafka_shim.groups.epochs.records import Record
from kafka_shim.groups.group import Subscription, in_order
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.share import assignor, records
from kafka_shim.groups.share.persister import UNINITIALIZED, Place, SharePersister
from kafka_shim.groups.share.records import Initialized, Member, Start
from kafka_shim.groups.share.states import GroupState
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupStartsKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
)


class ShareGroup(EpochGroup[Member, Partitions]):
    """State of a share group; implements `Group`.

    `initialized` are the partitions with a share state, by topic id: only they are assigned. `starts` are those that
    requests have set. `share_states` are those of the process; None for states of this group alone.
    """

    __slots__ = ("_pending", "initialized", "share_states", "starts", "topic_names")

    type = "share"
    record_classes = records.CLASSES

    def __init__(self, group_id: str, shard: Shard, share_states: SharePersister | None = None) -> None:
        super().__init__(group_id, shard)
        self.share_states = SharePersister() if share_states is None else share_states
        self.topic_names: Counter[str] = Counter()
        """Number of subscribed members per topic."""
        self.initialized: dict[bytes, Initialized] = {}
        self.starts: dict[tuple[bytes, int], Start] = {}
        self._pending: bool | None = None

    # Derived values

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def protocol(self) -> str:
        return assignor.NAME

    @property
    def weight(self) -> int:
        return len(self.members) + sum(self.topic_names.values()) + sum(map(count, self.targets.values()))

    def timer_weight(self, timer: Timer) -> int:
        return super().timer_weight(timer) + len(self.topic_names)

    @property
    def is_assignment_pending(self) -> bool:
        """True if the target assignment lacks assignable partitions. Only records change it, so it is cached."""
        if self._pending is None:
            targets = self.targets.values()
            self._pending = any(
                topic.name in self.topic_names
                and not topic.partitions <= frozenset().union(*(each.get(topic_id, frozenset()) for each in targets))
                for topic_id, topic in self.initialized.items()
            )
        return self._pending

    def topics_with(self, member: Member) -> frozenset[str]:
        """Return the topics that members subscribe to after the change of this one."""
        others = (each for each in self.members.values() if each.member_id != member.member_id)
        return member.topic_names.union(*(each.topic_names for each in others))

    def hash_of(self, topic_names: Iterable[str]) -> int:
        """Return the metadata hash of those topics that exist, as for consumer groups."""
        return metadata_hash(topic_names, self.shard.topics)

    def subscription_of(self, member: Member) -> Subscription:
        return Subscription(topics=in_order(member.topic_names), generation=member.epoch, rack=member.rack_id)

    def assignment_of(self, member: Member) -> dict[str, list[int]]:
        return self.by_topic(member.assigned)

    def by_topic(self, assignment: Partitions) -> dict[str, list[int]]:
        return by_topic_name(self.shard.topics, {topic: numbers for topic, numbers in assignment.items() if numbers})

    def trace_step(self, member: Member) -> None:
        events.reconciliation(self, member, "STABLE", self.by_topic(member.assigned), revoking={}, waits_for=[])

    # Load, topics, departure

    def activate(self, now: float) -> None:
        super().activate(now)
        self.restore()

    def topic_changed(self, topic: str, now: float) -> None:
        """Have the next heartbeat check the topics of the group; delete share states in a deleted topic at once."""
        self.metadata_stale |= topic in self.topic_names
        self.forget_deleted({topic})

    def records_of_departure(self, members: Sequence[Member]) -> list[Record]:
        leaving_ids = {member.member_id for member in members}
        stay = (member.topic_names for member in self.members.values() if member.member_id not in leaving_ids)
        new_hash = self.hash_of(frozenset().union(*stay))
        return [records.epoch(self.group_id, self.group_epoch + 1, new_hash)]

    # Checks and offsets

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, *, member_epochs: bool
    ) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_commit_in_transaction(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def check_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Accept: the group has no offsets, and that is no error."""
        return ErrorCode.NONE

    def check_delete_offsets(self) -> ErrorCode:
        return ErrorCode.GROUP_ID_NOT_FOUND

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.topic_names

    def offsets_expire_since(self, commit_timestamp: int) -> int | None:
        return None

    @property
    def is_disposable(self) -> bool:
        """False: a share group keeps its share states until it is deleted."""
        return False

    # Share states

    def initialize(self) -> None:
        """Create the states that are missing in subscribed topics."""
        catalogue, new_topics, starts = self.shard.topics, {}, dict(self.starts)
        for name in sorted(self.topic_names):
            topic_id = catalogue.topic_id(name)
            if topic_id is None:
                continue
            partitions = frozenset(range(catalogue.partitions_of(name)))
            topic = self.initialized.get(topic_id)
            if topic is None or not partitions <= topic.partitions:
                new_topics[topic_id] = Initialized(name, partitions)
            if topic is not None and self.shard.rules.added_partitions_from_zero:
                for partition in partitions - topic.partitions:
                    place = Place(self.group_id, topic_id, partition)
                    self.share_states.reset(place, self.group_epoch, 0)
                    starts[topic_id, partition] = Start(self.group_epoch, 0)
        if new_topics:
            self.shard.write(*records.initialized(self.group_id, self.initialized | new_topics))
            if starts != self.starts:
                self.shard.write(*records.starts(self.group_id, starts))
            self.restore()

    def restore(self) -> None:
        """Create missing states for the partitions in the group's record, at the starts that were set; states live as
        long as the process."""
        new = Start(self.group_epoch, UNINITIALIZED)
        for topic_id, topic in self.initialized.items():
            for partition in topic.partitions:
                start = self.starts.get((topic_id, partition), new)
                self.share_states.initialize(Place(self.group_id, topic_id, partition), *start)

    def forget(self, topic_ids: set[bytes]) -> None:
        """Delete the group's states in these topics, and write the record without them."""
        remaining = {topic_id: topic for topic_id, topic in self.initialized.items() if topic_id not in topic_ids}
        starts = {place: start for place, start in self.starts.items() if place[0] not in topic_ids}
        self._drop_states(topic_ids)
        self.shard.write(*records.initialized(self.group_id, remaining))
        if starts != self.starts:
            self.shard.write(*records.starts(self.group_id, starts))

    def forget_deleted(self, names: Collection[str]) -> None:
        """Delete the states in deleted topics of these names, even if a new topic has the name now."""
        deleted_ids = {
            topic_id
            for topic_id, topic in self.initialized.items()
            if topic.name in names and self.shard.topics.topic_id(topic.name) != topic_id
        }
        if deleted_ids:
            self.forget(deleted_ids)

    def _drop_states(self, topic_ids: Iterable[bytes]) -> None:
        """Delete the states, but leave the record that lists them."""
        for topic_id in topic_ids:
            for partition in self.initialized[topic_id].partitions:
                self.share_states.delete(Place(self.group_id, topic_id, partition))

    def erase(self) -> None:
        self._drop_states(list(self.initialized))
        super().erase()

    def tombstones(self) -> list[Record]:
        others: list[Record] = [(ShareGroupStatePartitionMetadataKey(self.group_id), None)]
        if self.starts:
            others.append(records.starts(self.group_id, {}))
        return self.record_classes.group_tombstones(self.group_id, self.members, others)

    # Records

    def replay(self, key: Any, value: Any) -> None:
        self._pending = None
        super().replay(key, value)

    def replay_other(self, key: Any, value: Any) -> None:
        if type(key) is ShareGroupStatePartitionMetadataKey:
            self._replay_initialized(value)
        else:
            assert type(key) is ShareGroupStartsKey
            starts = () if value is None else value.starts
            self.starts = {(each.topic_id, each.partition): Start(each.epoch, each.start_offset) for each in starts}

    def replay_member(self, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
        old = self.members.get(member_id)
        if old is not None:
            if value is None:
                self.check_member_deletion(old)
            del self.members[member_id]
            self.topic_names -= Counter(old.topic_names)
        if value is not None:
            self.members[member_id] = member = replace(
                old or Member(member_id),
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                topic_names=frozenset(value.subscribed_topic_names),
            )
            self.topic_names.update(member.topic_names)

    def replay_current(self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None) -> None:
        member = self.members.get(member_id)
        if value is not None:
            self.members[member_id] = replace(
                member or Member(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                assigned=from_records(value.assigned_partitions),
            )
        elif member is not None:
            self.members[member_id] = replace(member, epoch=LEAVE, previous_epoch=LEAVE, assigned=NO_PARTITIONS)

    def _replay_initialized(self, value: ShareGroupStatePartitionMetadataValue | None) -> None:
        # The next heartbeat restarts an initialisation that a broker did not finish.
        topics = () if value is None else value.initialized_topics
        self.initialized = {each.topic_id: Initialized(each.topic_name, frozenset(each.partitions)) for each in topics}
