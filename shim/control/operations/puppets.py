"""Puppets over HTTP: scripted members that join beside the client under test.

Decides what is shown of a puppet, and how many there are. What it is told is in `acts.py`; what it does by itself is in
the workbench, which has none where the coordinator is not for tests.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.control.operation import Answer, Choice, Operation, Owned
from kafka_shim.control.operations.acts import AnyAct, AnyPuppet, CreatePuppet, act, kind_of, script_of
from kafka_shim.control.problems import Problem
from kafka_shim.lab.casting import kind_played_by
from kafka_shim.lab.puppets import Puppet
from kafka_shim.server.refusals import Refused

MAX_PUPPETS: Final = 1000
_ERRORS_SHOWN: Final = 100


class ErrorSeen(Answer, kw_only=True):
    """An error that a puppet was answered."""

    api: str
    error: str


class PuppetShown(Answer, kw_only=True):
    """A puppet: what it knows of itself, and the newest errors that it was answered."""

    puppet: Annotated[int, Meta(description="What it is called by.")]
    kind: Annotated[str, Meta(description="Of what kind of group it is a member.")]
    group: str
    client_id: str
    instance_id: str | None
    member_id: Annotated[str, Meta(description="Empty while it has none.")]
    generation: Annotated[int, Meta(description="Its generation or member epoch; -1 while it has none.")]
    leads: bool
    fenced: bool
    owned: Annotated[Owned, Meta(description="Partitions by topic; tasks by subtopology in a streams group.")]
    installed: Annotated[list[int], Meta(description="Group epochs whose assignment it computed.")]
    positions: Annotated[
        dict[str, dict[str, int]],
        Meta(description="Where a registered one began, by topic and partition; -1 where nothing was committed."),
    ]
    errors: list[ErrorSeen]


class Puppets(Answer, kw_only=True):
    """All puppets."""

    puppets: list[PuppetShown]


def _puppets(workbench: LabWorkbench) -> Puppets:
    return Puppets(puppets=[shown(number, puppet) for number, puppet in workbench.puppets.items()])


def _create(workbench: LabWorkbench, body: AnyPuppet) -> PuppetShown:
    if len(workbench.puppets) >= MAX_PUPPETS:
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"There are {MAX_PUPPETS} puppets at most.")
    try:
        number = workbench.add_puppet(kind_of(body), script_of(body))
    except ValueError as error:
        raise Problem(409, "INVALID_REQUEST", str(error)) from None
    return shown(number, workbench.puppets[number])


def _show(workbench: LabWorkbench, puppet: int) -> PuppetShown:
    return shown(puppet, _found(workbench, puppet))


def _do(workbench: LabWorkbench, puppet: int, body: AnyAct) -> PuppetShown:
    found = _found(workbench, puppet)
    act(found, body)
    return shown(puppet, found)


def _remove(workbench: LabWorkbench, puppet: int) -> PuppetShown:
    found = _found(workbench, puppet)
    found.crash()
    del workbench.puppets[puppet]
    return shown(puppet, found)


def _found(workbench: LabWorkbench, number: int) -> Puppet:
    puppet = workbench.puppets.get(number)
    if puppet is None:
        raise Problem(404, "NOT_FOUND", "There is no such puppet.")
    return puppet


def shown(number: int, puppet: Puppet) -> PuppetShown:
    """A puppet as it is."""
    positions: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in getattr(puppet, "positions", {}).items():
        positions.setdefault(topic, {})[str(partition)] = offset
    return PuppetShown(
        puppet=number,
        kind=kind_played_by(puppet),
        group=puppet.script.group,
        client_id=puppet.script.client_id,
        instance_id=puppet.script.instance_id,
        member_id=puppet.member_id,
        generation=puppet.generation,
        leads=puppet.leads,
        fenced=puppet.fenced,
        owned=puppet.owned,
        installed=getattr(puppet, "installed", []),
        positions=positions,
        errors=[ErrorSeen(api=api, error=error.name) for api, error in puppet.errors[-_ERRORS_SHOWN:]],
    )


_PUPPET: Final = "/v1/puppets/{puppet}"

OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/v1/puppets",
        summary="All puppets.",
        do=_puppets,
        answers=(Puppets,),
        lab=True,
        tag="puppets",
    ),
    Operation(
        method="POST",
        path="/v1/puppets",
        summary="Let a scripted member join a group of any kind: eager, cooperative, static, or of bad manners.",
        do=_create,
        body=AnyPuppet,
        choice=Choice(field="kind", meant=CreatePuppet, places=lambda body: (body,)),
        answers=(PuppetShown,),
        problems=(404, 409),
        lab=True,
        tag="puppets",
        example={"group": "billing", "topics": ["orders"], "protocols": ["cooperative-sticky"], "instance_id": "one"},
    ),
    Operation(
        method="GET",
        path=_PUPPET,
        summary="A puppet: what it owns, and what errors it was answered.",
        do=_show,
        answers=(PuppetShown,),
        problems=(404,),
        lab=True,
        tag="puppets",
    ),
    Operation(
        method="POST",
        path=_PUPPET,
        summary="Let a puppet do something.",
        do=_do,
        body=AnyAct,
        answers=(PuppetShown,),
        problems=(404, 409),
        lab=True,
        tag="puppets",
        example={"do": "commit", "offsets": [{"topic": "orders", "partition": 0, "offset": 3}], "generation": 1},
    ),
    Operation(
        method="DELETE",
        path=_PUPPET,
        summary="Let a puppet be gone without a word.",
        do=_remove,
        answers=(PuppetShown,),
        problems=(404,),
        lab=True,
        tag="puppets",
    ),
)
