"""ClientAssignorHeartbeat: a heartbeat of a member that has assignors of its own.

Decides what is refused of the assignors, that a change of them begins a new group epoch, and that the target assignment
waits for a member where one computes it. All else is as in `consumer/heartbeat.py`, whose rule it hands the rest to.
After KIP-848.
"""

from __future__ import annotations

from functools import partial

from kafka_shim.apis.client_assignor import ClientAssignor
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafka_shim.apis.experimental.client_assignor_heartbeat import (
    Assignment,
    ClientAssignorHeartbeatRequest,
    ClientAssignorHeartbeatResponse,
    error,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.causes import Cause
from kafka_shim.groups.client_assignors.choice import elect
from kafka_shim.groups.client_assignors.delegation import computes
from kafka_shim.groups.client_assignors.group import ClientAssignedGroup
from kafka_shim.groups.consumer import offload, records
from kafka_shim.groups.consumer.change import Change
from kafka_shim.groups.consumer.group import NO_METADATA
from kafka_shim.groups.consumer.heartbeat import Outcome, assignment_of, check_request, hear, in_line
from kafka_shim.groups.consumer.leave import leave
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.member import Member
from kafka_shim.groups.consumer.refusal import Refusal
from kafka_shim.groups.consumer.sessions import heartbeat_interval_ms
from kafka_shim.groups.consumer.states import LEAVE, LEAVE_STATIC
from kafka_shim.groups.interface import Client, Parked
from kafka_shim.groups.shard import Shard

FIRST_EPOCH = 1
"""The group epoch of a new group before its first member, with the target assignment that nobody has anything: so that
the member has an epoch to be in until it has computed what follows."""


def heartbeat(
    shard: Shard, request: ClientAssignorHeartbeatRequest, client: Client, exchange: object, now: float
) -> ClientAssignorHeartbeatResponse | Parked:
    """Errors: those of ConsumerGroupHeartbeat; INVALID_REQUEST (42) for assignors that cannot be. PARKED while the
    coordinator assigns, and does so elsewhere."""
    plain = _without_assignors(request)

    def attempt(now: float) -> ClientAssignorHeartbeatResponse:
        try:
            check_request(plain, shard.assignors.names, member_makes_id=True)
            assignors = _checked(request.client_assignors)
            if request.member_epoch in (LEAVE, LEAVE_STATIC):
                left = leave(shard, plain, now)
                return ClientAssignorHeartbeatResponse(member_id=left.member_id, member_epoch=left.member_epoch)
            outcome = hear(shard, plain, request.member_id, client, now, ClientChange, assignors)
        except Refusal as refusal:
            shard.outbox.touch(shard)
            return ClientAssignorHeartbeatResponse(error_code=refusal.code, error_message=refusal.message)
        group, member = outcome.group, outcome.member
        assert isinstance(group, ClientAssignedGroup)
        return ClientAssignorHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            should_compute_assignment=computes(group, member, now),
            heartbeat_interval_ms=heartbeat_interval_ms(group),
            assignment=_assignment(group, outcome),
        )

    waiting = offload.Waiting(exchange, attempt, partial(error, request))
    answer: ClientAssignorHeartbeatResponse | Parked = in_line(shard, plain, waiting, now)
    return answer


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


def _checked(assignors: list[ClientAssignor] | None) -> tuple[ClientAssignor, ...] | None:
    """Raises `Refusal`: INVALID_REQUEST (42)."""
    if assignors is None:
        return None
    if len({each.name for each in assignors}) < len(assignors) or not all(each.name.strip() for each in assignors):
        raise Refusal(ErrorCode.INVALID_REQUEST, "Each of ClientAssignors has a name of its own.")
    for each in assignors:
        if not each.minimum_version <= each.metadata_version <= each.maximum_version:
            raise Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Assignor {each.name} wrote metadata of version {each.metadata_version}, and reads"
                f" {each.minimum_version} to {each.maximum_version}.",
            )
    return tuple(assignors)


class ClientChange(Change):
    """A change in a group whose members may compute its target assignment."""

    def renew_epoch(self, member: Member, updated: Member, cause: Cause | None) -> int:
        """Also where the assignors changed, or what they say."""
        group = self.group
        if cause is None and updated.client_assignors != member.client_assignors:
            cause = Cause.SUBSCRIPTION_CHANGED
        group_epoch = super().renew_epoch(member, updated, cause)
        if group.group_epoch or elect([updated]) is None:
            return group_epoch
        self.records.append(records.target_epoch(group.group_id, FIRST_EPOCH))
        self.records.append(records.epoch(group.group_id, FIRST_EPOCH + 1, self.metadata_hash))
        return FIRST_EPOCH + 1

    def assign(self, updated: Member, group_epoch: int) -> tuple[int, Partitions]:
        """The target assignment there is, where a member computes the next one."""
        group = self.group
        if elect(_members_with(group, updated)) is None:
            return super().assign(updated, group_epoch)
        return max(group.target_epoch, FIRST_EPOCH), group.target_of(updated.member_id, updated.instance_id)

    def write(self, updated: Member, reconciled: Member, trigger: str) -> ConsumerGroup:
        """Raises `Refusal`: UNKNOWN_SERVER_ERROR (-1) for metadata that `__consumer_offsets` has no room for."""
        brought = () if self.group.draft is None else self.group.draft.records
        if not self.group.shard.has_room_for([*brought, *self.records]):
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "The metadata of the assignors is too large to be stored.")
        return super().write(updated, reconciled, trigger)


def _members_with(group: ConsumerGroup, updated: Member) -> list[Member]:
    """The members as they will be."""
    replaced = group.static_member(updated.instance_id)
    gone = {updated.member_id, replaced.member_id if replaced is not None else ""}
    return [*(member for member in group.members.values() if member.member_id not in gone), updated]


def _assignment(group: ClientAssignedGroup, outcome: Outcome) -> Assignment | None:
    """What the member has and waits for, with what the assignor says to it; None where nothing of that is new."""
    member = outcome.member
    if not outcome.shows and member.epoch == outcome.before.epoch:
        return None
    metadata, pending = NO_METADATA, NO_PARTITIONS
    if member.epoch == group.target_epoch:
        if group.client_assignor is not None:
            metadata = group.target_metadata.get(member.member_id, NO_METADATA)
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
