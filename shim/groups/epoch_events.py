"""Trace events that groups with a group epoch have in common: consumer, share and streams groups.

Decides how they are built from state. Callers check first whether anybody listens. What the fields say is in
`trace.py`; what a group assigns is in the `events.py` of its kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from kafka_shim.groups.causes import Cause
from kafka_shim.groups.shard import Shard


class EpochGroup(Protocol):
    """A group with a group epoch; `cause` and `trigger` are those of its newest epoch."""

    shard: Shard
    cause: Cause | None
    trigger: str

    @property
    def type(self) -> str: ...
    @property
    def group_id(self) -> str: ...
    @property
    def group_epoch(self) -> int: ...
    @property
    def target_epoch(self) -> int: ...
    @property
    def state(self) -> Enum: ...


class EpochMember(Protocol):
    """A member of such a group."""

    @property
    def member_id(self) -> str: ...
    @property
    def instance_id(self) -> str | None: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...


def epoch(group: EpochGroup) -> None:
    """A new group epoch has just begun."""
    group.shard.outbox.event(
        "epoch", group=group.group_id, generation=group.group_epoch, cause=_cause(group), trigger=group.trigger
    )


def state(group: EpochGroup, before: Enum) -> None:
    """The group may be in another state than before."""
    after = group.state
    if after is not before:
        group.shard.outbox.event(
            "state",
            group=group.group_id,
            **{"from": before.value},
            to=after.value,
            generation=group.group_epoch,
            cause=_cause(group),
            trigger=group.trigger,
            rule=group.type,
        )


def target(group: EpochGroup, assignor: str, assignments: Mapping[str, Mapping[str, Sequence[int]]]) -> None:
    """A target assignment was computed; `assignments` is what is new of it, by member and topic."""
    group.shard.outbox.event(
        "target",
        group=group.group_id,
        generation=group.target_epoch,
        assignor=assignor,
        assignments=dict(assignments),
    )


def member(group: EpochGroup, member: EpochMember, change: str) -> None:
    """Something happened to a member."""
    group.shard.outbox.event(
        "member",
        group=group.group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        change=change,
        rule=group.type,
    )


def _cause(group: EpochGroup) -> str | None:
    return None if group.cause is None else group.cause.value
