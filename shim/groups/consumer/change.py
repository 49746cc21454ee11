"""What follows when a member was heard: a new group epoch perhaps, a new target assignment then, and reconciliation.

Decides when the group epoch grows and in which order records are written. Nothing is written before all is decided, so
that a request that is refused half-way has changed nothing. It does not know requests: members of both protocols come
here. After Kafka's `GroupMetadataManager.consumerGroupHeartbeat` and `classicGroupJoinToConsumerGroup` of 4.2
(semantics 4.5).
"""

from __future__ import annotations

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events as group_events
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, AssignorError, Partitions
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.classic.records import erase
from kafka_shim.groups.consumer import events, patterns, records
from kafka_shim.groups.consumer.draft import Draft
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.offload import target_of
from kafka_shim.groups.consumer.patterns import PatternChange
from kafka_shim.groups.consumer.reconcile import FencedError, reconcile
from kafka_shim.groups.consumer.records import Record
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.sessions import arm_rebalance, cancel, forget, renew_session
from kafka_shim.groups.consumer.states import GroupState, MemberState
from kafka_shim.groups.consumer.target import Target
from kafka_shim.groups.consumer.timers import TimerKind
from kafka_shim.groups.shard import Shard


class Change:
    """One change of one member. `records` grows until it is written.

    `group` may be a draft, and is then not in the shard before the change is written.
    """

    def __init__(self, group: ConsumerGroup, now: float) -> None:
        self.group = group
        self.now = now
        self.records: list[Record] = []
        self.cause: Cause | None = None
        self.subscription_changed = False
        self.metadata_hash = group.metadata_hash
        """That of the topics of the group as it will be."""
        self.replaced_member: Member | None = None
        """The static member whose place the member takes."""
        self._new_target: Target | None = None
        self._targets_at = 0
        """Where in `records` those of the new target are."""

    def subscribe(self, member: Member, updated: Member) -> tuple[bool, PatternChange]:
        """The member is to be as `updated`: whether its topic names changed, and what became of its pattern.

        Raises `Refusal`: INVALID_REGULAR_EXPRESSION (128).
        """
        if updated != member:
            self.records.append(records.member_metadata(self.group.group_id, updated))
        pattern, gone = patterns.change(self.group, member, updated)
        self.records += gone
        names_changed = updated.topic_names != member.topic_names
        self.subscription_changed = names_changed or pattern is not PatternChange.NONE
        return names_changed, pattern

    def renew_epoch(self, member: Member, updated: Member, cause: Cause | None) -> int:
        """The group epoch with this member as it will be. Without `cause` it grows only if topics have changed."""
        group = self.group
        if cause is None and not group.metadata_stale:
            return group.group_epoch
        present = group.static_member(updated.instance_id) or group.members.get(member.member_id)
        topics = group.subscriptions.topics(gone=() if present is None else (present,), come=updated)
        found_hash = group.specs.metadata_hash(topics)
        if cause is None and found_hash != group.metadata_hash:
            cause = Cause.TOPIC_METADATA_CHANGED
        group_epoch = group.group_epoch
        self.metadata_hash = found_hash
        if cause is not None:
            group_epoch += 1
            self.cause = cause
            self.records.append(records.epoch(group.group_id, group_epoch, found_hash))
        if group.has_partition_metadata:
            self.records.append(records.partition_metadata_gone(group.group_id))
        return group_epoch

    def assign(self, updated: Member, group_epoch: int) -> tuple[int, Partitions]:
        """The target epoch and the member's target assignment, computed anew if the group epoch is ahead.

        Raises `Refusal`: UNKNOWN_SERVER_ERROR (-1) where the assignor fails; `Offloaded`, if it is computed elsewhere.
        """
        group = self.group
        if group_epoch <= group.target_epoch:
            return group.target_epoch, group.target_of(updated.member_id, updated.instance_id)
        try:
            self._new_target = target_of(group, updated, group_epoch)
        except AssignorError as error:
            raise Refusal(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Failed to compute a new target assignment for epoch {group_epoch}: {error}",
            ) from error
        self._targets_at = len(self.records)
        self.records += self._new_target.records
        return group_epoch, self._new_target.assigned.get(updated.member_id, NO_PARTITIONS)

    def reconcile(self, updated: Member, target_epoch: int, target: Partitions, owned: Partitions | None) -> Member:
        """The member brought nearer to its target. Raises `Refusal`: FENCED_MEMBER_EPOCH (110)."""
        if not self.subscription_changed and updated.is_reconciled_to(target_epoch):
            return updated
        group = self.group
        try:
            reconciled = reconcile(
                updated,
                target_epoch,
                target,
                topics=group.specs.ids.of(updated),
                subscription_changed=self.subscription_changed,
                owned=owned,
                owners=group.owners,
            )
        except FencedError as error:
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH, f"{error} The member must abandon all its partitions and rejoin."
            ) from error
        if reconciled == updated:
            return updated
        self.records.append(records.current_assignment(group.group_id, reconciled))
        return reconciled

    def write(self, updated: Member, reconciled: Member, trigger: str) -> ConsumerGroup:
        """Everything is decided: write it, and let timers follow. The group as it is in the shard then."""
        group, shard = self.group, self.group.shard
        before = group.state if shard.outbox.listening else GroupState.EMPTY
        is_new_member = reconciled.member_id not in group.members
        draft: Draft | None = group.draft
        brought = list(group.members.values()) if draft is not None else []
        if draft is not None:
            if draft.replaces is not None:
                erase(shard, draft.replaces)
                if shard.outbox.listening:
                    group_events.group(shard.outbox, draft.replaces, "deleted")
            draft.adopt()
        self._write_records()
        group.metadata_stale = False
        if draft is not None:
            for member in group.members.values():
                renew_session(group, member, self.now)
        if self.replaced_member is not None:
            forget(group, self.replaced_member.member_id)
        if self.cause is not None:
            group.began(self.cause, trigger)
            shard.counters.consumer_rebalances += 1
        if reconciled is not updated and reconciled.classic is None:
            if reconciled.state is MemberState.UNREVOKED_PARTITIONS:
                arm_rebalance(group, reconciled, self.now)
            else:
                cancel(group, TimerKind.REBALANCE, reconciled.member_id)
        patterns.refresh_if_due(group, self.now)
        if shard.outbox.listening:
            if draft is not None:
                group_events.group(shard.outbox, group, "created")
                for member in brought:
                    events.member(group, member, "added")
            # One that was in the group already may take another's place, too.
            replaced = self.replaced_member
            if replaced is not None and replaced.member_id != reconciled.member_id:
                events.member(group, replaced, "fenced")
                events.member(group, reconciled, "replaced")
            elif is_new_member:
                events.member(group, reconciled, "added")
            if self.cause is not None:
                events.epoch(group)
            if self._new_target is not None:
                events.target(group, self._new_target)
            if reconciled is not updated:
                events.reconciliation(group, reconciled)
            events.state(group, before)
        return group

    def _write_records(self) -> None:
        shard, target, begin = self.group.shard, self._new_target, self._targets_at
        shard.outbox.write_all(shard, self.records)
        if target is None or target.ahead is None:
            _replay(shard, self.records)
            return
        _replay(shard, self.records[:begin])
        self.group.install(target)
        _replay(shard, self.records[begin + len(target.records) :])


def _replay(shard: Shard, written: list[Record]) -> None:
    for key, value in written:
        shard.replay(key, value)
