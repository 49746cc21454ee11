"""Puppets over HTTP: scripted members that join beside the client under test.

Decides which commands a puppet takes. What it does by itself is in the workbench; it has none where the
coordinator is not for tests.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.control.lab_workbench import LabWorkbench
from kafka_shim.control.operation import (
    Answer,
    Body,
    GroupId,
    Offset,
    Operation,
    Owned,
    PartitionNumber,
    Text,
    TopicName,
)
from kafka_shim.control.problems import Problem
from kafka_shim.lab.puppets import Puppet
from kafka_shim.server.refusals import Refused

MAX_PUPPETS: Final = 1000
_ERRORS_SHOWN: Final = 100

Seconds = Annotated[float, Meta(ge=0, le=86_400)]


class Manner(Body, kw_only=True):
    """How it misbehaves."""

    never_syncs: Annotated[bool, Meta(description="It joins, and never sends SyncGroup.")] = False
    never_rejoins: Annotated[bool, Meta(description="It does not hear that it is called to join again.")] = False
    joins_twice: Annotated[bool, Meta(description="It sends each JoinGroup over two connections.")] = False
    heartbeat_late: Annotated[Seconds, Meta(description="Its heartbeats come so much later than they should.")] = 0.0
    never_revokes: Annotated[bool, Meta(description="It claims to own partitions that it had to revoke.")] = False
    assigns_nothing: Annotated[bool, Meta(description="As leader it gives nobody anything.")] = False


class CreatePuppet(Body, kw_only=True):
    """A puppet. It joins at once. Times are seconds of the coordinator's clock."""

    group: GroupId
    topics: list[TopicName]
    client_id: Text = "puppet"
    protocols: Annotated[
        tuple[Literal["range", "roundrobin", "cooperative-sticky", "RoundRobinAssigner"], ...],
        Meta(min_length=1, max_length=4, description="Assignors, the preferred first."),
    ] = ("range", "roundrobin")
    instance_id: Annotated[str, Meta(min_length=1, max_length=249)] | UnsetType = UNSET
    session_timeout: Annotated[float, Meta(ge=0.001, le=1800)] = 45.0
    rebalance_timeout: Annotated[float, Meta(ge=0.001, le=1800)] = 300.0
    heartbeat_interval: Annotated[float, Meta(ge=0.01, le=1800)] = 0.1
    think: Annotated[Seconds, Meta(description="How long it takes to answer when it is called.")] = 0.0
    manner: Manner | UnsetType = UNSET


class ErrorSeen(Answer, kw_only=True):
    """An error that a puppet was answered."""

    api: str
    error: str


class PuppetShown(Answer, kw_only=True):
    """A puppet: what it knows of itself, and the newest errors that it was answered."""

    puppet: Annotated[int, Meta(description="What it is called by.")]
    group: str
    client_id: str
    instance_id: str | None
    member_id: Annotated[str, Meta(description="Empty while it has none.")]
    generation: Annotated[int, Meta(description="-1 while it is in none.")]
    leads: bool
    fenced: bool
    owned: Owned
    errors: list[ErrorSeen]


class Puppets(Answer, kw_only=True):
    """All puppets."""

    puppets: list[PuppetShown]


class Act(Struct, forbid_unknown_fields=True, kw_only=True, tag_field="do"):
    """What a puppet does now."""


class PuppetJoins(Act, tag="join", kw_only=True):
    """Join anew, after it left or crashed."""


class PuppetLeaves(Act, tag="leave", kw_only=True):
    """Leave in good order."""


class PuppetCrashes(Act, tag="crash", kw_only=True):
    """Do nothing more, and close the connection without a word."""


class PuppetFallsSilent(Act, tag="silence", kw_only=True):
    """Do nothing more, but keep the connection."""


class NewCommit(Body, kw_only=True):
    """An offset to commit."""

    topic: TopicName
    partition: PartitionNumber
    offset: Offset


class PuppetCommits(Act, tag="commit", kw_only=True):
    """Commit offsets, as a member of its generation or of another one."""

    offsets: list[NewCommit]
    generation: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | UnsetType = UNSET


AnyAct = PuppetJoins | PuppetLeaves | PuppetCrashes | PuppetFallsSilent | PuppetCommits


def _puppets(workbench: LabWorkbench) -> Puppets:
    return Puppets(puppets=[_shown(number, puppet) for number, puppet in workbench.puppets.items()])


def _create(workbench: LabWorkbench, body: CreatePuppet) -> PuppetShown:
    if len(workbench.puppets) >= MAX_PUPPETS:
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"There are {MAX_PUPPETS} puppets at most.")
    script: dict[str, Any] = {name: value for name, value in structs.asdict(body).items() if value is not UNSET}
    if body.manner is not UNSET:
        script["manner"] = structs.asdict(body.manner)
    number = workbench.add_puppet(script)
    return _shown(number, workbench.puppets[number])


def _show(workbench: LabWorkbench, puppet: int) -> PuppetShown:
    return _shown(puppet, _found(workbench, puppet))


def _do(workbench: LabWorkbench, puppet: int, body: AnyAct) -> PuppetShown:
    found = _found(workbench, puppet)
    match body:
        case PuppetJoins():
            found.join()
        case PuppetLeaves():
            found.leave()
        case PuppetCrashes():
            found.crash()
        case PuppetFallsSilent():
            found.silence()
        case PuppetCommits():
            offsets = {(each.topic, each.partition): each.offset for each in body.offsets}
            found.commit(offsets, generation=None if body.generation is UNSET else body.generation)
    return _shown(puppet, found)


def _remove(workbench: LabWorkbench, puppet: int) -> PuppetShown:
    found = _found(workbench, puppet)
    found.crash()
    del workbench.puppets[puppet]
    return _shown(puppet, found)


def _found(workbench: LabWorkbench, number: int) -> Puppet:
    puppet = workbench.puppets.get(number)
    if puppet is None:
        raise Problem(404, "NOT_FOUND", "There is no such puppet.")
    return puppet


def _shown(number: int, puppet: Puppet) -> PuppetShown:
    return PuppetShown(
        puppet=number,
        group=puppet.script.group,
        client_id=puppet.script.client_id,
        instance_id=puppet.script.instance_id,
        member_id=puppet.member_id,
        generation=puppet.generation,
        leads=puppet.leads,
        fenced=puppet.fenced,
        owned=puppet.owned,
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
        summary="Let a scripted member join: eager, cooperative, static, or of bad manners.",
        do=_create,
        body=CreatePuppet,
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
        problems=(404,),
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
