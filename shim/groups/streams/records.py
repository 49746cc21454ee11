"""Records of a streams group.

The topology is deleted after the group; `epochs/records.py` has the order of all other tombstones (semantics 5.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_shim.groups.epochs.records import Record, RecordClasses
from kafka_shim.groups.streams.member import ActiveTasks, Member, Tasks, TaskSet, from_ids, in_order
from kafka_shim.persistence.records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from kafka_shim.persistence.streams_records import (
    AssignmentConfig,
    ClientTag,
    CurrentTaskIds,
    StreamsEndpoint,
    TargetTaskIds,
)


def _target_value(target: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        *([TargetTaskIds(*each) for each in in_order(role)] for role in target)
    )


def _target_from(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks(from_ids(value.active_tasks), from_ids(value.standby_tasks), from_ids(value.warmup_tasks))


CLASSES: Final = RecordClasses(
    group=StreamsGroupMetadataKey,
    member=StreamsGroupMemberMetadataKey,
    current_assignment=StreamsGroupCurrentMemberAssignmentKey,
    target_assignment=StreamsGroupTargetAssignmentMemberKey,
    target_value=_target_value,
    target_from=_target_from,
    target_epoch=StreamsGroupTargetAssignmentMetadataKey,
    target_epoch_value=StreamsGroupTargetAssignmentMetadataValue,
    others=(StreamsGroupTopologyKey,),
)


def epoch(
    group_id: str,
    group_epoch: int,
    metadata_hash: int,
    validated_epoch: int,
    configs: Mapping[str, str],
    description_epochs: tuple[int, int],
) -> Record:
    """Return the record of an epoch; `description_epochs` are those of the topology description that is kept, and of
    one that was refused for good."""
    value = StreamsGroupMetadataValue(
        group_epoch,
        metadata_hash,
        validated_epoch,
        [AssignmentConfig(*each) for each in configs.items()],
        *description_epochs,
    )
    return StreamsGroupMetadataKey(group_id), value


def topology(group_id: str, value: StreamsGroupTopologyValue) -> Record:
    return StreamsGroupTopologyKey(group_id), value


def member_metadata(group_id: str, member: Member) -> Record:
    endpoint = member.user_endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else StreamsEndpoint(*endpoint),
        client_tags=[ClientTag(key, value) for key, value in member.client_tags],
    )
    return StreamsGroupMemberMetadataKey(group_id, member.member_id), value


def current_assignment(group_id: str, member: Member) -> Record:
    assigned, pending = member.assigned, member.pending_revocation
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_current(assigned.standby),
        warmup_tasks=_current(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(pending.active),
        standby_tasks_pending_revocation=_current(pending.standby),
        warmup_tasks_pending_revocation=_current(pending.warmup),
    )
    return StreamsGroupCurrentMemberAssignmentKey(group_id, member.member_id), value


def _with_epochs(active: ActiveTasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(subtopology, partitions, [active[subtopology][partition] for partition in partitions])
        for subtopology, partitions in in_order(active)
    ]


def _current(tasks: TaskSet) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(*each) for each in in_order(tasks)]
