"""Groups over HTTP: listed, described, made ahead, deleted, rewound, and their story.

Decides what each of these takes and answers. How a group is shown is in `shim/control/groups.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import orjson
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response, StreamingResponse

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.groups import described, each_group, summary
from kafka_shim.control.operation import (
    Answer,
    Body,
    BrokerId,
    GroupId,
    Offset,
    Operation,
    Owned,
    PartitionNumber,
    Timeout,
    TopicName,
)
from kafka_shim.control.problems import Problem
from kafka_shim.control.workbench import Workbench
from kafka_shim.groups.causes import Cause
from kafka_shim.server.refusals import Refused
from kafka_shim.why.explanation import as_json, explain

if TYPE_CHECKING:
    from kafka_shim.control.lab_workbench import LabWorkbench

EXPLAINED: Final = 100
"""Rebalances of a group that are explained."""
_PIECE: Final = 400

GroupState = Literal[
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Registering",
    "Stable",
    "Dead",
]
"""Those of every kind of group."""
GroupType = Literal["classic", "consumer", "share", "streams", "registered"]


class GroupSummary(Answer, kw_only=True):
    """A group in the list of groups."""

    group: str
    type: GroupType
    state: GroupState
    protocol_type: Annotated[str, Meta(description="`consumer` for consumers; empty while nobody has joined.")]
    protocol: Annotated[str | None, Meta(description="The assignor that the members use.", examples=["range"])]
    generation: int
    members: int
    coordinator: Annotated[int, Meta(description="Id of the broker that coordinates it.")]


class Groups(Answer, kw_only=True):
    """All groups."""

    groups: list[GroupSummary]


class Rebalance(Answer, kw_only=True):
    """The rebalance that goes on, or the last one."""

    cause: Cause
    trigger: Annotated[str, Meta(description="Member id of whoever was the cause; empty if it was no member.")]
    dropped: Annotated[list[str], Meta(description="Member ids of those who did not join again in time.")]


class Subscription(Answer, kw_only=True):
    """What a consumer wants, decoded."""

    topics: list[str]
    owned_partitions: Owned
    generation: int
    rack: str | None
    user_data_bytes: int


class GroupMember(Answer, kw_only=True):
    """A member of a group. Subscription and assignment are those of consumers, None where they cannot be decoded."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Annotated[list[str], Meta(description="Assignors that it supports, the preferred first.")]
    waits_for: Literal["join", "sync"] | None
    subscription: Subscription | None
    assignment: Annotated[Owned | None, Meta(description="Its partitions, by topic.")]


class CommittedOffset(Answer, kw_only=True):
    """A committed offset."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: Annotated[int, Meta(description="Milliseconds of Unix time.")]
    lag: Annotated[int | None, Meta(description="Records behind it; null if the broker has no such partition.")]


class GroupDescribed(Answer, kw_only=True):
    """Everything about one group, as far as it is durable."""

    group: str
    type: GroupType
    state: GroupState
    protocol_type: str
    protocol: str | None
    generation: int
    coordinator: int
    partition: Annotated[int, Meta(description="Its partition of __consumer_offsets.")]
    leader: str | None
    rebalance: Rebalance | None
    members: list[GroupMember]
    pending_members: Annotated[list[str], Meta(description="Member ids that were handed out and not used yet.")]
    offsets: list[CommittedOffset]
    ephemeral: bool
    heartbeat_bound_ms: int | None


class CreateGroup(Body, kw_only=True):
    """A group made ahead."""

    group: GroupId
    ephemeral: Annotated[bool, Meta(description="Delete it, offsets and all, when its last member is gone.")] = False
    heartbeat_bound_ms: Annotated[
        Annotated[int, Meta(ge=1, le=1_800_000)] | None,
        Meta(
            description="How long a member may stay silent, whatever session timeout it asks for;"
            " null for the session timeout alone."
        ),
    ] = None


class GroupCreated(Answer, kw_only=True):
    """What was made."""

    group: str
    ephemeral: bool
    heartbeat_bound_ms: int | None


class GroupNamed(Answer, kw_only=True):
    """The group that it was done to."""

    group: str


class NewOffset(Body, kw_only=True):
    """Where to begin anew in a partition."""

    topic: TopicName
    partition: PartitionNumber
    offset: Offset


class RewindGroup(Body, kw_only=True):
    """Where to begin anew."""

    offsets: list[NewOffset]
    timeout: (
        Annotated[Timeout, Meta(description="Wait so many real seconds at most until all have begun anew.")] | UnsetType
    ) = UNSET


class GroupRewound(Answer, kw_only=True):
    """A rewind. The offsets count; `over` says whether every member has begun anew."""

    group: str
    removed: Annotated[int, Meta(description="How many members have to begin anew.")]
    over: bool


class GroupStory(Answer, kw_only=True):
    """What happened to a group, in lines a person reads."""

    story: list[str]


class GroupWhy(Answer, kw_only=True):
    """Why a group rebalanced, as docs/why.md says; remedies are not replayed here."""

    group: str
    verdict: Annotated[str, Meta(description="What it amounts to, in a sentence.")]
    storm: bool
    rebalances: Annotated[list[dict[str, Any]], Meta(description="The last ones, the oldest first.")]
    patterns: list[dict[str, Any]]
    remedies: Annotated[list[dict[str, Any]], Meta(description="What to do.")]
    would_not_help: Annotated[list[str], Meta(description="Settings that would change nothing, and why.")]


class MoveGroup(Body, kw_only=True):
    """Who is to coordinate it."""

    broker: BrokerId


class GroupMoved(Answer, kw_only=True):
    """Who coordinates it now."""

    group: str
    coordinator: int


def _groups(workbench: Workbench) -> Response:
    return StreamingResponse(_list(workbench), media_type="application/json")


async def _list(workbench: Workbench) -> AsyncIterator[bytes]:
    """The list of groups as it is found, piece by piece."""
    piece = [b'{"groups":[']
    separator = b""
    async for node, group in each_group(workbench.cluster):
        piece += [separator, orjson.dumps(summary(node, group))]
        separator = b","
        if len(piece) > _PIECE:
            yield b"".join(piece)
            piece.clear()
    yield b"".join([*piece, b"]}"])


async def _describe(workbench: Workbench, group: str) -> dict[str, Any]:
    found = await described(workbench.cluster, group)
    if found is None:
        raise Problem(404, "GROUP_ID_NOT_FOUND", "There is no such group.")
    return found


def _create(workbench: Workbench, body: CreateGroup) -> GroupCreated:
    workbench.create_group(body.group, body.ephemeral, body.heartbeat_bound_ms)
    return GroupCreated(group=body.group, ephemeral=body.ephemeral, heartbeat_bound_ms=body.heartbeat_bound_ms)


def _delete(workbench: Workbench, group: str) -> GroupNamed:
    workbench.delete_group(group)
    return GroupNamed(group=group)


async def _rewind(workbench: Workbench, group: str, body: RewindGroup) -> GroupRewound:
    if workbench.cluster.config.journal is not None:
        raise Refused(ErrorCode.INVALID_REQUEST, "A server that writes a journal rewinds no group.")
    # Imported here because few servers without a laboratory use it.
    from kafka_shim.control.lab_workbench import lab_workbench_of

    rewind = lab_workbench_of(workbench).rewind(
        group, {(each.topic, each.partition): each.offset for each in body.offsets}
    )
    await rewind.durable()
    over = rewind.is_over if body.timeout is UNSET else await rewind.over(body.timeout)
    return GroupRewound(group=group, removed=rewind.removed, over=over)


def _story(workbench: Workbench, group: str) -> GroupStory:
    if not workbench.has_group(group):
        raise Problem(404, "GROUP_ID_NOT_FOUND", "There is no such group.")
    return GroupStory(story=workbench.story(group))


def _why(workbench: Workbench, group: str) -> GroupWhy:
    if not workbench.has_group(group):
        raise Problem(404, "GROUP_ID_NOT_FOUND", "There is no such group.")
    history = workbench.history_of(group)
    found = explain(history, list(history.rebalances)[-EXPLAINED:])
    if found is None:
        nothing: dict[str, Any] = {name: [] for name in ("rebalances", "patterns", "remedies", "would_not_help")}
        return GroupWhy(group=group, verdict="It did not rebalance.", storm=False, **nothing)
    document = as_json(found)
    return GroupWhy(**{name: document[name] for name in GroupWhy.__struct_fields__})


def _move(workbench: LabWorkbench, group: str, body: MoveGroup) -> GroupMoved:
    workbench.move(group, body.broker)
    workbench.settle()
    return GroupMoved(group=group, coordinator=workbench.coordinator_of(group))


_GROUP: Final = "/v1/groups/{group}"

OPERATIONS: Final = (
    Operation(method="GET", path="/v1/groups", summary="All groups.", do=_groups, answers=(Groups,)),
    Operation(
        method="POST",
        path="/v1/groups",
        summary="Make an Empty group ahead. It stays until somebody has been in it, or it is deleted.",
        do=_create,
        body=CreateGroup,
        answers=(GroupCreated,),
        problems=(409, 503),
        example={"group": "billing", "ephemeral": True, "heartbeat_bound_ms": 10000},
    ),
    Operation(
        method="GET",
        path=_GROUP,
        summary="A group: its members, the assignor they use, who owns what, and what is committed.",
        do=_describe,
        answers=(GroupDescribed,),
        problems=(404,),
    ),
    Operation(
        method="DELETE",
        path=_GROUP,
        summary="Delete an Empty group and its offsets.",
        do=_delete,
        answers=(GroupNamed,),
        problems=(404, 409, 503),
    ),
    Operation(
        method="POST",
        path=_GROUP + "/rewind",
        summary="Let a group, alive or not, begin anew from other offsets.",
        do=_rewind,
        body=RewindGroup,
        answers=(GroupRewound,),
        problems=(404, 409, 503),
        example={"offsets": [{"topic": "orders", "partition": 0, "offset": 17}], "timeout": 30},
    ),
    Operation(
        method="GET",
        path=_GROUP + "/story",
        summary="What happened to a group, in lines a person reads.",
        do=_story,
        answers=(GroupStory,),
        problems=(404,),
    ),
    Operation(
        method="GET",
        path=_GROUP + "/why",
        summary="Why a group rebalanced, who was slow, and what to do.",
        do=_why,
        answers=(GroupWhy,),
        problems=(404,),
    ),
    Operation(
        method="POST",
        path=_GROUP + "/move",
        summary="Let another broker coordinate a group.",
        do=_move,
        body=MoveGroup,
        answers=(GroupMoved,),
        problems=(404, 409),
        lab=True,
        example={"broker": 2},
    ),
)
