"""The coordinator's time over HTTP: frozen, put forward, let go on."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.control.operation import Answer, Body, Operation
from kafka_shim.control.problems import Problem
from kafka_shim.lab.clock import TestClock


class Clock(Answer, kw_only=True):
    """The coordinator's clock."""

    now: Annotated[float, Meta(description="Its monotonic seconds.")]
    frozen: bool


class SetClock(Body, kw_only=True):
    """What to do to it: first stop it or let it go on, then put it forward."""

    frozen: bool | UnsetType = UNSET
    advance: Annotated[float, Meta(ge=0, le=31 * 86_400, description="Seconds to put it forward.")] = 0.0


def _clock(workbench: LabWorkbench) -> Clock:
    clock = _own(workbench)
    return Clock(now=clock(), frozen=clock.is_frozen)


async def _set(workbench: LabWorkbench, body: SetClock) -> Clock:
    _own(workbench)
    if body.frozen is True:
        workbench.freeze()
    elif body.frozen is False:
        workbench.resume()
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
