"""Groups over HTTP: list, describe, create, delete, rewind, and tell their story.

A group as JSON is made in `shim/control/groups.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import orjson
from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

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
from kafka_shim.control.operations.events import story_of
from kafka_shim.control.problems import Problem
from kafka_shim.control.streamed import Streamed, in_pieces
from kafka_shim.control.workbench import Workbench
from kafka_shim.server.history import Entry
from kafka_shim.server.refusals import Refused
from kafka_shim.server.trace_file import limits_of
from kafka_shim.trace.causes import Cause
from kafka_shim.trace.completeness import forgotten
from kafka_shim.trace.history import GroupHistory
from kafka_shim.why.explanation import NO_REBALANCE_SHOWS, NOTHING_SHOWS, as_json, explain

if TYPE_CHECKING:
    from kafka_shim.control.lab_workbench import LabWorkbench

LISTED: Final = 100
"""Rebalances of a group in an answer at most; all are judged."""
_PIECE: Final = 400
"""Items of the list of groups to join before a part of the answer leaves."""

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
"""The states of all kinds of groups."""
GroupType = Literal["classic", "consumer", "share", "streams", "registered"]


class GroupSummary(Answer, kw_only=True):
    """A group in the list of groups."""

    group: str
    type: GroupType
    state: GroupState
    protocol_type: Annotated[str, Meta(description="`consumer` for consumers; empty before the first member.")]
    protocol: Annotated[str | None, Meta(description="The assignor that the members use.", examples=["range"])]
    generation: int
    members: int
    coordinator: Annotated[int, Meta(description="Id of the broker that coordinates it.")]


class Groups(Answer, kw_only=True):
    """All groups."""

    groups: list[GroupSummary]


class Rebalance(Answer, kw_only=True):
    """The present rebalance, or the last one."""

    cause: Cause
    trigger: Annotated[str, Meta(description="Member id of the cause; empty if the cause was no member.")]
    dropped: Annotated[list[str], Meta(description="Members that did not join again in time.")]


class Subscription(Answer, kw_only=True):
    """A consumer's subscription, decoded."""

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
    lag: Annotated[
        int | None, Meta(description="Records after it, below 0 if the log ends before it; null without the partition.")
    ]


class UncommittedPartition(Answer, kw_only=True):
    """A partition that a member owns, without a committed offset."""

    topic: str
    partition: int
    lag: Annotated[int | None, Meta(description="Records from its first one on; null without the partition.")]


class TopologyNode(Answer, kw_only=True):
    """A node of the topology of a streams application."""

    subtopology: Annotated[str, Meta(description="Empty for a node of a global store.")]
    name: str
    type: Literal["source", "processor", "sink"]
    topics: Annotated[list[str], Meta(description="Topics that it reads or writes.")]
    stores: list[str]
    successors: Annotated[list[str], Meta(description="Names of the next nodes.")]


class GroupDescribed(Answer, kw_only=True):
    """All durable facts about one group."""

    group: str
    type: GroupType
    state: GroupState
    protocol_type: str
    protocol: str | None
    generation: Annotated[int, Meta(description="The group epoch of a group with epochs.")]
    assignment_epoch: Annotated[
        int | None, Meta(description="The epoch of the last assignment; null for a group without epochs.")
    ]
    assignment_wait_ms: Annotated[
        int | None,
        Meta(description="Milliseconds that the next assignment still waits for the assignment interval; null if not."),
    ]
    coordinator: int
    partition: Annotated[int, Meta(description="Its partition of __consumer_offsets.")]
    leader: str | None
    rebalance: Rebalance | None
    members: list[GroupMember]
    pending_members: Annotated[list[str], Meta(description="Member ids that were handed out and not used yet.")]
    offsets: list[CommittedOffset]
    uncommitted: Annotated[
        list[UncommittedPartition],
        Meta(description="Partitions that members of a classic or consumer group own, without a committed offset."),
    ]
    ephemeral: bool
    heartbeat_bound_ms: int | None
    topology: Annotated[
        list[TopologyNode], Meta(description="Nodes of a streams group whose application has described its topology.")
    ]


class CreateGroup(Body, kw_only=True):
    """A group to create before its first member."""

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
    """The new group."""

    group: str
    ephemeral: bool
    heartbeat_bound_ms: int | None


class GroupNamed(Answer, kw_only=True):
    """The group of the operation."""

    group: str


class NewOffset(Body, kw_only=True):
    """The new offset of a partition."""

    topic: TopicName
    partition: PartitionNumber
    offset: Offset


class RewindGroup(Body, kw_only=True):
    """The new offsets of a group."""

    offsets: Annotated[list[NewOffset], Meta(max_length=10_000)]
    timeout: (
        Annotated[Timeout, Meta(description="Real seconds to wait at most until every member has started again.")]
        | UnsetType
    ) = UNSET


class GroupRewound(Answer, kw_only=True):
    """A rewind. The offsets are in force; `over` is true once every member has started again."""

    group: str
    removed: Annotated[int, Meta(description="Number of members that have to start again.")]
    over: bool


class GroupStory(Answer, kw_only=True):
    """The story of a group, in lines for a person."""

    story: list[str]


class GroupWhy(Answer, kw_only=True):
    """The reasons of a group's rebalances, as in docs/why.md; remedies are not replayed here."""

    group: str
    verdict: Annotated[str, Meta(description="The result in one sentence.")]
    storm: bool
    rebalances: Annotated[list[dict[str, Any]], Meta(description=f"The last {LISTED}, the oldest first.")]
    patterns: list[dict[str, Any]]
    remedies: Annotated[list[dict[str, Any]], Meta(description="Changes that would help.")]
    would_not_help: Annotated[list[str], Meta(description="Settings that would change nothing, and why.")]
    findings: Annotated[list[dict[str, Any]], Meta(description="Who did what, the costliest first.")]
    calm: Annotated[
        bool | None, Meta(description="Whether there is nothing to do; null if events that may show it are missing.")
    ]
    advice: Annotated[str, Meta(description="The sentence in place of remedies, if there are none.")]
    missing: Annotated[list[str], Meta(description="What the server has forgotten, in sentences without a full stop.")]


class MoveGroup(Body, kw_only=True):
    """The new coordinator of a group."""

    broker: BrokerId


class GroupMoved(Answer, kw_only=True):
    """The present coordinator of a group."""

    group: str
    coordinator: int


def _groups(workbench: Workbench) -> Response:
    return Streamed(_list(workbench), media_type="application/json")


async def _list(workbench: Workbench) -> AsyncGenerator[bytes, None]:
    """Yield the list of groups piece by piece."""
    piece = [b'{"groups":[']
    separator = b""
    async for node, group in each_group(workbench.cluster):
        piece += [separator, orjson.dumps(summary(node, group))]
        separator = b","
        if len(piece) > _PIECE:
            yield b"".join(piece)
            piece.clear()
    yield b"".join([*piece, b"]}"])


async def _describe(workbench: Workbench, group: str) -> Response:
    description = await described(workbench.cluster, group)
    if description is None:
        raise Problem(404, "GROUP_ID_NOT_FOUND", "There is no such group.")
    return Streamed(in_pieces(description), media_type="application/json")


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


def _story(workbench: Workbench, group: str) -> Response:
    if not workbench.has_group(group):
        raise Problem(404, "GROUP_ID_NOT_FOUND", "There is no such group.")
    return story_of(workbench, group)


async def _why(workbench: Workbench, group: str) -> Response:
    if not workbench.has_group(group):
        raise Problem(404, "GROUP_ID_NOT_FOUND", "There is no such group.")
    encoded = partial(_encoded, workbench.history.dropped[0], limits_of(workbench.cluster))
    return Response(await workbench.computed(encoded, group), media_type="application/json")


def _encoded(dropped: int, limits: Mapping[str, int], group: str, entries: Iterable[Entry]) -> bytes:
    """Return the answer as JSON, made in the thread that computes it too: it is long."""
    return msgspec.json.encode(_reasons(dropped, limits, group, entries))


def _reasons(dropped: int, limits: Mapping[str, int], group: str, entries: Iterable[Entry]) -> GroupWhy:
    """Return the answer from the events that are left of a group; the oldest `dropped` ones of all groups are not."""
    history = GroupHistory(group)
    history.broker_limits = limits
    for entry in entries:
        history.add(entry.event)
    if dropped:
        history.missing.gaps.append(forgotten("the server", dropped))
    explanation = explain(history, list(history.rebalances))
    if explanation is None:
        names = ("rebalances", "patterns", "remedies", "would_not_help", "findings")
        nothing: dict[str, Any] = {name: [] for name in names}
        return GroupWhy(
            group=group,
            verdict=f"{NO_REBALANCE_SHOWS if dropped else 'It did not rebalance'}.",
            storm=False,
            calm=None if dropped else True,
            advice=f"{NOTHING_SHOWS if dropped else 'nothing'}.",
            missing=list(history.missing.sentences),
            **nothing,
        )
    document = as_json(explanation, LISTED)
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
        summary="Create an Empty group. It stays until a member has been in it, or it is deleted.",
        do=_create,
        body=CreateGroup,
        answers=(GroupCreated,),
        problems=(409, 503),
        example={"group": "billing", "ephemeral": True, "heartbeat_bound_ms": 10000},
    ),
    Operation(
        method="GET",
        path=_GROUP,
        summary="A group: its members, their assignor, assignments and committed offsets.",
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
        summary="Let a group, with or without members, start again from other offsets.",
        do=_rewind,
        body=RewindGroup,
        answers=(GroupRewound,),
        problems=(404, 409, 503),
        example={"offsets": [{"topic": "orders", "partition": 0, "offset": 17}], "timeout": 30},
    ),
    Operation(
        method="GET",
        path=_GROUP + "/story",
        summary="The story of a group, in lines for a person.",
        do=_story,
        answers=(GroupStory,),
        problems=(404,),
    ),
    Operation(
        method="GET",
        path=_GROUP + "/why",
        summary="The reasons of a group's rebalances, the slow members, and changes that would help.",
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
