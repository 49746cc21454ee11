"""The records of a classic group: when they are written, and how a group begins and ends with them.

Decides which records a group has; what one does to the group is in `group.py`. Source: semantics 5.2.
"""

from __future__ import annotations

from kafka_shim.groups import events
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.shard import Shard
from kafka_shim.persistence.records import GroupMetadataKey, GroupMetadataValue, GroupTermsKey, GroupTermsValue


def find(shard: Shard, group_id: str) -> ClassicGroup | None:
    """The classic group of this id; None too if there is a group of another kind."""
    group = shard.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) else None


def write(shard: Shard, group: ClassicGroup, assignments: dict[str, bytes], now: float) -> None:
    """Write the record of a group whose members have these assignments."""
    shard.write(GroupMetadataKey(group.group_id), group.to_record(assignments, shard.wall_ms(now)))


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
    shard.write(GroupTermsKey(group_id), GroupTermsValue(ephemeral, bound_ms))


def erase(shard: Shard, group: ClassicGroup) -> None:
    """Write that a group is no more."""
    if group.options is not None:
        shard.write(GroupTermsKey(group.group_id), None)
    shard.write(GroupMetadataKey(group.group_id), None)
