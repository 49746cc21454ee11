"""Checks and refusals that all groups with epochs share, and the row of a heartbeat in a table of reconciliation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.epochs.group import EpochGroup
from kafka_shim.groups.epochs.member import JOIN
from kafka_shim.groups.interface import Refusal, Row
from kafka_shim.groups.shard import Shard

_G = TypeVar("_G", bound=EpochGroup[Any, Any])
_D = TypeVar("_D")


def check_not_blank(name: str, text: str | None) -> None:
    """Refuse a text that is empty or blank; `name` is Kafka's for the field. Raises `Refusal`: INVALID_REQUEST (42)."""
    if text is not None and not text.strip():
        raise Refusal(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")


def find(shard: Shard, group_id: str, kind: type[_G]) -> _G:
    """Return a group of this kind. Raises `Refusal`: GROUP_ID_NOT_FOUND (69)."""
    group = shard.groups.get(group_id)
    if isinstance(group, kind):
        return group
    why = "not found." if group is None else f"is not a {kind.type} group."
    raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}")


def describe_group(
    shard: Shard,
    group_id: str,
    kind: type[_G],
    described: Callable[..., _D],
    describe_member: Callable[[_G, Any], object],
    own_fields: Callable[[_G], Mapping[str, Any]] = lambda group: {},
) -> _D:
    """Describe a group with its members, epochs and the fields of its kind, or return GROUP_ID_NOT_FOUND (69)."""
    shard.outbox.touch(shard)
    try:
        group = find(shard, group_id, kind)
    except Refusal as refusal:
        return described(error_code=refusal.code, error_message=refusal.message, group_id=group_id)
    return described(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.protocol,
        members=[describe_member(group, member) for member in group.members.values()],
        **own_fields(group),
    )


def not_a_member(member_id: str, group_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def full(kind: str, most: int) -> Refusal:
    return Refusal(
        ErrorCode.GROUP_MAX_SIZE_REACHED, f"The {kind} group has reached its maximum capacity of {most} members."
    )


def other_epoch(kind: str, epoch: int, member_epoch: int) -> Refusal:
    """Return the refusal of a heartbeat at `epoch` for a member at `member_epoch`: FENCED_MEMBER_EPOCH (110)."""
    compared = "greater" if epoch > member_epoch else "smaller"
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {compared} member epoch ({epoch}) than the one known by the group coordinator"
        f" ({member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def unknown_state(kind: str, assigned: str) -> Refusal:
    """Return the refusal of a member with a state of a newer coordinator: FENCED_MEMBER_EPOCH (110).

    `assigned` is `partitions` or `tasks`.
    """
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member is in a unknown state. The member must abandon all its {assigned} and rejoin.",
    )


def row_of_heartbeat(member: Any, epoch: int, rows: Mapping[Any, Row], first: Enum) -> Row | None:
    """Return the row of `member` at a heartbeat with this member epoch; a member that joins begins in state `first`.

    None if the member leaves, or has an unknown id or epoch.
    """
    if epoch < JOIN:
        return None
    if member is None:
        return rows[first] if epoch == JOIN else None
    return rows[member.state] if epoch in (JOIN, member.epoch, member.previous_epoch) else None
