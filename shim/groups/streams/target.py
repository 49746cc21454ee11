"""The target assignment: what every member is to have, computed anew when the group epoch has grown.

Decides who takes part, and what is new. What members have meanwhile is not looked at: that is `reconcile.py`. After
Kafka's `TargetAssignmentBuilder` (semantics 4.12).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafka_shim.groups.streams import records
from kafka_shim.groups.streams.assignor import MemberSpec, SubtopologySpec, assign
from kafka_shim.groups.streams.group import StreamsGroupState
from kafka_shim.groups.streams.member import Member
from kafka_shim.groups.streams.records import Record
from kafka_shim.groups.streams.tasks import NO_TASKS, Tasks
from kafka_shim.groups.streams.topics import ConfiguredTopology


class Target(NamedTuple):
    """A target assignment of the whole group; `changed` is what is new of it, which `records` say."""

    assignments: dict[str, Tasks]
    changed: dict[str, Tasks]
    records: list[Record]


def compute(
    group: StreamsGroupState,
    updated: Member | None,
    configured: ConfiguredTopology,
    group_epoch: int,
    configs: Mapping[str, str],
) -> Target:
    """The target assignment with `updated` as one of the members. Nobody gets tasks while topics are missing."""
    members = dict(group.members)
    if updated is not None:
        members[updated.member_id] = updated
    assignments = dict.fromkeys(members, NO_TASKS)
    if configured.is_ready:
        assert configured.subtopologies is not None
        assignments = assign(
            {
                member_id: MemberSpec(member.process_id, group.target_of(member_id))
                for member_id, member in members.items()
            },
            {
                subtopology_id: SubtopologySpec(each.tasks, each.is_stateful)
                for subtopology_id, each in configured.subtopologies.items()
            },
            int(configs.get("num.standby.replicas", "0")),
        )
    changed = {member_id: target for member_id, target in assignments.items() if group.targets.get(member_id) != target}
    written = [records.target_assignment(group.group_id, member_id, target) for member_id, target in changed.items()]
    return Target(assignments, changed, [*written, records.target_epoch(group.group_id, group_epoch)])
