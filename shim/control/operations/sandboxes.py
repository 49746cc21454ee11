"""Sandboxes over HTTP: processes that continue the laboratory's run from a moment in the past (`sandboxes.py`)."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.control.operation import Answer, Body, Operation
from kafka_shim.control.problems import Problem
from kafka_shim.control.sandboxes import Sandbox


class SandboxShown(Answer, kw_only=True):
    """A sandbox: the run as it stood at a moment, with puppets in place of its clients, and its time frozen."""

    sandbox: Annotated[int, Meta(description="Its number.")]
    until: Annotated[str, Meta(description="The moment it goes on from, as it was asked for; empty for the newest.")]
    kafka: Annotated[str, Meta(description="Bootstrap servers of its clients.")]
    control: Annotated[str, Meta(description="URL of its page and its control API.")]
    members: Annotated[list[str], Meta(description="The puppet that plays each client, in sentences.")]


class SandboxesShown(Answer, kw_only=True):
    """The running sandboxes, and the state of the journal that they need."""

    journal: Annotated[bool, Meta(description="Whether the laboratory writes the journal that they need.")]
    ended: Annotated[bool, Meta(description="Whether the journal has ended: at its limit, or by a fault.")]
    end_reason: Annotated[str, Meta(description="Why the journal has ended; empty if it has not.")]
    sandboxes: list[SandboxShown]


class MakeSandbox(Body, kw_only=True):
    """A sandbox to make."""

    until: Annotated[
        str,
        Meta(max_length=100, description="The number of an input, or a time such as 14:02:07.5 or an ISO one."),
    ] = ""


def _sandboxes(workbench: LabWorkbench) -> SandboxesShown:
    journal = workbench.cluster.config.journal
    running = [_describe(each) for each in workbench.sandboxes.running.values()]
    return SandboxesShown(
        journal=journal is not None,
        ended=journal is not None and journal.ended,
        end_reason="" if journal is None else journal.end_reason,
        sandboxes=running,
    )


async def _make(workbench: LabWorkbench, body: MakeSandbox) -> SandboxShown:
    return _describe(await workbench.sandboxes.start(body.until.strip()))


def _end(workbench: LabWorkbench, sandbox: int) -> SandboxShown:
    ended = workbench.sandboxes.end(sandbox)
    if ended is None:
        raise Problem(404, "NOT_FOUND", "There is no such sandbox.")
    return _describe(ended)


def _describe(sandbox: Sandbox) -> SandboxShown:
    return SandboxShown(
        sandbox=sandbox.number,
        until=sandbox.until,
        kafka=sandbox.kafka,
        control=sandbox.control,
        members=sandbox.lines,
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/sandboxes",
        summary="The sandboxes that run, and whether there can be any.",
        do=_sandboxes,
        answers=(SandboxesShown,),
        lab=True,
        tag="time",
    ),
    Operation(
        method="POST",
        path="/v1/sandboxes",
        summary="Let the run go on from a moment of its past, in another process, with puppets for clients.",
        do=_make,
        body=MakeSandbox,
        answers=(SandboxShown,),
        problems=(409,),
        lab=True,
        tag="time",
        example={"until": "2026-11-22T14:02:07.500Z"},
    ),
    Operation(
        method="DELETE",
        path="/v1/sandboxes/{sandbox}",
        summary="End a sandbox.",
        do=_end,
        answers=(SandboxShown,),
        problems=(404,),
        lab=True,
        tag="time",
    ),
)
