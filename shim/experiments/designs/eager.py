"""Designs in which a group stops, gathers and starts again; they differ in who computes and distributes the assignment.

In all of them, after a change every member joins again, as the answers to heartbeats demand, and the round ends when
all have joined or the rebalance timeout is over. Rounds, timers and errors are Kafka's where the proposals define none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    assignment_from_bytes,
    assignment_to_bytes,
)
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.designs import messages as m
from kafka_shim.experiments.designs.world import METADATA, Process, Reply, Steps, World
from kafka_shim.experiments.registered.messages import (
    ControllerListGroupsRequest,
    ControllerListGroupsResponse,
    GroupInfo,
    PartitionToOwn,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
)

GROUP: Final = "billing"
TOPIC: Final = "orders"
STRATEGY: Final = "roundrobin"


def dealt(members: Iterable[str], partitions: int) -> dict[str, list[int]]:
    """Give out every partition in turn."""
    names = sorted(members)
    return {name: list(range(place, partitions, len(names))) for place, name in enumerate(names)}


def partitions_in(assignment: bytes) -> list[int]:
    """Decode the result of `assignment_bytes`."""
    decoded = assignment_from_bytes(assignment)
    assert decoded is not None
    return decoded.assigned_partitions[0].partitions


def assignment_bytes(partitions: Sequence[int]) -> bytes:
    """Encode a member's partitions as the consumer's assignors do."""
    topics = [TopicPartition(topic=TOPIC, partitions=list(partitions))]
    return assignment_to_bytes(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=None), 0)


Obtaining = Generator["Message | float", Any, tuple[int, Sequence[int]] | None]
"""Steps that end with a generation and the member's partitions, or with None if the member must join again."""


class Eager(ABC):
    """Coordinator of a design that gathers; subclasses define the rest of a round."""

    letter: ClassVar[str]
    title: ClassVar[str]
    interrupted: ClassVar[Message]
    """The answer to a request that waits when a new round begins."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.generation = 0
        self._leader = ""
        self.gathering = False
        self.waiting: dict[str, Reply] = {}
        """Requests parked after the gathering: SyncGroups, or JoinGroups without an assignment yet."""
        self._last_seen: dict[str, float] = {}
        self._joined: dict[str, Reply] = {}
        self._is_delayed = False
        self._round = 0

    @property
    def members(self) -> Iterable[str]:
        return self._last_seen

    @property
    def leader(self) -> str:
        """The first member by id, as long as it is in the group."""
        return self._leader

    def receive(self, member_id: str, request: Message, reply: Reply) -> None:
        if member_id in self._last_seen:
            self._last_seen[member_id] = self.world.now
        match request:
            case HeartbeatRequest():
                reply(HeartbeatResponse(error_code=self.refusal(member_id, request.generation_id)))
            case MetadataRequest():
                topic = MetadataResponseTopic(error_code=0, name=TOPIC, is_internal=False, partitions=[])
                reply(MetadataResponse(brokers=[], topics=[topic]))
            case _:
                self.handle(member_id, request, reply)

    @abstractmethod
    def handle(self, member_id: str, request: Message, reply: Reply) -> None:
        """Handle a request other than a heartbeat."""

    @abstractmethod
    def complete(self, joined: Mapping[str, Reply]) -> None:
        """Handle a round in which all members have joined: the new generation begins."""

    @abstractmethod
    def obtain(self, me: Process) -> Obtaining:
        """Run a member's steps from joining to its assignment."""

    def behave(self, me: Process) -> Steps:
        """Run a member for its whole life."""
        world = self.world
        while True:
            obtained = yield from self.obtain(me)
            if obtained is None:
                yield world.settings.backoff
                continue
            me.generation, partitions = obtained
            me.own(partitions)
            seen = world.seen_partitions(me.member_id)
            pause = me.rest()
            while True:
                yield pause
                pause = world.settings.heartbeat
                if self.watches_topics(me.member_id) and world.seen_partitions(me.member_id) != seen:
                    break
                response = yield HeartbeatRequest(GROUP, me.generation, me.member_id, None)
                if response.error_code:
                    break
            me.stop()

    def watches_topics(self, member_id: str) -> bool:
        """True if this member must detect that a topic has grown."""
        return member_id == self.leader

    def topic_grew(self) -> None:
        """Handle the growth of a topic: a broker that assigns begins a round, others leave it to the members."""
        if not self.gathering and not any(self.watches_topics(name) for name in self._last_seen):
            self.begin()

    def join(self, member_id: str, reply: Reply) -> None:
        """Add a member to the round, and begin one if there is none."""
        if not self.gathering:
            self.begin()
        if member_id not in self._last_seen:
            self._last_seen[member_id] = self.world.now
            self._watch(member_id)
        self._joined[member_id] = reply
        self._complete_if_all()

    def begin(self) -> None:
        """Begin a round: every member must join again."""
        self.gathering = True
        self._round += 1
        number = self._round
        self.answer_waiting(dict.fromkeys(self.waiting, self.interrupted) if self.waiting else {})
        if not self._last_seen:
            self._is_delayed = True
            self.world.later(self.world.settings.initial_delay, self._unhold)
        self.world.later(self.world.settings.rebalance, lambda: self._give_up(number))

    def answer_waiting(self, responses: Mapping[str, Message]) -> None:
        """Answer all parked requests."""
        waiting, self.waiting = self.waiting, {}
        for member_id, reply in waiting.items():
            if member_id in self._last_seen:
                self._last_seen[member_id] = self.world.now
            reply(responses[member_id])

    def refusal(self, member_id: str, generation: int) -> int:
        """Return the error for a member in this generation, or 0."""
        if member_id not in self._last_seen:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if self.gathering:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.ILLEGAL_GENERATION if generation != self.generation else ErrorCode.NONE

    def _unhold(self) -> None:
        self._is_delayed = False
        self._complete_if_all()

    def _give_up(self, number: int) -> None:
        if self.gathering and self._round == number:
            self._last_seen = {name: last_seen for name, last_seen in self._last_seen.items() if name in self._joined}
            self._complete_if_all()

    def _complete_if_all(self) -> None:
        if (
            not self.gathering
            or self._is_delayed
            or not self._last_seen
            or self._joined.keys() != self._last_seen.keys()
        ):
            return
        self.gathering = False
        self.generation += 1
        if self._leader not in self._joined:
            self._leader = min(self._joined)
        joined, self._joined = self._joined, {}
        self._last_seen = dict.fromkeys(self._last_seen, self.world.now)
        self.complete(joined)

    def _watch(self, member_id: str) -> None:
        """Expel a member after a silence of the session timeout, unless one of its requests is parked."""

        def look() -> None:
            last_seen = self._last_seen.get(member_id)
            if last_seen is None:
                return
            session, now = self.world.settings.session, self.world.now
            if member_id in self._joined or member_id in self.waiting:
                last_seen = now
            if now < last_seen + session:
                self.world.later(last_seen + session - now, look)
                return
            del self._last_seen[member_id]
            if self.gathering:
                self._complete_if_all()
            elif self._last_seen:
                self.begin()

        self.world.later(self.world.settings.session, look)


class BrokerAssigns(Eager):
    """(a) The broker has the assignors: the answer to a JoinGroup has the member's own partitions."""

    letter = "a"
    title = "the broker assigns"
    interrupted = m.BrokerJoinResponse(ErrorCode.REBALANCE_IN_PROGRESS, -1, "", [])

    def watches_topics(self, member_id: str) -> bool:
        return False

    def handle(self, member_id: str, request: Message, reply: Reply) -> None:
        self.join(member_id, reply)

    def complete(self, joined: Mapping[str, Reply]) -> None:
        shares = dealt(joined, self.world.partitions)
        for name, reply in joined.items():
            reply(m.BrokerJoinResponse(0, self.generation, name, [m.PartitionsOfTopic(TOPIC, shares[name])]))

    def obtain(self, me: Process) -> Obtaining:
        session = int(self.world.settings.session * 1000)
        response = yield m.BrokerJoinRequest(GROUP, session, [TOPIC], me.member_id, STRATEGY, METADATA)
        return (response.generation_id, response.partitions[0].partitions) if not response.error_code else None


class Registering(Eager):
    """(r) The client rewrite's RegisterConsumer: as (a), after ListGroups, and offsets come with the partitions."""

    letter = "r"
    title = "consumers register"
    interrupted = RegisterConsumerResponse(GROUP, -1, [], ErrorCode.REBALANCE_IN_PROGRESS)

    def watches_topics(self, member_id: str) -> bool:
        return False

    def handle(self, member_id: str, request: Message, reply: Reply) -> None:
        if isinstance(request, ControllerListGroupsRequest):
            session = int(self.world.settings.session * 1000)
            info = GroupInfo(GROUP, list(self.members), [TOPIC], 1, "broker-1", 9092, session)
            reply(ControllerListGroupsResponse([info], 0))
        else:
            self.join(member_id, reply)

    def complete(self, joined: Mapping[str, Reply]) -> None:
        shares = dealt(joined, self.world.partitions)
        for name, reply in joined.items():
            owned = [PartitionToOwn(TOPIC, partition, -1) for partition in shares[name]]
            reply(RegisterConsumerResponse(GROUP, self.generation, owned, 0))

    def obtain(self, me: Process) -> Obtaining:
        yield ControllerListGroupsRequest([GROUP])
        response = yield RegisterConsumerRequest(GROUP, me.member_id)
        if response.error_code:
            return None
        return response.generation_id, [partition.partition for partition in response.partitions]


class EveryoneComputes(Eager):
    """(b) All members get the metadata of all, and each computes; hashes show whether they saw the same topics."""

    letter = "b"
    title = "every member computes"
    interrupted = m.EveryoneJoinResponse(ErrorCode.REBALANCE_IN_PROGRESS, -1, "", "", [])

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._metadata: dict[str, bytes] = {}

    def watches_topics(self, member_id: str) -> bool:
        return True

    def handle(self, member_id: str, request: Message, reply: Reply) -> None:
        assert isinstance(request, m.EveryoneJoinRequest)
        self._metadata[member_id] = request.protocols[0].metadata
        self.join(member_id, reply)

    def complete(self, joined: Mapping[str, Reply]) -> None:
        members = [m.MemberMetadata(name, self._metadata[name]) for name in joined]
        for name, reply in joined.items():
            reply(m.EveryoneJoinResponse(0, self.generation, name, STRATEGY, members))

    def obtain(self, me: Process) -> Obtaining:
        seen = self.world.seen_partitions(me.member_id)
        session = int(self.world.settings.session * 1000)
        protocol = m.Protocol(STRATEGY, METADATA + seen.to_bytes(16, "big"))
        response = yield m.EveryoneJoinRequest(GROUP, session, me.member_id, "consumer", [protocol])
        if response.error_code:
            return None
        if any(member.metadata != protocol.metadata for member in response.members):
            yield MetadataRequest([MetadataRequestTopic(name=TOPIC)])
            return None
        return response.generation_id, dealt([member.member_id for member in response.members], seen)[me.member_id]


class Phased(Eager):
    """(c) One member, the synchronizer, is answered first, with all metadata; it joins again with all assignments."""

    letter = "c"
    title = "one client, inside JoinGroup"
    interrupted = m.PhasedJoinResponse(ErrorCode.REBALANCE_IN_PROGRESS, -1, "", 1, [], b"", [])

    def handle(self, member_id: str, request: Message, reply: Reply) -> None:
        assert isinstance(request, m.PhasedJoinRequest)
        if request.phase == 0:
            self.join(member_id, reply)
        elif self.gathering or member_id != self.leader:
            reply(self.interrupted)
        else:
            self.waiting[member_id] = reply
            states = {state.member_id: state.state for state in request.states}
            names = sorted(states)
            self.answer_waiting(
                {
                    name: m.PhasedJoinResponse(0, self.generation, name, 1, [], state, names)
                    for name, state in states.items()
                }
            )

    def complete(self, joined: Mapping[str, Reply]) -> None:
        self.waiting = {name: reply for name, reply in joined.items() if name != self.leader}
        metadata = [m.MemberMetadata(name, METADATA) for name in joined]
        joined[self.leader](m.PhasedJoinResponse(0, self.generation, self.leader, 0, metadata, b"", []))

    def obtain(self, me: Process) -> Obtaining:
        session = int(self.world.settings.session * 1000)
        seen = self.world.seen_partitions(me.member_id)
        response = yield m.PhasedJoinRequest(GROUP, "consumer", 0, session, me.member_id, METADATA, 0, [])
        if not response.error_code and response.phase == 0:
            shares = dealt([member.member_id for member in response.metadata], seen)
            states = [m.MemberState(name, assignment_bytes(share)) for name, share in shares.items()]
            response = yield m.PhasedJoinRequest(GROUP, "consumer", 1, session, me.member_id, b"", 0, states)
        return (response.generation_id, partitions_in(response.state)) if not response.error_code else None


class MembershipFirst(Eager):
    """(d) JoinGroup names the leader; the leader reads the metadata by DescribeGroup; SyncGroup waits for all
    members.
    """

    letter = "d"
    title = "DescribeGroup and a barrier"
    interrupted = m.StateSyncResponse(ErrorCode.REBALANCE_IN_PROGRESS, -1, b"")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._states: dict[str, bytes] = {}

    def handle(self, member_id: str, request: Message, reply: Reply) -> None:
        match request:
            case m.MembershipJoinRequest():
                self.join(member_id, reply)
            case m.DescribeGroupRequest():
                members = [m.DescribedMember(name, METADATA, b"") for name in self.members]
                reply(m.DescribeGroupResponse(0, 2, self.generation, self.leader, members))
            case m.StateSyncRequest():
                if refusal := self.refusal(member_id, request.generation_id):
                    reply(m.StateSyncResponse(refusal, -1, b""))
                    return
                self._states |= {state.member_id: state.state for state in request.states}
                self.waiting[member_id] = reply
                if self._states and self.waiting.keys() == set(self.members):
                    self.answer_waiting(
                        {name: m.StateSyncResponse(0, self.generation, state) for name, state in self._states.items()}
                    )

    def complete(self, joined: Mapping[str, Reply]) -> None:
        self._states = {}
        for name, reply in joined.items():
            reply(m.MembershipJoinResponse(0, self.generation, self.leader, name))

    def obtain(self, me: Process) -> Obtaining:
        session = int(self.world.settings.session * 1000)
        seen = self.world.seen_partitions(me.member_id)
        joined = yield m.MembershipJoinRequest(GROUP, session, me.member_id, METADATA)
        states = []
        if joined.leader_id == me.member_id:
            group = yield m.DescribeGroupRequest(GROUP)
            shares = dealt([member.member_id for member in group.members], seen)
            states = [m.MemberState(name, assignment_bytes(share)) for name, share in shares.items()]
        response = yield m.StateSyncRequest(GROUP, joined.generation_id, me.member_id, 0, states)
        return (response.generation_id, partitions_in(response.state)) if not response.error_code else None


class JoinAndSync(Eager):
    """(e) As Kafka adopted it: the leader's JoinGroup brings the metadata, SyncGroup waits for the leader alone."""

    letter = "e"
    title = "JoinGroup and SyncGroup"
    interrupted = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, assignment=b"")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._assignments: dict[str, bytes] = {}

    def handle(self, member_id: str, request: Message, reply: Reply) -> None:
        if isinstance(request, JoinGroupRequest):
            self.join(member_id, reply)
            return
        assert isinstance(request, SyncGroupRequest)
        if refusal := self.refusal(member_id, request.generation_id):
            reply(SyncGroupResponse(error_code=refusal, assignment=b""))
            return
        self._assignments |= {share.member_id: share.assignment for share in request.assignments}
        self.waiting[member_id] = reply
        if self._assignments:
            self.answer_waiting(
                {name: self._synchronised(assignment) for name, assignment in self._assignments.items()}
            )

    def complete(self, joined: Mapping[str, Reply]) -> None:
        self._assignments = {}
        members = [JoinGroupResponseMember(name, None, METADATA) for name in joined]
        for name, reply in joined.items():
            reply(
                JoinGroupResponse(
                    error_code=0,
                    generation_id=self.generation,
                    protocol_type="consumer",
                    protocol_name=STRATEGY,
                    leader=self.leader,
                    skip_assignment=False,
                    member_id=name,
                    members=members if name == self.leader else [],
                )
            )

    def obtain(self, me: Process) -> Obtaining:
        seen = self.world.seen_partitions(me.member_id)
        settings = self.world.settings
        joined = yield JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=int(settings.session * 1000),
            rebalance_timeout_ms=int(settings.rebalance * 1000),
            member_id=me.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(STRATEGY, METADATA)],
        )
        shares = dealt([member.member_id for member in joined.members], seen) if joined.members else {}
        response = yield SyncGroupRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=me.member_id,
            protocol_type="consumer",
            protocol_name=STRATEGY,
            assignments=[SyncGroupRequestAssignment(name, assignment_bytes(share)) for name, share in shares.items()],
        )
        return (joined.generation_id, partitions_in(response.assignment)) if not response.error_code else None

    @staticmethod
    def _synchronised(assignment: bytes) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=0, protocol_type="consumer", protocol_name=STRATEGY, assignment=assignment)
