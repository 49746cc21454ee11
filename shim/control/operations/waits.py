"""Waits over HTTP for a state or an event of a group.

A wait is answered when its condition is true, or at its timeout with the story so far.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, assert_never

from msgspec import UNSET, Meta, Struct, UnsetType

from kafka_shim.control.operation import (
    MAX_TEXT,
    TIMEOUT,
    Answer,
    ByTopic,
    Offset,
    Operation,
    Owned,
    PartitionNumber,
    Text,
    Timeout,
    TopicName,
)
from kafka_shim.control.workbench import Workbench

if TYPE_CHECKING:
    from kafka_shim.control.lab_workbench import LabWorkbench
    from kafka_shim.lab.group_waits import GroupWaits
    from kafka_shim.lab.snapshots import GroupSnapshot

_Name = Annotated[str, Meta(max_length=MAX_TEXT, description="Member id, client id or group instance id.")]
_Members = Annotated[
    Annotated[int, Meta(ge=0, le=2**31 - 1)] | list[_Name],
    Meta(description="The number of members, or all their names."),
]


class Await(Struct, forbid_unknown_fields=True, kw_only=True, tag_field="for"):
    """A condition to wait for."""

    timeout: Timeout = TIMEOUT


class UntilStable(Await, tag="stable", kw_only=True):
    """The group is Stable and every member has its assignment."""

    members: _Members | UnsetType = UNSET
    generation: Annotated[int, Meta(ge=0, le=2**31 - 1, description="This generation or a later one.")] | UnsetType = (
        UNSET
    )
    owners: Annotated[dict[_Name, ByTopic], Meta(description="Exact partitions by member.")] | UnsetType = UNSET


class UntilConsuming(Await, tag="consuming", kw_only=True):
    """The group is Stable and each of its partitions is fetched by its owner; records from now on reach a consumer."""

    members: _Members | UnsetType = UNSET


class UntilOwned(Await, tag="owns", kw_only=True):
    """A member owns at least these partitions."""

    member: _Name
    partitions: ByTopic


class UntilEmpty(Await, tag="empty", kw_only=True):
    """The group has no members."""


class UntilCommitted(Await, tag="committed", kw_only=True):
    """There is a committed offset, and it is large enough."""

    topic: TopicName
    partition: PartitionNumber
    at_least: Offset | UnsetType = UNSET


class UntilEvent(Await, tag="event", kw_only=True):
    """The next event of a kind (docs/trace.md), since the last one that was awaited of this group."""

    event: Annotated[Text, Meta(description="Its kind.", examples=["state"])]
    fields: Annotated[
        dict[Annotated[str, Meta(pattern="^(?!(event|timeout|self)$)", max_length=MAX_TEXT)], Any],
        Meta(max_length=100, description="Required values of its fields."),
    ] = {}


class NoRebalance(Await, tag="no-rebalance", kw_only=True):
    """No rebalance begins for so many seconds, or until every member has sent so many heartbeats."""

    seconds: (
        Annotated[float, Meta(ge=0, le=300, description="Of the coordinator, when its clock stands still.")] | UnsetType
    ) = UNSET
    heartbeats: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET


class NoCommit(NoRebalance, tag="no-commit", kw_only=True):
    """No offset is committed, of a topic or of all, for so many seconds or heartbeats."""

    topic: TopicName | UnsetType = UNSET


AnyWait = UntilStable | UntilConsuming | UntilOwned | UntilEmpty | UntilCommitted | UntilEvent | NoRebalance | NoCommit


class MemberSeen(Answer, kw_only=True):
    """A member and its partitions."""

    member_id: str
    client_id: str
    group_instance_id: str | None
    assignment: Owned


class GroupSeen(Answer, kw_only=True):
    """A group at the moment at which the condition became true."""

    group: str
    state: str
    generation: int
    protocol: str | None
    leader: str | None
    members: list[MemberSeen]


class OffsetSeen(Answer, kw_only=True):
    """The committed offset."""

    offset: int


class EventSeen(Struct):
    """An event as in docs/trace.md; its fields depend on its kind."""

    event: str


async def _await(
    workbench: Workbench,
    group: str,
    body: AnyWait,
) -> GroupSeen | OffsetSeen | dict[str, Any]:
    # Imported here because a server that is not a laboratory never needs it before the first request.
    from kafka_shim.control.lab_workbench import lab_workbench_of

    own = lab_workbench_of(workbench)
    with own.history.listening():
        waits = own.group(group)
        match body:
            case UntilStable():
                return _seen(
                    await waits.stable(
                        members=None if body.members is UNSET else body.members,
                        generation=None if body.generation is UNSET else body.generation,
                        owners=None if body.owners is UNSET else body.owners,
                        timeout=body.timeout,
                    )
                )
            case UntilConsuming():
                members = None if body.members is UNSET else body.members
                return _seen(await waits.consuming(members=members, timeout=body.timeout))
            case UntilOwned():
                return _seen(await waits.owns(body.member, body.partitions, timeout=body.timeout))
            case UntilEmpty():
                return _seen(await waits.empty(timeout=body.timeout))
            case UntilCommitted():
                at_least = None if body.at_least is UNSET else body.at_least
                offset = await waits.committed(body.topic, body.partition, at_least=at_least, timeout=body.timeout)
                return OffsetSeen(offset=offset)
            case UntilEvent():
                return await waits.next(body.event, timeout=body.timeout, **body.fields)
            case NoCommit():
                topic = None if body.topic is UNSET else body.topic
                return await _never(own, waits, partial(waits.no_commit_for, topic=topic), body)
            case NoRebalance():
                return await _never(own, waits, waits.no_rebalance_for, body)
            case _:
                assert_never(body)


async def _never(
    own: LabWorkbench, waits: GroupWaits, wait: Callable[..., Awaitable[None]], body: NoRebalance
) -> GroupSeen:
    seconds = None if body.seconds is UNSET else body.seconds
    advance = own.advance if own.clock is not None and own.clock.is_frozen else None
    heartbeats = None if body.heartbeats is UNSET else body.heartbeats
    await wait(seconds, heartbeats=heartbeats, advance=advance, timeout=body.timeout)
    return _seen(waits.now)


def _seen(group: GroupSnapshot) -> GroupSeen:
    return GroupSeen(
        group=group.group,
        state=group.state,
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        members=[
            MemberSeen(
                member_id=member.member_id,
                client_id=member.client_id,
                group_instance_id=member.instance_id,
                assignment=member.owned,
            )
            for member in group.members
        ],
    )


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/v1/groups/{group}/await",
        summary="Wait for a state or an event of a group.",
        do=_await,
        body=AnyWait,
        answers=(GroupSeen, OffsetSeen, EventSeen),
        problems=(409,),
        example={"for": "stable", "members": 2, "timeout": 0.1},
    ),
)
