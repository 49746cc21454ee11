"""The records of a classic group: when they are written, and how a group begins and ends with them.

Decides which records a group has; what one does to the group is in `group.py`. Source: semantics 5.2.
"""

from __future__ import annotations

from kafka_shim.groups import events
from kafka_shim.groups.classic.group import ClassicGroup, state_of
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.records import GroupMetadataKey, GroupMetadataValue, GroupOptionsKey, GroupOptionsValue


def find(shard: Shard, group_id: str) -> ClassicGroup | None:
    """The classic group of this id; None too if there is a group of another kind."""
    group = shard.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) else None


def group_value(shard: Shard, group: ClassicGroup, assignments: dict[str, bytes], now: float) -> GroupMetadataValue:
    """The record of a group whose members have these assignments."""
    return group.to_record(assignments, shard.wall_ms(now))


def has_room(shard: Shard, group: ClassicGroup, value: GroupMetadataValue) -> bool:
    """Whether `__consumer_offsets` has room for a group's record."""
    if _size_bound(value) <= shard.topics.max_batch_bytes():
        return True
    return shard.has_room_for([(GroupMetadataKey(group.group_id), value)])


def write(shard: Shard, group: ClassicGroup, value: GroupMetadataValue) -> None:
    """Write a group's record. Raises ValueError if the group may not go from its state to that of the record."""
    group.check_transition(state_of(value))
    shard.write(GroupMetadataKey(group.group_id), value)


def _size_bound(value: GroupMetadataValue) -> int:
    """Bytes that a group's record has at most; its id and names are of 32,767 bytes at most."""
    return 4 * 32_767 + sum(
        len(member.subscription)
        + len(member.assignment)
        + 4 * (len(member.member_id) + len(member.group_instance_id or "") + len(member.client_id))
        + 100
        for member in value.members
    )


def create(shard: Shard, group_id: str, now: float) -> ClassicGroup:
    """A new group, Empty, with its record."""
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
    """A new group, Empty, before anybody joins it; see `GroupOptions`."""
    create(shard, group_id, now)
    bound_ms = -1 if heartbeat_bound_ms is None else heartbeat_bound_ms
    shard.write(GroupOptionsKey(group_id), GroupOptionsValue(ephemeral, bound_ms))


def erase(shard: Shard, group: ClassicGroup) -> None:
    """Write that a group is no more."""
    if group.options is not None:
        shard.write(GroupOptionsKey(group.group_id), None)
    shard.write(GroupMetadataKey(group.group_id), None)
