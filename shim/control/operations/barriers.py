"""Barriers over HTTP: create, await, release, remove."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import trio
from msgspec import UNSET, Meta, UnsetType

from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.control.operation import TIMEOUT, Answer, Body, Operation, Timeout
from kafka_shim.control.operations.matching import API_NAMES, Match, Matched, check_name, set_fields
from kafka_shim.control.problems import Problem
from kafka_shim.lab.barriers import NAMED_POINTS, Barrier
from kafka_shim.lab.group_waits import NotReached, StoryTail
from kafka_shim.lab.interception import api_names, split_match

_POINTS: Final = ("request", "answer", *NAMED_POINTS)
Point = Annotated[
    str,
    Meta(
        description="`request` or `answer`, a named point, or an API for its requests.",
        extra_json_schema={"enum": [*_POINTS, *API_NAMES]},
    ),
]


class CreateBarrier(Match, kw_only=True):
    """The requests to hold, and the point at which to hold them."""

    point: Point

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("point", self.point, (*_POINTS, *api_names()))


class HeldRequest(Answer, kw_only=True):
    """A request, or its answer, that is held."""

    connection: int
    api: str
    member: str


class BarrierShown(Matched, kw_only=True):
    """A barrier in force."""

    barrier: Annotated[int, Meta(description="Its number.")]
    point: Literal["request", "answer"]
    reached: Annotated[int, Meta(description="How many it has held so far.")]
    held: list[HeldRequest]


class Barriers(Answer, kw_only=True):
    """All barriers in force."""

    barriers: list[BarrierShown]


class AwaitBarrier(Body, kw_only=True):
    """The number of requests to wait for."""

    requests: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 1
    timeout: Timeout = TIMEOUT


class ReleaseBarrier(Body, kw_only=True):
    """The number of requests to release; all by default."""

    requests: Annotated[int, Meta(ge=1, le=2**31 - 1)] | UnsetType = UNSET


class BarrierReleased(Answer, kw_only=True):
    """The number of released requests."""

    released: int


def _barriers(workbench: LabWorkbench) -> dict[str, Any]:
    return {"barriers": [barrier.to_json() for barrier in workbench.barriers.barriers.values()]}


def _add(workbench: LabWorkbench, body: CreateBarrier) -> dict[str, Any]:
    fields = set_fields(body)
    point = fields.pop("point")
    match, _ = split_match(fields)
    if point in ("request", "answer"):
        return workbench.barriers.add(match, point).to_json()
    return workbench.barriers.at(point, match).to_json()


async def _reached(workbench: LabWorkbench, number: int, body: AwaitBarrier) -> dict[str, Any]:
    barrier = _find(workbench, number)
    if not await barrier.reached_by(body.requests, body.timeout):
        tail = StoryTail()
        for piece in workbench.story_pieces():
            tail.add(piece)
            await trio.lowlevel.checkpoint()
        story = "\n  ".join(tail.lines)
        raise NotReached(
            f"Waited {body.timeout:g} s for the {barrier} to hold {body.requests}; it holds {len(barrier.held)}.\n"
            f"The story so far:\n  {story}"
        )
    return barrier.to_json()


def _release(workbench: LabWorkbench, number: int, body: ReleaseBarrier) -> BarrierReleased:
    requests = None if body.requests is UNSET else body.requests
    return BarrierReleased(released=_find(workbench, number).release(requests))


def _remove(workbench: LabWorkbench, number: int) -> dict[str, Any]:
    barrier = _find(workbench, number)
    barrier.remove()
    return barrier.to_json()


def _find(workbench: LabWorkbench, number: int) -> Barrier:
    barrier = workbench.barriers.barriers.get(number)
    if barrier is None:
        raise Problem(404, "NOT_FOUND", "There is no such barrier.")
    return barrier


_BARRIER: Final = "/v1/barriers/{barrier}"

OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/barriers",
        summary="All barriers in force.",
        do=_barriers,
        answers=(Barriers,),
        lab=True,
        tag="barriers",
    ),
    Operation(
        method="POST",
        path="/v1/barriers",
        summary="Hold requests, or answers, until they are let go.",
        do=_add,
        body=CreateBarrier,
        answers=(BarrierShown,),
        lab=True,
        tag="barriers",
        example={"point": "leader-sync-arrived", "group": "billing"},
    ),
    Operation(
        method="POST",
        path=_BARRIER + "/await",
        summary="Wait until a barrier holds so many.",
        do=_reached,
        body=AwaitBarrier,
        answers=(BarrierShown,),
        problems=(404, 409),
        lab=True,
        tag="barriers",
        example={"requests": 1, "timeout": 0.1},
    ),
    Operation(
        method="POST",
        path=_BARRIER + "/release",
        summary="Release requests that a barrier holds.",
        do=_release,
        body=ReleaseBarrier,
        answers=(BarrierReleased,),
        problems=(404,),
        lab=True,
        tag="barriers",
        example={"requests": 1},
    ),
    Operation(
        method="DELETE",
        path=_BARRIER,
        summary="Let go everything, and hold nothing more.",
        do=_remove,
        answers=(BarrierShown,),
        problems=(404,),
        lab=True,
        tag="barriers",
    ),
)
