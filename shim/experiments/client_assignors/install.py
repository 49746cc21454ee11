"""ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment: a member fetches the input of a computation, and
sends the result.

It checks the sender, and the assignment against the epoch it was computed for. The records are those of an assignment
by the coordinator, so that a failover changes nothing. Source: the draft of KIP-848; its INVALID_ASSIGNMENT is
INVALID_REQUEST (42) here, because the code never got a number.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.client_assignors.choice import assignor_of, computers
from kafka_shim.experiments.client_assignors.delegation import end, in_flight, report
from kafka_shim.experiments.client_assignors.group import ClientAssignedGroup, Delegation, Subject
from kafka_shim.experiments.client_assignors.messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
    PreparedMember,
    PreparedTopic,
)
from kafka_shim.experiments.client_assignors.records import NO_METADATA, AssignedMetadata, metadata_to_bytes
from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions
from kafka_shim.groups.consumer import records
from kafka_shim.groups.epochs import events
from kafka_shim.groups.epochs.records import Record, Target
from kafka_shim.groups.interface import Refusal
from kafka_shim.groups.shard import Shard

Assigned = dict[str, tuple[Partitions, AssignedMetadata]]
"""By member id, its part of a target assignment."""


def prepare(shard: Shard, request: ConsumerGroupPrepareAssignmentRequest) -> ConsumerGroupPrepareAssignmentResponse:
    """Return the input of a computation to the member that must compute, for the present group epoch.

    Errors: UNKNOWN_MEMBER_ID (25), GROUP_ID_NOT_FOUND (69), STALE_MEMBER_EPOCH (113).
    """
    shard.outbox.touch(shard)
    try:
        group, delegation = _delegation(shard, request)
        assignor_name = group.client_assignor
        if assignor_name is None or request.member_id not in computers(group.members.values(), assignor_name):
            end(group, "overtaken")
            raise _not_asked(request.member_id)
    except Refusal as refusal:
        return ConsumerGroupPrepareAssignmentResponse(error_code=refusal.code, error_message=refusal.message)
    delegation.assignor = assignor_name
    ids = group.specs.ids
    prepared = []
    subjects = {}
    for member in group.members.values():
        assignor = assignor_of(member, assignor_name)
        assert assignor is not None
        topics = ids.of(member)
        versions = range(assignor.minimum_version, assignor.maximum_version + 1)
        subjects[member.member_id] = Subject(member.instance_id, topics, versions)
        prepared.append(
            PreparedMember(
                member.member_id,
                member.epoch,
                member.instance_id,
                member.rack_id,
                sorted(topics),
                assignor,
                _in_answers(group.targets.get(member.member_id, NO_PARTITIONS)),
            )
        )
    topic_ids = frozenset[bytes]().union(*(subject.topics for subject in subjects.values()))
    counts = {topic_id: ids.partition_counts[topic_id] for topic_id in topic_ids}
    delegation.group_epoch = group.group_epoch
    delegation.subjects = subjects
    delegation.partition_counts = counts
    report(group, delegation, "prepared")
    return ConsumerGroupPrepareAssignmentResponse(
        group_epoch=group.group_epoch,
        assignor_name=assignor_name,
        members=prepared,
        topics=[
            PreparedTopic(topic_id, shard.topics.topic_name(topic_id) or "", count)
            for topic_id, count in sorted(counts.items())
        ],
    )


def install(shard: Shard, request: ConsumerGroupInstallAssignmentRequest) -> ConsumerGroupInstallAssignmentResponse:
    """Install the target assignment that a member has computed.

    Errors: those of `prepare`, INVALID_REQUEST (42) for an invalid assignment, and UNKNOWN_SERVER_ERROR (-1) for one
    too large for `__consumer_offsets`. After an error the member may send another.
    """
    shard.outbox.touch(shard)
    try:
        group, delegation = _delegation(shard, request)
        if request.group_epoch != delegation.group_epoch:
            raise _invalid(f"it is for group epoch {request.group_epoch}, and {delegation.group_epoch} was asked for")
        assigned = _with_error(group, request.error) if request.error else _valid(request, delegation)
        written = _records(group, delegation, assigned)
        if not shard.has_room_for(written):
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "The assignment is too large to be stored.")
    except Refusal as refusal:
        return ConsumerGroupInstallAssignmentResponse(error_code=refusal.code, error_message=refusal.message)
    before = group.state if shard.outbox.listening else None
    for key, value in written:
        shard.write(key, value)
    group.passed_over.clear()
    end(group, "installed")
    if before is not None:
        changed = {key.member_id: group.targets[key.member_id] for key, _ in written[:-1]}
        events.target(group, Target(group.target_epoch, delegation.assignor, group.targets, changed, written))
        events.state(group, before)
    return ConsumerGroupInstallAssignmentResponse()


def _delegation(
    shard: Shard, request: ConsumerGroupPrepareAssignmentRequest | ConsumerGroupInstallAssignmentRequest
) -> tuple[ClientAssignedGroup, Delegation]:
    """Return the group of a request, and the delegation to its member. Raises `Refusal`."""
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ClientAssignedGroup):
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    member = group.members.get(request.member_id)
    if member is None:
        raise Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {request.member_id} is not a member of group {group.group_id}."
        )
    if request.member_epoch != member.epoch:
        raise Refusal(ErrorCode.STALE_MEMBER_EPOCH, f"The member epoch is {member.epoch}, not {request.member_epoch}.")
    delegation = in_flight(group)
    if delegation is None or delegation.member_id != member.member_id:
        raise _not_asked(member.member_id)
    return group, delegation


def _valid(request: ConsumerGroupInstallAssignmentRequest, delegation: Delegation) -> Assigned:
    """Check the assignment against its input, and return it by member. Raises `Refusal`: INVALID_REQUEST (42)."""
    subjects = delegation.subjects
    if subjects is None:
        raise _invalid("it was not prepared")
    assigned: Assigned = {}
    owners: dict[tuple[bytes, int], str] = {}
    for each in request.members:
        subject = subjects.get(each.member_id)
        if subject is None:
            raise _invalid(f"member {each.member_id} was not in the group")
        if each.member_id in assigned:
            raise _invalid(f"member {each.member_id} is in it twice")
        if each.metadata_version not in subject.versions:
            raise _invalid(f"member {each.member_id} cannot read metadata of version {each.metadata_version}")
        partitions: dict[bytes, set[int]] = {}
        for topic_id, number in _partitions(each):
            if topic_id not in subject.topics or not 0 <= number < delegation.partition_counts[topic_id]:
                raise _invalid(f"member {each.member_id} gets a partition that it does not subscribe to")
            if (topic_id, number) in owners:
                raise _invalid(f"members {owners[topic_id, number]} and {each.member_id} get one partition")
            owners[topic_id, number] = each.member_id
            partitions.setdefault(topic_id, set()).add(number)
        target = {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items()}
        assigned[each.member_id] = target, AssignedMetadata(0, each.metadata_version, each.metadata)
    return {member_id: assigned.get(member_id, (NO_PARTITIONS, NO_METADATA)) for member_id in subjects}


def _with_error(group: ClientAssignedGroup, error: int) -> Assigned:
    """Return the present assignments, with the assignor's error."""
    return {
        member_id: (
            group.targets.get(member_id, NO_PARTITIONS),
            group.metadata_of(member_id)._replace(error=error),
        )
        for member_id in group.members
    }


def _records(group: ClientAssignedGroup, delegation: Delegation, assigned: Assigned) -> list[Record]:
    """Build the records of the changed target assignments, and last that of their epoch. A member that has left gets
    nothing, but the successor of a static member gets its part.
    """
    written = []
    for member_id, (partitions, metadata) in assigned.items():
        heir = _heir(group, delegation, member_id)
        is_new = (partitions, metadata) != (group.targets.get(heir), group.metadata_of(heir))
        if heir in group.members and is_new:
            written.append(records.target_assignment(group.group_id, heir, partitions, metadata_to_bytes(metadata)))
    return [*written, records.CLASSES.target_epoch_record(group.group_id, delegation.group_epoch)]


def _heir(group: ClientAssignedGroup, delegation: Delegation, member_id: str) -> str:
    """Return the member itself, or the static member that has replaced it."""
    if member_id in group.members or delegation.subjects is None:
        return member_id
    instance_id = delegation.subjects[member_id].instance_id
    return member_id if instance_id is None else group.static_members.get(instance_id, member_id)


def _partitions(member: InstalledMember) -> Iterable[tuple[bytes, int]]:
    return ((topic.topic_id, number) for topic in member.partitions for number in topic.partitions)


def _in_answers(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id, sorted(numbers)) for topic_id, numbers in partitions.items()]


def _not_asked(member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} was not asked to compute.")


def _invalid(why: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, f"The assignment is not valid: {why}.")
