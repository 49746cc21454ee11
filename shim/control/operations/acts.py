"""Bodies over HTTP that create a scripted member and that make it act, one for each kind of group.

The classes of the kinds are in `shim/lab/puppet_kinds.py`. A body cannot hold an assignor that is a Python function: a
puppet that computes assignments divides evenly, or fails.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from kafka_shim.control.operation import Body, GroupId, Offset, PartitionNumber, Text, TopicName
from kafka_shim.control.problems import Problem
from kafka_shim.lab.puppets import Puppet

Seconds = Annotated[float, Meta(ge=0, le=86_400)]
InstanceId = Annotated[str, Meta(min_length=1, max_length=249)]
Timeout = Annotated[float, Meta(ge=0.001, le=1800)]
Interval = Annotated[float, Meta(ge=0.01, le=1800)]
Think = Annotated[Seconds, Meta(description="How long it takes to answer when it is called.")]
Pattern = Annotated[str, Meta(min_length=1, max_length=249, description="A regular expression (RE2).")]
Base64 = Annotated[
    str,
    Meta(max_length=8192, pattern=r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$(?!\n)"),
]
Rack = Annotated[str, Meta(min_length=1, max_length=249)]


class Manner(Body, kw_only=True):
    """How a member of a classic group misbehaves."""

    never_syncs: Annotated[bool, Meta(description="It joins, and never sends SyncGroup.")] = False
    never_rejoins: Annotated[bool, Meta(description="It does not hear that it is called to join again.")] = False
    joins_twice: Annotated[bool, Meta(description="It sends each JoinGroup over two connections.")] = False
    heartbeat_late: Annotated[Seconds, Meta(description="Its heartbeats come so much later than they should.")] = 0.0
    never_revokes: Annotated[bool, Meta(description="It claims to own partitions that it had to revoke.")] = False
    assigns_nothing: Annotated[bool, Meta(description="As leader it assigns no partition.")] = False


class ConsumerManner(Body, kw_only=True):
    """How a member that the coordinator assigns misbehaves."""

    never_revokes: Annotated[bool, Meta(description="It claims to own the partitions that it had to revoke.")] = False
    reports_late: Annotated[Seconds, Meta(description="So much later it says that it has given something up.")] = 0.0
    forgets_epoch: Annotated[bool, Meta(description="It sends the epoch before that of the last answer.")] = False


class CreatePuppet(Body, kw_only=True, tag_field="kind", tag="classic"):
    """A member of a classic group. It joins at once, as every puppet does. Times are seconds of the coordinator's
    clock."""

    group: GroupId
    topics: list[TopicName]
    client_id: Text = "puppet"
    protocols: Annotated[
        tuple[Literal["range", "roundrobin", "cooperative-sticky", "RoundRobinAssigner"], ...],
        Meta(min_length=1, max_length=4, description="Assignors, the preferred first."),
    ] = ("range", "roundrobin")
    instance_id: InstanceId | UnsetType = UNSET
    session_timeout: Timeout = 45.0
    rebalance_timeout: Timeout = 300.0
    heartbeat_interval: Interval = 0.1
    think: Think = 0.0
    manner: Manner | UnsetType = UNSET


class CreateConsumerPuppet(Body, kw_only=True, tag_field="kind", tag="consumer"):
    """A member of a consumer group (KIP-848). It sends heartbeats at the coordinator's interval."""

    group: GroupId
    topics: list[TopicName]
    pattern: Pattern | UnsetType = UNSET
    client_id: Text = "puppet"
    instance_id: InstanceId | UnsetType = UNSET
    rack_id: Rack | UnsetType = UNSET
    assignor: Annotated[str, Meta(min_length=1, max_length=249)] | UnsetType = UNSET
    rebalance_timeout: Timeout = 300.0
    think: Think = 0.0
    manner: ConsumerManner | UnsetType = UNSET


class CreateSharePuppet(Body, kw_only=True, tag_field="kind", tag="share"):
    """A member of a share group (KIP-932). It fetches nothing."""

    group: GroupId
    topics: list[TopicName]
    client_id: Text = "puppet"
    rack_id: Rack | UnsetType = UNSET


class CreateStreamsPuppet(Body, kw_only=True, tag_field="kind", tag="streams"):
    """A thread of a streams application (KIP-1071) with one subtopology, 0. It processes nothing."""

    group: GroupId
    topics: list[TopicName]
    client_id: Text = "puppet"
    rack_id: Rack | UnsetType = UNSET
    process_id: Annotated[str, Meta(min_length=1, max_length=249, description="Its instance.")] | UnsetType = UNSET
    rebalance_timeout: Timeout = 300.0
    think: Think = 0.0
    manner: ConsumerManner | UnsetType = UNSET


class PuppetAssignor(Body, kw_only=True):
    """An assignor of a puppet: its versions, and its metadata. It divides evenly and moves little."""

    name: Annotated[str, Meta(min_length=1, max_length=249)] = "evenly"
    fails: Annotated[bool, Meta(description="It hands in an error of its own.")] = False
    metadata: Base64 = ""
    metadata_version: Annotated[int, Meta(ge=0, le=2**15 - 1)] = 0
    minimum_version: Annotated[int, Meta(ge=0, le=2**15 - 1)] = 0
    maximum_version: Annotated[int, Meta(ge=0, le=2**15 - 1)] = 0
    reason: Annotated[int, Meta(ge=-128, le=127, description="Why the metadata changed.")] = 0


Assignors = Annotated[list[PuppetAssignor], Meta(min_length=1, max_length=8, description="The best first.")]


class CreateClientAssignorPuppet(Body, kw_only=True, tag_field="kind", tag="client-assignors"):
    """A member that computes the assignment of its group, where the coordinator serves `client-assignors`."""

    group: GroupId
    topics: list[TopicName]
    client_id: Text = "puppet"
    instance_id: InstanceId | UnsetType = UNSET
    rack_id: Rack | UnsetType = UNSET
    assignors: Assignors | UnsetType = UNSET
    computes: Annotated[Seconds, Meta(description="How long it takes to compute.")] = 0.0
    rebalance_timeout: Timeout = 300.0
    think: Think = 0.0
    manner: ConsumerManner | UnsetType = UNSET


class CreateRegisteredPuppet(Body, kw_only=True, tag_field="kind", tag="registered"):
    """A consumer that registers with the controller of its group, where the coordinator serves `designs`."""

    group: GroupId
    topics: list[TopicName]
    client_id: Text = "puppet"
    session_timeout: Timeout = 10.0
    heartbeat_interval: Interval = 0.1
    ephemeral: Annotated[bool, Meta(description="The group goes with its last member.")] = False


AnyPuppet = (
    CreatePuppet
    | CreateConsumerPuppet
    | CreateSharePuppet
    | CreateStreamsPuppet
    | CreateClientAssignorPuppet
    | CreateRegisteredPuppet
)


class Act(Struct, forbid_unknown_fields=True, kw_only=True, tag_field="do"):
    """The next act of a puppet."""


class PuppetJoins(Act, tag="join", kw_only=True):
    """Join again, after it left or crashed."""


class PuppetLeaves(Act, tag="leave", kw_only=True):
    """Leave with a message; a puppet that registers has no message for that, and crashes."""


class PuppetCrashes(Act, tag="crash", kw_only=True):
    """Stop, and close the connection without a message."""


class PuppetFallsSilent(Act, tag="silence", kw_only=True):
    """Stop, but keep the connection."""


class NewCommit(Body, kw_only=True):
    """An offset to commit."""

    topic: TopicName
    partition: PartitionNumber
    offset: Offset


class PuppetCommits(Act, tag="commit", kw_only=True):
    """Commit offsets, as a member of its generation or of another one."""

    offsets: list[NewCommit]
    generation: Annotated[int, Meta(ge=-1, le=2**31 - 1)] | UnsetType = UNSET


class PuppetSays(Act, tag="say", kw_only=True):
    """Have these assignors from now on: for a puppet that computes assignments."""

    assignors: Assignors


class PuppetRewinds(Act, tag="rewind", kw_only=True):
    """Let the group go on from these offsets: for a puppet that registers."""

    offsets: list[NewCommit]


AnyAct = PuppetJoins | PuppetLeaves | PuppetCrashes | PuppetFallsSilent | PuppetCommits | PuppetSays | PuppetRewinds


def kind_of(body: AnyPuppet) -> str:
    """Return the name of the puppet's kind."""
    return str(body.__struct_config__.tag)


def script_of(body: AnyPuppet) -> dict[str, Any]:
    """Return the fields of the puppet's script that are set, or have a default here."""
    script: dict[str, Any] = {name: value for name, value in structs.asdict(body).items() if value is not UNSET}
    if "manner" in script:
        script["manner"] = structs.asdict(script["manner"])
    if "assignors" in script:
        script["assignors"] = [assignor_of(each) for each in script["assignors"]]
    return script


def assignor_of(assignor: PuppetAssignor) -> dict[str, Any]:
    """Return the fields of the puppet's assignor."""
    fields = structs.asdict(assignor) | {"metadata": b64decode(assignor.metadata)}
    if fields.pop("fails"):
        fields["assign"] = _fail
    return fields


def _fail(*arguments: Any) -> Any:
    raise RuntimeError("This assignor fails, as its `fails` says.")


def act(puppet: Puppet, body: AnyAct) -> None:
    """Let a puppet act. Raises Problem if its kind cannot."""
    match body:
        case PuppetJoins():
            puppet.join()
        case PuppetLeaves():
            puppet.leave()
        case PuppetCrashes():
            puppet.crash()
        case PuppetFallsSilent():
            puppet.silence()
        case PuppetCommits():
            offsets = {(each.topic, each.partition): each.offset for each in body.offsets}
            puppet.commit(offsets, generation=None if body.generation is UNSET else body.generation)
        case PuppetSays():
            say = getattr(puppet, "say_of", None)
            if say is None:
                raise Problem(409, "INVALID_REQUEST", "Only a puppet of the kind client-assignors says assignors.")
            say([assignor_of(each) for each in body.assignors])
        case PuppetRewinds():
            rewind = getattr(puppet, "rewind", None)
            if rewind is None:
                raise Problem(409, "INVALID_REQUEST", "Only a puppet of the kind registered rewinds its group.")
            rewind({(each.topic, each.partition): each.offset for each in body.offsets})
