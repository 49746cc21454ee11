"""Faults over HTTP: create, list, await, clear.

The fields of each action; their effects are in `shim/lab/faults.py`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.control.operation import TIMEOUT, Answer, Body, Operation, Timeout
from kafka_shim.control.operations.matching import Failure, Match, Matched, set_fields
from kafka_shim.control.problems import Problem
from kafka_shim.lab.faults import Fault
from kafka_shim.lab.group_waits import NotReached


class Plan(Match, tag_field="action", kw_only=True):
    """The number and timing of a fault's occurrences."""

    times: Annotated[
        Annotated[int, Meta(ge=1, le=2**31 - 1)] | None, Meta(description="How often; null for always.")
    ] = 1
    nth: Annotated[int, Meta(ge=1, le=2**31 - 1, description="Only the n-th time.")] | UnsetType = UNSET
    probability: Annotated[float, Meta(ge=0, le=1, description="By chance.")] | UnsetType = UNSET
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1, description="Seed of the chance.")] = 0
    for_s: (
        Annotated[
            float,
            Meta(ge=0, le=86_400, description="Seconds of the coordinator's time after the first time; then no more."),
        ]
        | UnsetType
    ) = UNSET
    optional: Annotated[bool, Meta(description="Whether it need not happen.")] = False


_Applied = Annotated[bool, Meta(description="Do it to the answer, when the request has taken effect.")]


class ErrorFault(Plan, tag="error", kw_only=True):
    """Answer an error. With `code` too, that is the answer, and `error` selects the answers to replace."""

    error: Annotated[Failure, Meta(description="The error to answer.", examples=["NOT_COORDINATOR", 16])]
    code: Failure | UnsetType = UNSET
    applied: _Applied = False
    evict: Annotated[
        bool,
        Meta(description="Whether UNKNOWN_MEMBER_ID and FENCED_INSTANCE_ID remove the member from its group first."),
    ] = True


class DelayFault(Plan, tag="delay", kw_only=True):
    """Delay the request."""

    seconds: Annotated[float, Meta(gt=0, le=86_400)]
    applied: _Applied = False


class DropFault(Plan, tag="drop", kw_only=True):
    """Neither serve nor answer the request."""


class SwallowFault(Plan, tag="swallow", kw_only=True):
    """Serve the request, but do not answer it."""


class CloseFault(Plan, tag="close", kw_only=True):
    """Close the connection."""

    when: Literal["before", "applied", "answered"] = "before"


class DuplicateFault(Plan, tag="duplicate", kw_only=True):
    """Serve the request twice, answer once."""


class HalfOpenFault(Plan, tag="half-open", kw_only=True):
    """Serve and answer no further request of the connection, but keep it open."""

    applied: _Applied = False


class SlowFault(Plan, tag="slow", kw_only=True):
    """Send the answer in pieces."""

    bytes_per_second: Annotated[float, Meta(ge=1, le=1e9)] = 100.0


AnyFault = ErrorFault | DelayFault | DropFault | SwallowFault | CloseFault | DuplicateFault | HalfOpenFault | SlowFault


class FaultShown(Matched, kw_only=True):
    """A fault in force, and the count of its occurrences."""

    fault: Annotated[int, Meta(description="Its number.")]
    action: str
    code: int | UnsetType = UNSET
    seconds: float
    bytes_per_second: float
    when: str
    applied: bool
    evict: bool | UnsetType = UNSET
    times: int | None
    nth: int | None
    probability: float | None
    seed: int
    for_s: float | UnsetType = UNSET
    optional: bool
    matched: Annotated[int, Meta(description="How many requests it fitted.")]
    fired: Annotated[int, Meta(description="How often it has happened.")]


class Faults(Answer, kw_only=True):
    """Faults in force."""

    faults: list[FaultShown]


class FaultsCleared(Answer, kw_only=True):
    """Faults that were in force; `unfired` are those that have not happened though they were to."""

    faults: list[FaultShown]
    unfired: list[int]


class AwaitFault(Body, kw_only=True):
    """The number of occurrences to wait for."""

    times: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1
    timeout: Timeout = TIMEOUT


def _faults(workbench: LabWorkbench) -> dict[str, Any]:
    return {"faults": [fault.to_json() for fault in workbench.faults]}


def _add(workbench: LabWorkbench, body: AnyFault) -> dict[str, Any]:
    return workbench.faults.declare(set_fields(body)).to_json()


def _show(workbench: LabWorkbench, number: int) -> dict[str, Any]:
    return _find(workbench, number).to_json()


async def _fired(workbench: LabWorkbench, number: int, body: AwaitFault) -> dict[str, Any]:
    fault = _find(workbench, number)
    if not await workbench.interception.until(lambda: fault.fired >= body.times, body.timeout):
        raise NotReached(
            f"Waited {body.timeout:g} s for {fault} to happen {body.times} times; it was {fault.fired},"
            f" of {fault.matched} requests that it fitted."
        )
    return fault.to_json()


def _clear(workbench: LabWorkbench, number: int) -> dict[str, Any]:
    fault = _find(workbench, number)
    fault.clear()
    return fault.to_json()


def _clear_all(workbench: LabWorkbench) -> dict[str, Any]:
    faults = list(workbench.faults)
    workbench.faults.clear()
    unfired = [fault.number for fault in faults if not fault.fired and not fault.optional]
    return {"faults": [fault.to_json() for fault in faults], "unfired": unfired}


def _find(workbench: LabWorkbench, number: int) -> Fault:
    fault = workbench.faults.get(number)
    if fault is None:
        raise Problem(404, "NOT_FOUND", "There is no such fault.")
    return fault


_FAULT: Final = "/v1/faults/{fault}"

OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/faults",
        summary="All faults in force.",
        do=_faults,
        answers=(Faults,),
        lab=True,
        tag="faults",
    ),
    Operation(
        method="POST",
        path="/v1/faults",
        summary="Put a fault in force.",
        do=_add,
        body=AnyFault,
        answers=(FaultShown,),
        lab=True,
        tag="faults",
        example={"action": "error", "api": "OffsetCommit", "error": "NOT_COORDINATOR", "group": "billing", "times": 2},
    ),
    Operation(
        method="DELETE",
        path="/v1/faults",
        summary="Let no fault happen any more; says which never happened.",
        do=_clear_all,
        answers=(FaultsCleared,),
        lab=True,
        tag="faults",
    ),
    Operation(
        method="GET",
        path=_FAULT,
        summary="A fault, and how often it has happened.",
        do=_show,
        answers=(FaultShown,),
        problems=(404,),
        lab=True,
        tag="faults",
    ),
    Operation(
        method="DELETE",
        path=_FAULT,
        summary="Let a fault happen no more.",
        do=_clear,
        answers=(FaultShown,),
        problems=(404,),
        lab=True,
        tag="faults",
    ),
    Operation(
        method="POST",
        path=_FAULT + "/await",
        summary="Wait until a fault has happened so often.",
        do=_fired,
        body=AwaitFault,
        answers=(FaultShown,),
        problems=(404, 409),
        lab=True,
        tag="faults",
        example={"times": 1, "timeout": 0.1},
    ),
)
