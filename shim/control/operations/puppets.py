"""Puppets over HTTP: scripted members that join beside the client under test.

Their number is bounded. The bodies for their acts are in `acts.py`; the workbench runs them, if the coordinator is for
tests.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.control.operation import Answer, Choice, Operation, Owned
from kafka_shim.control.operations.acts import AnyAct, AnyPuppet, CreatePuppet, act, kind_of, script_of
from kafka_shim.control.problems import Problem
from kafka_shim.lab.puppets import Puppet
from kafka_shim.server.refusals import Refused

MAX_PUPPETS: Final = 1000
_ERRORS_SHOWN: Final = 100


class ErrorSeen(Answer, kw_only=True):
    """An error in an answer to a puppet."""

    api: str
    error: str


class PuppetShown(Answer, kw_only=True):
    """A puppet: its own view of its membership, and the newest errors in its answers."""

    puppet: Annotated[int, Meta(description="Its number.")]
    kind: Annotated[str, Meta(description="The kind of its group.")]
    group: str
    client_id: str
    instance_id: str | None
    member_id: Annotated[str, Meta(description="Empty while it has none.")]
    generation: Annotated[int, Meta(description="Its generation or member epoch; -1 while it has none.")]
    leads: bool
    fenced: bool
    owned: Annotated[Owned, Meta(description="Partitions by topic; tasks by subtopology in a streams group.")]
    installed: Annotated[list[int], Meta(description="Group epochs with an assignment that it computed.")]
    positions: Annotated[
        dict[str, dict[str, int]],
        Meta(description="Where a registered one began, by topic and partition; -1 where nothing was committed."),
    ]
    errors: list[ErrorSeen]


class Puppets(Answer, kw_only=True):
    """All puppets."""

    puppets: list[PuppetShown]


def _puppets(workbench: LabWorkbench) -> Puppets:
    return Puppets(puppets=[puppet_shown(number, puppet) for number, puppet in workbench.puppets.items()])


def _create(workbench: LabWorkbench, body: AnyPuppet) -> PuppetShown:
    if len(workbench.puppets) >= MAX_PUPPETS:
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"There are {MAX_PUPPETS} puppets at most.")
    try:
        number = workbench.add_puppet(kind_of(body), script_of(body))
    except ValueError as error:
        raise Problem(409, "INVALID_REQUEST", str(error)) from None
    return puppet_shown(number, workbench.puppets[number])


def _show(workbench: LabWorkbench, number: int) -> PuppetShown:
    return puppet_shown(number, _find(workbench, number))


def _do(workbench: LabWorkbench, number: int, body: AnyAct) -> PuppetShown:
    puppet = _find(workbench, number)
    act(puppet, body)
    return puppet_shown(number, puppet)


def _remove(workbench: LabWorkbench, number: int) -> PuppetShown:
    puppet = _find(workbench, number)
    puppet.crash()
    del workbench.puppets[number]
    return puppet_shown(number, puppet)


def _find(workbench: LabWorkbench, number: int) -> Puppet:
    puppet = workbench.puppets.get(number)
    if puppet is None:
        raise Problem(404, "NOT_FOUND", "There is no such puppet.")
    return puppet


def puppet_shown(number: int, puppet: Puppet) -> PuppetShown:
    """Return a puppet as the API shows it."""
    positions: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in getattr(puppet, "positions", {}).items():
        positions.setdefault(topic, {})[str(partition)] = offset
    return PuppetShown(
        puppet=number,
        kind=puppet.kind,
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
        choice=Choice(field="kind", default=CreatePuppet, places=lambda body: (body,)),
        answers=(PuppetShown,),
        problems=(404, 409),
        lab=True,
        tag="puppets",
        example={"group": "billing", "topics": ["orders"], "protocols": ["cooperative-sticky"], "instance_id": "one"},
    ),
    Operation(
        method="GET",
        path=_PUPPET,
        summary="A puppet: its partitions, and the errors in its answers.",
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
