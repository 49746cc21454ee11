"""ListGroups and DeleteGroups for the groups of one shard, whatever their kind.

Decides which groups a filter lets through and what goes with a deleted group. Whether a group may be deleted,
the group decides. Source: semantics 2.11.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from kafka_shim.apis.delete_groups import DeletableGroupResult
from kafka_shim.apis.list_groups import ListedGroup
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups import events
from kafka_shim.groups.offsets import delete_all
from kafka_shim.groups.shard import Shard


def listed(shard: Shard, states: Set[str], types: Set[str]) -> Iterator[ListedGroup]:
    """The groups in one of `states` and of one of `types`, both in lower case; an empty set lets all through."""
    shard.outbox.touch(shard)
    for group in shard.groups.values():
        if (not types or group.type in types) and (not states or group.state.lower() in states):
            yield ListedGroup(group.group_id, group.protocol_type or "", group.state, group.type)


def delete(shard: Shard, group_id: str) -> DeletableGroupResult:
    """Delete a group with its offsets: 0, NON_EMPTY_GROUP (68) or GROUP_ID_NOT_FOUND (69)."""
    group = shard.groups.get(group_id)
    error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
    if not error:
        assert group is not None
        delete_all(shard, group_id)
        group.erase()
        if shard.outbox.listening:
            events.group(shard.outbox, group, "deleted")
    return DeletableGroupResult(group_id, error)
