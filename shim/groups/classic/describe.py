"""DescribeGroups, ListGroups and DeleteGroups for one partition's groups.

Decides what is shown of a group and which groups may be deleted. Source: semantics 2.11.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from kafka_shim.apis.delete_groups import DeletableGroupResult
from kafka_shim.apis.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_shim.apis.list_groups import ListedGroup
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import trace
from kafka_shim.groups.classic.states import RULES, Request, Rule, State
from kafka_shim.groups.offsets import delete_all
from kafka_shim.groups.shard import Shard

CLASSIC: Final = "classic"
"""The type of these groups, as ListGroups spells it."""


def describe(shard: Shard, group_id: str) -> DescribedGroup:
    """The group and its members. One that is not there is Dead, with GROUP_ID_NOT_FOUND (69) as v6 has it."""
    shard.outbox.touch(shard)
    group = shard.groups.get(group_id)
    if group is None or group.state is State.DEAD:
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
            group_id=group_id,
            group_state=State.DEAD,
        )
    # Until the group is Stable the protocol is still being agreed on, so it is not shown.
    protocol = group.protocol if RULES[Request.DESCRIBE][group.state] is Rule.SHOW_STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol is None else member.metadata_for(protocol),
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def listed(shard: Shard, states: Set[str], types: Set[str]) -> Iterator[ListedGroup]:
    """The groups in one of `states` and of one of `types`, both in lower case; an empty set lets all through."""
    shard.outbox.touch(shard)
    if types and CLASSIC not in types:
        return
    for group in shard.groups.values():
        if not states or group.state.lower() in states:
            yield ListedGroup(group.group_id, group.protocol_type or "", group.state, CLASSIC)


def delete(shard: Shard, group_id: str) -> DeletableGroupResult:
    """Delete an Empty group with its offsets: 0, 68 or 69. Ids handed out with error 79 do not keep it."""
    group = shard.groups.get(group_id)
    rule = Rule.REFUSE_NOT_FOUND if group is None else RULES[Request.DELETE][group.state]
    if rule is Rule.REFUSE_NOT_FOUND:
        return DeletableGroupResult(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    if rule is Rule.REFUSE_NOT_EMPTY:
        return DeletableGroupResult(group_id, ErrorCode.NON_EMPTY_GROUP)
    assert group is not None
    delete_all(shard, group_id)
    shard.erase(group)
    if shard.outbox.listening:
        trace.group(shard.outbox, group, "deleted")
    return DeletableGroupResult(group_id, ErrorCode.NONE)
