"""A share group (KIP-932): its members, epochs and assignments, as records make them, and its session timers.

Decides what each record does. Hard state changes in `replay` alone; rules are in the modules beside this one. After
Kafka's `ShareGroup` (semantics 4.11, 5.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.consumer.subscriptions import metadata_hash
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.share import assignor
from kafka_shim.groups.share.member import Member, from_records
from kafka_shim.groups.share.records import Initialized
from kafka_shim.groups.share.states import LEAVE, GroupState, TimerKind
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)

NO_TARGET: Final = -1
"""The target epoch once it was deleted."""


class ShareGroup:
    """`group_epoch` grows when a new assignment is due, `target_epoch` when it was computed. `initialized` are the
    partitions with a share state, by topic id: only they are assigned. `metadata_stale`: the topics are to be compared
    with those the group knows, at the next heartbeat. `cause` and `trigger` are of its last group epoch, None if none
    began here.
    """

    __slots__ = (
        "_pending",
        "cause",
        "group_epoch",
        "group_id",
        "initialized",
        "members",
        "metadata_hash",
        "metadata_stale",
        "partition",
        "sessions",
        "shard",
        "target_epoch",
        "targets",
        "topic_names",
        "trigger",
    )

    type: Final = "share"
    protocol_type: Final = "share"
    protocol: Final = assignor.NAME
    leader: Final = None

    def __init__(self, group_id: str, shard: Shard) -> None:
        self.group_id = group_id
        self.partition = shard.partition
        self.shard = shard
        self.group_epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: dict[str, Member] = {}
        self.topic_names: Counter[str] = Counter()
        """How many members subscribe to each topic."""
        self.targets: dict[str, Partitions] = {}
        self.initialized: dict[bytes, Initialized] = {}
        self.metadata_stale = True
        self._pending: bool | None = None
        self.cause: Cause | None = None
        self.trigger = ""
        self.sessions: dict[str, Timer] = {}

    # What follows

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def generation(self) -> int:
        return self.group_epoch

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def is_assignment_pending(self) -> bool:
        """Whether partitions that could be assigned are nobody's in the target assignment. Only a record changes it."""
        if self._pending is None:
            targets = self.targets.values()
            self._pending = any(
                topic.name in self.topic_names
                and not topic.partitions <= frozenset().union(*(each.get(topic_id, frozenset()) for each in targets))
                for topic_id, topic in self.initialized.items()
            )
        return self._pending

    def topics_with(self, member: Member) -> frozenset[str]:
        """The topics that members subscribe to, once this one is as it is here."""
        others = (each for each in self.members.values() if each.member_id != member.member_id)
        return member.topic_names.union(*(each.topic_names for each in others))

    def hash_of(self, topic_names: Iterable[str]) -> int:
        """The metadata hash of those topics that exist, as for consumer groups."""
        return metadata_hash(topic_names, self.shard.topics)

    def session(self, member_id: str) -> Timer:
        """The session timer of a member, made when it is first needed."""
        timer = self.sessions.get(member_id)
        if timer is None:
            timer = self.sessions[member_id] = Timer(TimerKind.SESSION, self.partition, self.group_id, member_id)
        return timer

    # Settings: of this group alone, or of all

    @property
    def session_timeout_ms(self) -> int:
        own = self.shard.group_settings(self.group_id).get("share.session.timeout.ms")
        return self.shard.config.group_share_session_timeout_ms if own is None else int(own)

    @property
    def heartbeat_interval_ms(self) -> int:
        own = self.shard.group_settings(self.group_id).get("share.heartbeat.interval.ms")
        return self.shard.config.group_share_heartbeat_interval_ms if own is None else int(own)

    # Records

    def replay(self, key: Any, value: Any) -> None:
        """Let a record of this group take effect."""
        self._pending = None
        record = type(key)
        if record is ShareGroupCurrentMemberAssignmentKey:
            self._replay_current(key.member_id, value)
        elif record is ShareGroupMemberMetadataKey:
            self._replay_member(key.member_id, value)
        elif record is ShareGroupTargetAssignmentMemberKey:
            if value is None:
                self.targets.pop(key.member_id, None)
            else:
                self.targets[key.member_id] = from_records(value.topic_partitions)
        elif record is ShareGroupTargetAssignmentMetadataKey:
            self.target_epoch = NO_TARGET if value is None else value.assignment_epoch
        elif record is ShareGroupStatePartitionMetadataKey:
            self._replay_initialized(value)
        else:
            assert record is ShareGroupMetadataKey
            self._replay_group(value)

    def _replay_group(self, value: ShareGroupMetadataValue | None) -> None:
        if value is None:
            self.shard.drop(self.group_id)
        else:
            self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _replay_member(self, member_id: str, value: ShareGroupMemberMetadataValue | None) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
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

    def _replay_current(self, member_id: str, value: ShareGroupCurrentMemberAssignmentValue | None) -> None:
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
        # What was being initialised when a broker stopped is begun anew by the next heartbeat.
        topics = () if value is None else value.initialized_topics
        self.initialized = {each.topic_id: Initialized(each.topic_name, frozenset(each.partitions)) for each in topics}
