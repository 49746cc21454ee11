"""Changes to a consumer group by one member: new group epoch, new target assignment, reconciliation.

`Change` collects the records of one heartbeat, or of one JoinGroup of a classic member, and writes them at the end, so
that a refused request changes nothing. The functions below it check the sender of both requests. After Kafka's
`GroupMetadataManager.consumerGroupHeartbeat` and `classicGroupJoinToConsumerGroup` of 4.2 (semantics 4.5).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.assignors.spec import AssignorError, Partitions
from kafka_shim.groups.consumer import patterns, records
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.patterns import PatternChange
from kafka_shim.groups.consumer.reconcile import reconcile
from kafka_shim.groups.consumer.states import MemberState
from kafka_shim.groups.consumer.target import Draft, PrecomputedTarget, install, target_of
from kafka_shim.groups.consumer.views import Reader
from kafka_shim.groups.epochs.group import TimerKind
from kafka_shim.groups.epochs.records import Record
from kafka_shim.groups.epochs.requests import full
from kafka_shim.groups.epochs.target import Target
from kafka_shim.groups.interface import Refusal
from kafka_shim.trace.causes import Cause


@dataclass(slots=True)
class Change:
    """Change of a group by one member. `records` grows until `write`.

    `group` may be a draft; `write` then puts it into the shard.
    """

    group: ConsumerGroup
    now: float
    records: list[Record] = field(default_factory=list)
    cause: Cause | None = None
    subscription_changed: bool = False
    metadata_hash: int = 0
    """Hash of the topics of the group after the change, if `renew_epoch` had to compute it."""
    replaced_member: Member | None = None
    """Static member that this member replaces."""
    new_target: Target[Partitions] | None = None
    reader: Reader | None = None
    """The sender, on a server with ACLs; None for a JoinGroup."""
    targets_at: int = 0
    """Index in `records` of the first record of the new target."""

    def take_place(self, holder: Member, member_id: str) -> Member:
        """Replace a static member: the new one inherits its assignment, at epoch 0."""
        member = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
        self.records += self.group.records_of_replacement(holder, member)
        self.replaced_member = holder
        return member

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

    def assign(self, updated: Member, group_epoch: int) -> tuple[int, Partitions]:
        """Return the target epoch and the member's target assignment; compute them if the group epoch is ahead.

        Raises `Refusal`: UNKNOWN_SERVER_ERROR (-1) if the assignor fails; `Offloaded` if another thread has to compute
        it.
        """
        group = self.group
        if not group.is_target_due(group_epoch, self.now):
            return group.target_epoch, group.target_of(updated.member_id, updated.instance_id)
        try:
            self.new_target = target_of(group, updated, group_epoch)
        except AssignorError as error:
            raise Refusal(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"Failed to compute a new target assignment for epoch {group_epoch}: {error}",
            ) from error
        self.targets_at = len(self.records)
        self.records += group.records_of_target(self.new_target, self.now)
        return group_epoch, self.new_target.assigned[updated.member_id]

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

    def write(self, updated: Member, reconciled: Member, trigger: str) -> ConsumerGroup:
        """Write the records and adjust the timers. Return the group that is now in the shard."""
        group, shard = self.group, self.group.shard
        before = group.state if shard.outbox.listening else None
        is_new_member = reconciled.member_id not in group.members
        draft: Draft | None = group.draft
        converted_members = list(group.members.values()) if draft is not None else []
        if draft is not None:
            if draft.replaces is not None:
                draft.replaces.erase()
                if shard.outbox.listening:
                    events.group(shard.outbox, draft.replaces, "deleted")
            shard.groups[group.group_id] = shard.index[group.group_id] = group
            shard.outbox.write_all(shard, draft.records)
            group.draft = None
        shard.outbox.write_all(shard, self.records)
        target, replayed = self.new_target, self.records
        if isinstance(target, PrecomputedTarget):
            for key, value in self.records[: self.targets_at]:
                shard.replay(key, value)
            install(group, target)
            replayed = self.records[self.targets_at + len(target.records) :]
        for key, value in replayed:
            shard.replay(key, value)
        group.metadata_stale = False
        if draft is not None:
            for member in group.members.values():
                group.renew_session(member, self.now)
        if self.replaced_member is not None:
            group.forget_timers(self.replaced_member.member_id)
        if self.cause is not None:
            group.note_new_epoch(self.cause, trigger)
            shard.counters.new_epochs[group.type] += 1
        if reconciled is not updated and reconciled.classic is None:
            if reconciled.state is MemberState.UNREVOKED_PARTITIONS:
                group.arm_rebalance(reconciled, self.now)
            elif not is_new_member:
                group.cancel(TimerKind.REBALANCE, reconciled.member_id)
        if group.subscriptions.patterns:
            patterns.refresh_if_due(group, self.now, self.reader)
        if before is not None:
            if draft is not None:
                events.group(shard.outbox, group, "created")
                for member in converted_members:
                    group.trace_member(member, "added")
            # A member that is already in the group may replace another one, too.
            replaced = self.replaced_member
            if replaced is not None and replaced.member_id != reconciled.member_id:
                group.trace_member(replaced, "fenced")
                group.trace_member(reconciled, "replaced")
            elif is_new_member:
                group.trace_member(reconciled, "added")
            if self.cause is not None:
                group.trace_epoch(self.now)
            if target is not None:
                group.trace_target(target, target.precomputed.trace if isinstance(target, PrecomputedTarget) else None)
            if reconciled is not updated:
                group.trace_step(reconciled)
            group.trace_state(before)
        return group


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """Refuse a new member of a full group. Raises `Refusal`: GROUP_MAX_SIZE_REACHED (81).

    From Kafka 4.4 on the successor of a static member is not new.
    """
    most = group.shard.config.group_consumer_max_size
    if len(group.members) < most or member_id in group.members:
        return
    if instance_id not in group.static_members or not group.shard.rules.static_members_fit_full_groups:
        raise full("consumer", most)


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> Member:
    """Return the member with the instance id; its member id must match. Raises `Refusal`: 25 or 82."""
    member = group.static_member(instance_id)
    if member is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    check_not_fenced(member, member_id, instance_id)
    return member


def check_not_fenced(holder: Member, member_id: str, instance_id: str) -> None:
    """Refuse a member whose instance id has another holder. Raises `Refusal`: FENCED_INSTANCE_ID (82)."""
    if holder.member_id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
        )


def cause_of(group: ConsumerGroup, member: Member) -> Cause:
    """Return the cause of a new group epoch after this member joined or changed its subscription."""
    if member.member_id in group.members:
        return Cause.SUBSCRIPTION_CHANGED
    if member.instance_id is None or group.static_member(member.instance_id) is None:
        return Cause.NEW_MEMBER
    return Cause.STATIC_REPLACED
