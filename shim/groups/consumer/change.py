"""Change of a consumer group by one member: new group epoch, new target assignment, reconciliation.

`Change` serves a heartbeat and the JoinGroup of a classic member. After Kafka's `consumerGroupHeartbeat` and
`classicGroupJoinToConsumerGroup` of 4.2 (semantics 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import AssignorError, Partitions
from kafka_shim.groups.consumer import patterns, records, target
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.member import Member, Reader
from kafka_shim.groups.consumer.patterns import PatternChange
from kafka_shim.groups.consumer.reconcile import reconcile
from kafka_shim.groups.consumer.target import (
    Draft,
    PrecomputedTarget,
    TargetComputation,
    assignment_request,
    compute_target,
    install,
)
from kafka_shim.groups.epochs.offload import Offloaded
from kafka_shim.groups.epochs.records import Target
from kafka_shim.groups.epochs.revoking import RevokingChange
from kafka_shim.groups.interface import Refusal
from kafka_shim.trace.causes import Cause


@dataclass
class Change(RevokingChange[ConsumerGroup, Member, Partitions]):
    """Change of a consumer group by one member. `group` may be a `Draft`'s."""

    subscription_changed: bool = False
    metadata_hash: int = 0
    """Hash of the topics of the group after the change, if `renew_epoch` had to compute it."""
    reader: Reader | None = None
    """The sender, on a server with ACLs; None for a JoinGroup."""

    def subscribe(self, member: Member, updated: Member) -> tuple[bool, PatternChange]:
        """Change the member to `updated`. Return True if its topic names changed, and the change of its pattern.

        Raises `Refusal`: INVALID_REGULAR_EXPRESSION (128).
        """
        if updated != member:
            self.records.append(records.member_metadata(self.group.group_id, updated))
        pattern = PatternChange.NONE
        if updated.topic_regex != member.topic_regex:
            pattern, tombstones = patterns.change(self.group, member, updated)
            self.records += tombstones
        names_changed = updated.topic_names != member.topic_names
        self.subscription_changed = names_changed or pattern is not PatternChange.NONE
        return names_changed, pattern

    def renew_epoch(self, member: Member, updated: Member, cause: Cause | None) -> int:
        """Return the group epoch after the change. Without `cause` it grows only if topics have changed."""
        group = self.group
        if cause is None and not group.metadata_stale:
            return group.group_epoch
        present = group.members.get(member.member_id)
        if updated.instance_id is not None:
            present = group.static_member(updated.instance_id) or present
        new_hash = group.specs.metadata_hash(without=() if present is None else (present,), including=updated)
        if cause is None and new_hash != group.metadata_hash:
            cause = Cause.TOPIC_METADATA_CHANGED
        group_epoch = group.group_epoch
        self.metadata_hash = new_hash
        if cause is not None:
            group_epoch += 1
            self.cause = cause
            self.records.append(records.epoch(group.group_id, group_epoch, new_hash))
        if group.has_partition_metadata:
            self.records.append(records.partition_metadata_tombstone(group.group_id))
        return group_epoch

    def last_target(self, updated: Member) -> Partitions:
        return self.group.target_of(updated.member_id, updated.instance_id)

    def compute(self, updated: Member, group_epoch: int) -> Target[Partitions]:
        """Compute the target assignment. Raises `Refusal`: UNKNOWN_SERVER_ERROR (-1) if the assignor fails; `Offloaded`
        if another thread has to compute it.
        """
        group, shard = self.group, self.group.shard
        computed = shard.computed
        try:
            if isinstance(computed, TargetComputation) and computed.is_of(group, updated, group_epoch):
                return computed.target()
            request = assignment_request(group, updated, group_epoch)
            if shard.outbox.offloads and request.size >= target.LARGE:
                raise Offloaded(TargetComputation(group, request))
            return compute_target(shard.assignors, request)
        except AssignorError as error:
            raise Refusal(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Failed to compute a new target assignment for epoch {group_epoch}: {error}",
            ) from error

    def reconcile(self, updated: Member, target_epoch: int, target: Partitions, owned: Partitions | None) -> Member:
        """Return the member one step closer to its target. Raises `Refusal`: FENCED_MEMBER_EPOCH (110)."""
        if not self.subscription_changed and updated.is_reconciled_to(target_epoch):
            return updated
        group = self.group
        reconciled = reconcile(
            updated,
            target_epoch,
            target,
            topics=group.specs.ids.of(updated),
            subscription_changed=self.subscription_changed,
            owned=owned,
            owners=group.owners,
        )
        if reconciled == updated:
            return updated
        if group.shard.rules.partition_assignment_epochs:
            reconciled = reconciled.with_epochs(updated, target_epoch)
        self.records.append(records.current_assignment(group.group_id, reconciled))
        return reconciled

    def write_records(self) -> ConsumerGroup:
        group, shard = self.group, self.group.shard
        draft: Draft | None = group.draft
        if draft is not None:
            shard.groups[group.group_id] = shard.index[group.group_id] = group
            shard.outbox.write_all(shard, draft.records)
            group.draft = None
        shard.outbox.write_all(shard, self.records)
        new_target, replayed = self.new_target, self.records
        if isinstance(new_target, PrecomputedTarget):
            for key, value in self.records[: self.targets_at]:
                shard.replay(key, value)
            install(group, new_target)
            replayed = self.records[self.targets_at + len(new_target.records) :]
        for key, value in replayed:
            shard.replay(key, value)
        if draft is not None:
            for member in group.members.values():
                group.renew_session(member, self.now)
        if group.subscriptions.patterns:
            patterns.refresh_if_due(group, self.now, self.reader)
        return group


def cause_of(group: ConsumerGroup, member: Member) -> Cause:
    """Return the cause of a new group epoch after this member joined or changed its subscription."""
    if member.member_id in group.members:
        return Cause.SUBSCRIPTION_CHANGED
    if member.instance_id is None or group.static_member(member.instance_id) is None:
        return Cause.NEW_MEMBER
    return Cause.STATIC_REPLACED
