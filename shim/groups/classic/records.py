"""Records of a classic group: lookup, creation, writing and deletion.

`group.py` applies them. Source: semantics 5.2.
"""

from __future__ import annotations

from kafka_shim.groups import events
from kafka_shim.groups.classic.group import ClassicGroup, state_of
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.records import GroupMetadataKey, GroupMetadataValue, GroupOptionsKey, GroupOptionsValue


def find(shard: Shard, group_id: str) -> ClassicGroup | None:
    """Return the classic group of this id; None if there is none, or a group of another kind."""
    group = shard.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) else None


def group_value(shard: Shard, group: ClassicGroup, assignments: dict[str, bytes], now: float) -> GroupMetadataValue:
    """Return the record of a group with these assignments."""
    return group.to_record(assignments, shard.wall_ms(now))


def has_room(shard: Shard, group: ClassicGroup, value: GroupMetadataValue) -> bool:
    """Return True if `__consumer_offsets` accepts a record of this size."""
    if _size_bound(value) <= shard.topics.max_batch_bytes:
        return True
    return shard.has_room_for([(GroupMetadataKey(group.group_id), value)])


def write(shard: Shard, group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Write a group's record. Raises ValueError if `TRANSITIONS` lacks the change of state."""
    group.check_transition(state_of(value))
    shard.write(GroupMetadataKey(group.group_id), value)


def _size_bound(value: GroupMetadataValue) -> int:
    """Return an upper bound for the bytes of a group's record; its id and names have at most 32,767 bytes."""
    return 4 * 32_767 + sum(
        len(member.subscription)
        + len(member.assignment)
        + 4 * (len(member.member_id) + len(member.group_instance_id or "") + len(member.client_id))
        + 100
        for member in value.members
    )


def create(shard: Shard, group_id: str, now: float) -> ClassicGroup:
    """Create an Empty group and write its record."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=shard.wall_ms(now),
        members=[],
    )
    shard.write(GroupMetadataKey(group_id), value)
    group = find(shard, group_id)
    assert group is not None
    if shard.outbox.listening:
        events.group(shard.outbox, group, "created")
    return group


def precreate(shard: Shard, group_id: str, ephemeral: bool, heartbeat_bound_ms: int | None, now: float) -> None:
    """Create an Empty group before its first member; see `GroupOptions`."""
    create(shard, group_id, now)
    bound_ms = -1 if heartbeat_bound_ms is None else heartbeat_bound_ms
    shard.write(GroupOptionsKey(group_id), GroupOptionsValue(ephemeral, bound_ms))


def erase(shard: Shard, group: ClassicGroup) -> None:
    """Write the tombstones of a group."""
    if group.options is not None:
        shard.write(GroupOptionsKey(group.group_id), None)
    shard.write(GroupMetadataKey(group.group_id), None)
