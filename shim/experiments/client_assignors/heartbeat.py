"""ClientAssignorHeartbeat: a heartbeat of a member with its own assignors.

It checks the assignors, starts a new group epoch if they change, and keeps the present target assignment while a member
computes the next. `consumer/heartbeat.py` handles the rest. Source: the draft of KIP-848.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.client_assignors.choice import elect
from kafka_shim.experiments.client_assignors.delegation import computes
from kafka_shim.experiments.client_assignors.group import ClientAssignedGroup
from kafka_shim.experiments.client_assignors.messages import (
    Assignment,
    ClientAssignorHeartbeatRequest,
    ClientAssignorHeartbeatResponse,
    refused,
)
from kafka_shim.experiments.client_assignors.records import NO_METADATA, assignors_to_bytes
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer import records
from kafka_shim.groups.consumer.change import Change
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.consumer.heartbeat import (
    Outcome,
    apply_heartbeat,
    assignment_of,
    leave,
    renew_waiting_session,
)
from kafka_shim.groups.consumer.heartbeat import check_request as check_plain_request
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.epochs import offload
from kafka_shim.groups.epochs.member import LEAVE, LEAVE_STATIC
from kafka_shim.groups.epochs.requests import check_not_blank
from kafka_shim.groups.interface import PARKED, Client, Parked, Refusal
from kafka_shim.groups.shard import NodeParts, Shard
from kafka_shim.trace.causes import Cause

FIRST_EPOCH = 1
"""Group epoch of a new group with an empty target assignment, so that its first member has an epoch until it has
computed the next.
"""


def heartbeat(
    shard: Shard, request: ClientAssignorHeartbeatRequest, client: Client, exchange: object, now: float
) -> ClientAssignorHeartbeatResponse | Parked:
    """Answer a heartbeat. Errors: those of ConsumerGroupHeartbeat; INVALID_REQUEST (42) for invalid assignors. Parked
    while a worker thread computes an assignment for the coordinator.
    """
    plain = _without_assignors(request)
    answer: ClientAssignorHeartbeatResponse | Parked = offload.serve(
        _QueuedHeartbeat(shard, request, exchange, client, plain), now
    )
    if answer is PARKED:
        renew_waiting_session(shard, plain, now)
    return answer


@dataclass(frozen=True, slots=True)
class _QueuedHeartbeat(offload.QueuedRequest):
    """A heartbeat; `plain` is the same without assignors."""

    client: Client
    plain: ConsumerGroupHeartbeatRequest

    def attempt(self, now: float) -> ClientAssignorHeartbeatResponse:
        shard, request = self.shard, self.request
        try:
            if request.member_epoch in (LEAVE, LEAVE_STATIC):
                member_id, epoch = request.member_id, request.member_epoch
                leave(shard, self.plain, now)
                return ClientAssignorHeartbeatResponse(member_id=member_id, member_epoch=epoch)
            extension = None if request.client_assignors is None else assignors_to_bytes(request.client_assignors)
            outcome = apply_heartbeat(shard, self.plain, request.member_id, self.client, now, ClientChange, extension)
        except Refusal as refusal:
            shard.outbox.touch(shard)
            return refused(request, refusal.code, refusal.message)
        group, member = outcome.group, outcome.member
        assert isinstance(group, ClientAssignedGroup)
        return ClientAssignorHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            should_compute_assignment=computes(group, member, now),
            heartbeat_interval_ms=group.heartbeat_interval_ms,
            assignment=_assignment(group, outcome),
        )

    def refuse(self, code: int) -> ClientAssignorHeartbeatResponse:
        return refused(self.request, code)


def _without_assignors(request: ClientAssignorHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=request.subscribed_topic_names,
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        topic_partitions=request.topic_partitions,
    )


def check_request(request: ClientAssignorHeartbeatRequest, parts: NodeParts) -> None:
    """Check the request alone, before its group is looked up. Raises `Refusal`: INVALID_REQUEST (42),
    UNSUPPORTED_ASSIGNOR (112).
    """
    plain = _without_assignors(request)
    check_not_blank("MemberId", plain.member_id)
    check_plain_request(plain, parts)
    assignors = request.client_assignors or []
    if len({each.name for each in assignors}) < len(assignors) or not all(each.name.strip() for each in assignors):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Each of ClientAssignors has a name of its own.")
    for each in assignors:
        if not each.minimum_version <= each.metadata_version <= each.maximum_version:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Assignor {each.name} wrote metadata of version {each.metadata_version}, and reads"
                f" {each.minimum_version} to {each.maximum_version}.",
            )


class ClientChange(Change):
    """A change in a group with target assignments that its members may compute."""

    def renew_epoch(self, member: Member, updated: Member, cause: Cause | None) -> int:
        """Return the new group epoch; a change of the assignors or their metadata also makes one."""
        group = self.group
        if cause is None and updated.extension != member.extension:
            cause = Cause.SUBSCRIPTION_CHANGED
        group_epoch = super().renew_epoch(member, updated, cause)
        if group.group_epoch or elect([updated]) is None:
            return group_epoch
        self.records.append(records.CLASSES.target_epoch_record(group.group_id, FIRST_EPOCH))
        self.records.append(records.epoch(group.group_id, FIRST_EPOCH + 1, self.metadata_hash))
        return FIRST_EPOCH + 1

    def assign(self, updated: Member, group_epoch: int) -> tuple[int, Partitions]:
        """Return the present target assignment if a member computes the next one."""
        group = self.group
        if elect(_members_with(group, updated)) is None:
            return super().assign(updated, group_epoch)
        return max(group.target_epoch, FIRST_EPOCH), group.target_of(updated.member_id, updated.instance_id)

    def write(self, updated: Member, reconciled: Member) -> ConsumerGroup:
        """Write the records. Raises `Refusal`: UNKNOWN_SERVER_ERROR (-1) for metadata too large for
        `__consumer_offsets`.
        """
        converted_members = () if self.group.draft is None else self.group.draft.records
        if not self.group.shard.has_room_for([*converted_members, *self.records]):
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "The metadata of the assignors is too large to be stored.")
        return super().write(updated, reconciled)


def _members_with(group: ConsumerGroup, updated: Member) -> list[Member]:
    """Return the members after this change."""
    replaced = group.static_member(updated.instance_id)
    removed_ids = {updated.member_id, replaced.member_id if replaced is not None else ""}
    return [*(member for member in group.members.values() if member.member_id not in removed_ids), updated]


def _assignment(group: ClientAssignedGroup, outcome: Outcome) -> Assignment | None:
    """Return the member's present and pending partitions with the assignor's metadata; None if nothing of it
    changed.
    """
    member = outcome.member
    if not outcome.includes_assignment and member.epoch == outcome.before.epoch:
        return None
    metadata, pending = NO_METADATA, NO_PARTITIONS
    if member.epoch == group.target_epoch:
        if group.client_assignor is not None:
            metadata = group.metadata_of(member.member_id)
        target = group.targets.get(member.member_id, NO_PARTITIONS)
        waited = {topic: aim - member.assigned.get(topic, frozenset()) for topic, aim in target.items()}
        pending = {topic: numbers for topic, numbers in waited.items() if numbers}
    return Assignment(
        error=metadata.error,
        assigned=assignment_of(member.assigned).topic_partitions,
        pending=[TopicPartitions(topic, sorted(numbers)) for topic, numbers in pending.items()],
        metadata_version=metadata.version,
        metadata=metadata.metadata,
    )
