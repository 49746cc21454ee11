"""Plays a script on one target and records the answers and their steps.

A step is over when its answer has come, or when it has been quiet so long that the request must be parked; then the
group is described. The transcript keeps the target's own ids (`compare.py` replaces them).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from kafka_shim.apis.delete_groups import DeleteGroupsRequest
from kafka_shim.apis.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.describe_share_group_offsets import DescribeShareGroupOffsetsRequest, RequestGroup
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_shim.apis.list_groups import ListGroupsRequest
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kafka_shim.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_shim.apis.share_group_describe import ShareGroupDescribeRequest
from kafka_shim.apis.streams_group_describe import StreamsGroupDescribeRequest
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.differential.actor import Actor
from kafka_shim.conformance.differential.assigned import (
    LONG_MS,
    TOPIC,
    consumer_beat,
    instance_of,
    share_beat,
    share_offsets,
    streams_beat,
)
from kafka_shim.conformance.differential.script import ACTORS, Script, Step
from kafka_shim.conformance.member import Protocols, subscription, user_metadata
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.protocol import api_of
from kafka_shim.conformance.wire import Closed, Connection, NoAnswer, Tape, Undecodable

BRIEF_MS_PER_QUIET_SECOND: Final = 50_000
"""Brief timeouts, in milliseconds per second of `quiet`; a whole script takes less time than one of them."""

WAIT: Final = 1.35
"""The length of a wait in brief timeouts: longer than one, shorter than two in succession."""

PATIENCE: Final = 10.0
_SHARING_SECONDS: Final = 3.0
_GROUP_RESOURCE: Final = 32
_DELAY: Final = "streams.initial.rebalance.delay.ms"
_BEATS: Final = frozenset({"enter", "beat", "share-join", "share-beat", "stream-join", "stream-beat"})
UNKNOWN_MEMBER: Final = "nobody"

Versions = Mapping[str, tuple[int, int]]

_PROTOCOLS: Final[tuple[tuple[str, Protocols], ...]] = (
    ("consumer", (("range", subscription(TOPIC)), ("roundrobin", subscription(TOPIC)))),
    ("consumer", (("roundrobin", user_metadata(b"rr")), ("range", user_metadata(b"r")))),
    ("consumer", (("range", subscription(TOPIC, user_data=b"other")), ("roundrobin", subscription(TOPIC)))),
    ("consumer", (("sticky", user_metadata(b"s")),)),
    ("connect", (("range", b"not a subscription"), ("roundrobin", b"at all"))),
    ("consumer", ()),
)


@dataclass
class Answer:
    """An answer, or the end of its connection. `sent` and `came` are numbers of steps."""

    sent: int
    came: int
    actor: int
    message: Any


@dataclass
class Transcript:
    """The answers of a target to a script.

    `answers` in order of arrival. `states`: the group after each step. `ids`: actor and step of each member id.
    """

    answers: list[Answer] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)


@dataclass
class _Due:
    sent: int
    actor: int
    step: Step
    connection: Connection
    leaving: tuple[str, ...] = ()


class Player:
    """Plays one script on one target. A step is over after `quiet` seconds without an answer."""

    def __init__(self, peer: Peer, group: str, versions: Versions, quiet: float) -> None:
        self.tape = Tape()
        self.trouble = ""
        """The sentence on a question beside the script that was not answered in time; the transcript ends there."""
        self._peer = peer
        self._group = group
        self._versions = versions
        self._quiet = quiet
        self._brief_ms = int(quiet * BRIEF_MS_PER_QUIET_SECOND)
        self._deadline = time.monotonic() + 120
        self._actors = [Actor(number) for number in range(len(ACTORS))]
        self._due: list[_Due] = []
        self._connections: list[Connection] = []
        self._aside = self._connect("aside")
        self._transcript = Transcript()
        self._describers: list[Any] = [DescribeGroupsRequest]
        self._at = 0

    def play(self, script: Script) -> Transcript:
        """Play the script to the end; return the transcript, up to the trouble if there is any.

        Answers of the script itself may stay out; only a question beside it must be answered.
        """
        try:
            self._prepare(script)
            for self._at, step in enumerate(script):
                self._do(step)
                self._transcript.states.append(self._settled())
        except NoAnswer as trouble:
            self.trouble = str(trouble)
        finally:
            for connection in self._connections:
                connection.close()
        return self._transcript

    def _prepare(self, script: Script) -> None:
        """Describe the kinds of groups in the script, and set the initial delay of streams groups to 0."""
        doings = {step.do for step in script}
        shares, streams = (any(each.startswith(kind) for each in doings) for kind in ("share", "stream"))
        if "ConsumerGroupDescribe" in self._versions:
            self._describers.append(ConsumerGroupDescribeRequest)
        if shares:
            self._describers.append(ShareGroupDescribeRequest)
        if streams:
            self._describers.append(StreamsGroupDescribeRequest)
            self._ask(
                IncrementalAlterConfigsRequest(
                    [AlterConfigsResource(_GROUP_RESOURCE, self._group, [AlterableConfig(_DELAY, 0, "0")])]
                )
            )
            resource = DescribeConfigsResource(_GROUP_RESOURCE, self._group, [_DELAY])
            self._until(
                lambda: any(
                    each.value == "0" for each in self._ask(DescribeConfigsRequest([resource])).results[0].configs
                )
            )

    def _ask(self, request: Message) -> Any:
        """Send a request that is not part of the script."""
        return self._aside.call(request, self._versions[api_of(request).name][1])

    def _until(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Wait until it holds, or until the time is up."""
        end = time.monotonic() + seconds
        while not holds() and time.monotonic() < end:
            time.sleep(0.02)

    # -- sending a step

    def _do(self, step: Step) -> None:
        actor = self._actors[step.actor]
        if step.do == "wait":
            end = time.monotonic() + WAIT * self._brief_ms / 1000
            while time.monotonic() < end:
                self._collect()
                self._wait(end)
        elif step.do == "disconnect":
            for due in [each for each in self._due if each.actor == step.actor]:
                self._due.remove(due)
                due.connection.close()
            for connection in actor.idle:
                connection.close()
            actor.idle = []
        else:
            self._send(actor, step, self._request(actor, step))

    def _send(self, actor: Actor, step: Step, request: Message) -> None:
        connection = actor.idle.pop() if actor.idle else self._connect(f"m{actor.number}")
        try:
            connection.send(request, self._version(request, step))
        except Closed:
            self._note(_Due(self._at, actor.number, step, connection), "closed")
            return
        leaving: tuple[str, ...] = ()
        if isinstance(request, LeaveGroupRequest):
            leaving = (request.member_id, *(each.member_id for each in request.members))
        self._due.append(_Due(self._at, actor.number, step, connection, leaving))
        if step.do not in ("join", "sync"):
            connection.answers_within(PATIENCE)

    def _connect(self, name: str) -> Connection:
        instance = self._peer.instance
        connection = Connection(
            instance.endpoints[0],
            patience=PATIENCE,
            deadline=self._deadline,
            tape=self.tape,
            label=f"{name}.{len(self._connections)}",
            client_id=name,
        )
        self._connections.append(connection)
        return connection

    def _version(self, request: Message, step: Step) -> int:
        return self._version_of(api_of(request).name, step)

    def _version_of(self, api: str, step: Step) -> int:
        low, high = self._versions[api]
        return high if step.version == 99 else low + step.version % (high - low + 1)

    # -- receiving answers

    def _settled(self) -> Any:
        """Return the description of the group, taken between two quiet times."""
        while True:
            self._settle()
            state = self._state()
            if not self._collect():
                return state

    def _settle(self) -> None:
        quiet_until = time.monotonic() + self._quiet
        while time.monotonic() < quiet_until:
            if self._collect():
                quiet_until = time.monotonic() + self._quiet
            parked = [due for due in self._due if due.sent == self._at and due.step.do in ("join", "sync")]
            if not parked and not self._due:
                return
            self._wait(quiet_until)

    def _wait(self, until: float) -> None:
        """Wait for the next answer, or until this time."""
        Connection.wait_for_any([due.connection for due in self._due], until - time.monotonic())

    def _collect(self) -> bool:
        """Receive all answers that have come; return True if there were any."""
        ready = [due for due in self._due if not due.connection.is_silent()]
        for due in ready:
            self._due.remove(due)
            try:
                message = due.connection.receive(within=PATIENCE)
            except Closed:
                self._note(due, "closed")
                continue
            except (NoAnswer, Undecodable) as trouble:
                self._note(due, type(trouble).__name__)
                continue
            self._note(due, message)
            self._actors[due.actor].idle.append(due.connection)
            if due.step.do == "join":
                self._join_answered(due, message)
            elif due.step.do in _BEATS and message.error_code == 0:
                self._heartbeat_answered(due, message)
            elif due.step.do == "leave" and message.error_code == 0:
                self._leave_answered(due, message)
        return bool(ready)

    def _note(self, due: _Due, message: Any) -> None:
        self._transcript.answers.append(Answer(due.sent, self._at, due.actor, message))

    def _join_answered(self, due: _Due, message: Any) -> None:
        actor = self._actors[due.actor]
        if message.error_code in (0, ErrorCode.MEMBER_ID_REQUIRED) and message.member_id:
            self._note_id(actor, message.member_id, due.sent)
        if message.error_code == 0:
            actor.generation = message.generation_id
            actor.members = [member.member_id for member in message.members]
            actor.protocol, actor.type = message.protocol_name, message.protocol_type
        elif message.error_code == ErrorCode.MEMBER_ID_REQUIRED and due.step.again:
            self._send(
                actor, Step(**{**_fields(due.step), "who": "own", "again": False}), self._request(actor, due.step)
            )

    def _leave_answered(self, due: _Due, message: LeaveGroupResponse) -> None:
        """Forget the members that left, by the ids in the request.

        Not by the present ids: an answer to another request of a member may come before this one or after it.
        """
        refused = {each.member_id for each in message.members if each.error_code != 0}
        for actor in self._actors:
            if actor.id and actor.id in due.leaving and actor.id not in refused:
                actor.forget_member()

    def _heartbeat_answered(self, due: _Due, message: Any) -> None:
        """Note the epoch and the assignment in the answer to a heartbeat."""
        actor = self._actors[due.actor]
        self._note_id(actor, message.member_id, due.sent)
        actor.generation = message.member_epoch
        if due.step.do.startswith("stream"):
            actor.endpoint_epoch = message.endpoint_information_epoch
            if message.active_tasks is not None:
                actor.active = message.active_tasks
        elif due.step.do.startswith("share"):
            self._until(lambda: self._shares(actor.topics), _SHARING_SECONDS)
        elif message.assignment is not None:
            actor.assigned = message.assignment.topic_partitions

    def _shares(self, names: Collection[str]) -> bool:
        """Return True if every partition of these topics has share state; Kafka creates it after it has answered."""
        counts = self._peer.partitions
        expected = {(name, number) for name in names for number in range(counts.get(name, 0))}
        (group,) = self._ask(DescribeShareGroupOffsetsRequest([RequestGroup(self._group, None)])).groups
        return expected <= {(each.topic_name, one.partition_index) for each in group.topics for one in each.partitions}

    def _note_id(self, actor: Actor, member_id: str | None, sent: int) -> None:
        """Note the id an actor got in the answer to this step; two requests may be answered in any order."""
        if member_id:
            self._transcript.ids.setdefault(member_id, f"m{actor.number}.{sent}")
        if member_id and actor.id != member_id:
            actor.former, actor.id = actor.id or actor.former, member_id

    def _state(self) -> Any:
        """Return the group, described as each kind that the script may create."""
        try:
            return [group for request in self._describers for group in self._ask(request([self._group])).groups]
        except Closed:
            self._aside = self._connect("aside")
            return "closed"

    # -- building requests

    def _request(self, actor: Actor, step: Step) -> Message:
        group, member = self._group, self._member_id(actor, step)
        generation = {"own": actor.generation, "none": -1, "-1": actor.generation - 1, "+1": actor.generation + 1}[
            step.generation
        ]
        brief = self._brief_ms if step.brief else LONG_MS
        match step.do:
            case "join":
                kind, protocols = _PROTOCOLS[step.variant % len(_PROTOCOLS)]
                requested = [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols]
                instance = self._instance(actor, step, "JoinGroup", 5)
                return JoinGroupRequest(group, brief, brief, member, instance, kind, requested, None)
            case "sync":
                protocol_type = "connect" if step.variant == 5 else actor.type
                protocol_name = "other" if step.variant == 4 else actor.protocol
                assigned = actor.members[: {1: 0, 2: 1}.get(step.variant)]
                assignments = [SyncGroupRequestAssignment(each, self._assignment(each)) for each in assigned]
                instance = self._instance(actor, step, "SyncGroup", 3)
                return SyncGroupRequest(group, generation, member, instance, protocol_type, protocol_name, assignments)
            case "enter" | "beat" | "depart":
                version = self._version_of("ConsumerGroupHeartbeat", step)
                if step.do == "enter" and version > 0:
                    member = self._own_id(actor, step, member)
                return consumer_beat(group, actor, step, member, version)
            case "share-join" | "share-beat" | "share-leave":
                return share_beat(group, actor, step, self._own_id(actor, step, member))
            case "share-offsets" | "share-alter" | "share-forget":
                return share_offsets(group, step)
            case "stream-join" | "stream-beat" | "stream-leave":
                return streams_beat(group, actor, step, self._own_id(actor, step, member))
            case "heartbeat":
                return HeartbeatRequest(group, generation, member, self._instance(actor, step, "Heartbeat", 3))
            case "leave":
                return self._leave(actor, step, member)
            case "commit":
                topics = [self._commit_topic(step)]
                instance = self._instance(actor, step, "OffsetCommit", 7)
                return OffsetCommitRequest(group, generation, member, instance, topics=topics)
            case "fetch":
                return self._fetch(step)
            case "delete":
                return DeleteGroupsRequest([group])
            case "offset-delete":
                partitions = [OffsetDeleteRequestPartition(step.variant), OffsetDeleteRequestPartition(0)]
                return OffsetDeleteRequest(group, [OffsetDeleteRequestTopic(TOPIC, partitions)])
            case _:
                return ListGroupsRequest()

    def _assignment(self, member_id: str) -> bytes:
        return f"for {self._transcript.ids.get(member_id, '?')} at {self._at}".encode()

    def _member_id(self, actor: Actor, step: Step) -> str:
        match step.who:
            case "own":
                return actor.id
            case "none":
                return ""
            case "unknown":
                return UNKNOWN_MEMBER
            case "former":
                return actor.former
        return self._actors[int(step.who)].id

    def _own_id(self, actor: Actor, step: Step, member: str) -> str:
        """Return the member's id; a member without one makes it itself."""
        if step.who == "own" and not actor.id:
            member = f"{self._group}-m{actor.number}"
            self._note_id(actor, member, self._at)
        return member

    def _instance(self, actor: Actor, step: Step, api: str, since: int) -> str | None:
        return None if self._version_of(api, step) < since else instance_of(actor, step)

    def _leave(self, actor: Actor, step: Step, member: str) -> LeaveGroupRequest:
        if self._version_of("LeaveGroup", step) < 3:
            return LeaveGroupRequest(self._group, member)
        members = [MemberIdentity(member, self._instance(actor, step, "LeaveGroup", 3))]
        if step.variant == 4:
            other = self._actors[(step.actor + 1) % len(self._actors)]
            members.append(MemberIdentity(other.id, other.instance))
        return LeaveGroupRequest(self._group, members=members)

    def _commit_topic(self, step: Step) -> OffsetCommitRequestTopic:
        partitions = [
            OffsetCommitRequestPartition(number, 10 * self._at + number, committed_metadata="m")
            for number in {0, step.variant}
        ]
        return OffsetCommitRequestTopic(TOPIC, self._peer.topic_ids.get(TOPIC, bytes(16)), partitions)

    def _fetch(self, step: Step) -> OffsetFetchRequest:
        version = self._version_of("OffsetFetch", step)
        partitions = [0, 1, step.variant]
        everything = step.variant == 3 and version >= 2
        if version < 8:
            topics = None if everything else [OffsetFetchRequestTopic(TOPIC, partitions)]
            return OffsetFetchRequest(self._group, topics)
        chosen = [OffsetFetchRequestTopics(TOPIC, self._peer.topic_ids.get(TOPIC, bytes(16)), partitions)]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self._group, topics=None if everything else chosen)])


def _fields(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in step.__dataclass_fields__}
