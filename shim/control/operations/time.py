"""The coordinator's time over HTTP: freeze it, put it forward, let it go on."""

from __future__ import annotations

from math import inf
from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.control.operation import Answer, Body, Operation
from kafka_shim.control.problems import Problem
from kafka_shim.lab.clock import TestClock


class Clock(Answer, kw_only=True):
    """The coordinator's clock."""

    now: Annotated[float, Meta(description="Its monotonic seconds.")]
    wall: Annotated[float, Meta(description="The same moment in seconds of Unix time.")]
    frozen: bool
    due: Annotated[float | None, Meta(description="When the next timer fires, on this clock; null if none is armed.")]


class SetClock(Body, kw_only=True):
    """A change of the clock: first stop it or let it go on, then put it forward to the next timer, then by seconds."""

    frozen: bool | UnsetType = UNSET
    next_timer: Annotated[bool, Meta(description="Put it forward until the next timer fires.")] = False
    advance: Annotated[float, Meta(ge=0, le=31 * 86_400, description="Seconds to put it forward.")] = 0.0


def _clock(workbench: LabWorkbench) -> Clock:
    clock = _own(workbench)
    due = workbench.next_due()
    now = clock()
    return Clock(
        now=now, wall=now + workbench.cluster.wall_offset, frozen=clock.is_frozen, due=due if due < inf else None
    )


async def _set(workbench: LabWorkbench, body: SetClock) -> Clock:
    _own(workbench)
    if body.frozen is True:
        workbench.freeze()
    elif body.frozen is False:
        workbench.resume()
    if body.next_timer and (due := workbench.next_due()) < inf:
        await workbench.advance_giving_way(max(due - _own(workbench)(), 0.0))
    if body.advance:
        await workbench.advance_giving_way(body.advance)
    workbench.settle()
    return _clock(workbench)


def _own(workbench: LabWorkbench) -> TestClock:
    if workbench.clock is None:
        raise Problem(403, "FORBIDDEN", "This coordinator's clock is not to be changed.")
    return workbench.clock


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/clock",
        summary="The coordinator's time.",
        do=_clock,
        answers=(Clock,),
        lab=True,
        tag="time",
    ),
    Operation(
        method="POST",
        path="/v1/clock",
        summary="Stop the coordinator's clock, let it go on, put it forward.",
        do=_set,
        body=SetClock,
        answers=(Clock,),
        lab=True,
        tag="time",
        example={"frozen": True, "advance": 46},
    ),
)
