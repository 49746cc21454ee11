"""Designs f and g of docs/designs.md: KIP-848 with assignors on the broker, or in the clients. No member stops its work
until all members are ready.

A group epoch counts the changes, a target assignment belongs to one epoch, and every member moves to it by itself: it
revokes first, then the partitions go to their new owners. In (g) a member computes the target, one at a time; its epoch
may be outdated on arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from kafka_shim.apis.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.experiments.client_assignors.messages import (
    Assignment as ClientAssignment,
)
from kafka_shim.experiments.client_assignors.messages import (
    ClientAssignor,
    ClientAssignorHeartbeatRequest,
    ClientAssignorHeartbeatResponse,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
    PreparedMember,
    PreparedTopic,
)
from kafka_shim.experiments.designs.eager import GROUP, TOPIC
from kafka_shim.experiments.designs.world import METADATA, Process, Reply, Steps, World

TOPIC_ID: Final = b"orders-topic-id."


def balanced(owned: Mapping[str, Iterable[int]], partitions: int) -> dict[str, set[int]]:
    """Divide the partitions evenly among these members, with as few moves as possible."""
    least, more = divmod(partitions, len(owned))
    target: dict[str, set[int]] = {}
    for name in sorted(owned, key=lambda name: (-len(list(owned[name])), name)):
        quota = least + (more > 0)
        target[name] = set(sorted(owned[name])[:quota])
        more -= len(target[name]) > least
    free = sorted(set(range(partitions)).difference(*target.values()), reverse=True)
    for quota in (least, least + 1):
        for name in sorted(target):
            while free and len(target[name]) < quota:
                target[name].add(free.pop())
    return target


@dataclass
class Member:
    """A member on the coordinator: `granted` are the partitions that it may own, until it reports that it has revoked
    some.
    """

    last_seen: float
    epoch: int = 0
    granted: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)


class ServerAssigns:
    """(f) The broker computes the target when the group changes."""

    letter: ClassVar[str] = "f"
    title: ClassVar[str] = "KIP-848, the broker assigns"

    def __init__(self, world: World) -> None:
        self.world = world
        self.generation = 0
        """The group epoch."""
        self.target_epoch = 0
        self.target: dict[str, set[int]] = {}
        self._members: dict[str, Member] = {}

    @property
    def members(self) -> Iterable[str]:
        return self._members

    @property
    def leader(self) -> str:
        """The last member by id, which revokes partitions when another joins."""
        return max(self._members, default="")

    def topic_grew(self) -> None:
        """Handle the growth of a topic."""
        self.change()

    def change(self) -> None:
        """Begin a new group epoch, and compute its target."""
        self.generation += 1
        self.compute()

    def compute(self) -> None:
        """Compute a target for the newest group epoch."""
        owned = {name: self.target.get(name, set()) for name in self._members}
        self.install(balanced(owned, self.world.partitions) if owned else {}, self.generation)

    def install(self, target: dict[str, set[int]], epoch: int) -> None:
        """Install a target: members move to it from now on."""
        self.target, self.target_epoch = target, epoch

    def receive(self, member_id: str, request: Message, reply: Reply) -> None:
        assert isinstance(request, (ConsumerGroupHeartbeatRequest, ClientAssignorHeartbeatRequest))
        member = self._members.get(member_id)
        if request.member_epoch == 0:
            if member is None:
                member = self._members[member_id] = Member(self.world.now)
                self._watch(member_id, member)
                self.change()
        elif member is None:
            reply(self.response(ErrorCode.UNKNOWN_MEMBER_ID, member_id, None))
            return
        member.last_seen = self.world.now
        if request.topic_partitions is not None:
            member.acknowledged = {number for topic in request.topic_partitions for number in topic.partitions}
        before = set(member.granted)
        self._reconcile(member_id, member)
        changed = member.granted != before or request.member_epoch == 0
        reply(self.response(0, member_id, member.granted if changed else None))

    def response(self, error: int, member_id: str, granted: set[int] | None) -> Message:
        """Build the answer to a heartbeat; `granted` is None if it did not change."""
        assignment = None if granted is None else Assignment([TopicPartitions(TOPIC_ID, sorted(granted))])
        epoch = self._members[member_id].epoch if not error else 0
        return ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0,
            error_code=error,
            member_id=member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=int(self.world.settings.heartbeat * 1000),
            assignment=assignment,
        )

    def request(self, me: Process, epoch: int, owned: set[int] | None) -> Message:
        """Build a member's heartbeat; `owned` is None if it did not change."""
        topics = None if owned is None else [TopicPartitions(TOPIC_ID, sorted(owned))]
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=me.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if epoch else int(self.world.settings.rebalance * 1000),
            subscribed_topic_names=None if epoch else [TOPIC],
            topic_partitions=topics,
        )

    def behave(self, me: Process) -> Steps:
        """Run a member for its whole life."""
        owned: set[int] = set()
        epoch, report = 0, True
        pause = me.rest()
        while True:
            response = yield self.request(me, epoch, owned if report else None)
            report = False
            if response.error_code:
                me.stop()
                owned, epoch, report = set(), 0, True
                continue
            epoch = me.generation = response.member_epoch
            granted = granted_by(response)
            if granted is not None and granted != owned:
                me.world.release(me.member_id, owned - granted)
                me.own(granted - owned)
                owned, report = granted, True
                continue
            yield from self.between(me, response)
            yield pause
            pause = me.world.settings.heartbeat

    def between(self, me: Process, response: Message) -> Steps:
        """Run the steps after a heartbeat without an assignment."""
        yield from ()

    def _reconcile(self, member_id: str, member: Member) -> None:
        """Move one step towards the target: revoke first, then advance, then take partitions that others have
        revoked.
        """
        target = self.target.get(member_id, set())
        if member.epoch < self.target_epoch or member.granted != target:
            if not member.acknowledged <= target:
                member.granted = member.granted & target
                return
            occupied = set().union(
                *(other.granted | other.acknowledged for name, other in self._members.items() if name != member_id)
            )
            member.granted = target - occupied
            member.epoch = self.target_epoch

    def _watch(self, member_id: str, member: Member) -> None:
        def look() -> None:
            if self._members.get(member_id) is not member:
                return
            session, now = self.world.settings.session, self.world.now
            if now < member.last_seen + session:
                self.world.later(member.last_seen + session - now, look)
            else:
                del self._members[member_id]
                self.change()

        self.world.later(self.world.settings.session, look)


class ClientAssigns(ServerAssigns):
    """(g) A heartbeat asks a member to compute: PrepareAssignment, then InstallAssignment."""

    letter = "g"
    title = "KIP-848, a client assigns"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._computing = ""

    @property
    def leader(self) -> str:
        """The first member by id, which must compute."""
        return min(self._members, default="")

    def compute(self) -> None:
        if self._computing not in self._members:
            self._computing = ""

    def receive(self, member_id: str, request: Message, reply: Reply) -> None:
        member = self._members.get(member_id)
        match request:
            case ConsumerGroupPrepareAssignmentRequest() if member is not None:
                members = [
                    PreparedMember(
                        name,
                        other.epoch,
                        None,
                        None,
                        [TOPIC_ID],
                        self._assignor(),
                        [TopicPartitions(TOPIC_ID, sorted(self.target.get(name, ())))],
                    )
                    for name, other in self._members.items()
                ]
                topic = PreparedTopic(TOPIC_ID, TOPIC, self.world.partitions)
                reply(ConsumerGroupPrepareAssignmentResponse(0, 0, None, self.generation, "sticky", members, [topic]))
            case ConsumerGroupInstallAssignmentRequest() if member is not None and member_id == self._computing:
                target = {
                    share.member_id: {number for topic in share.partitions for number in topic.partitions}
                    for share in request.members
                }
                self._computing = ""
                self.install(target, request.group_epoch)
                reply(ConsumerGroupInstallAssignmentResponse(0, 0))
            case ConsumerGroupPrepareAssignmentRequest():
                reply(ConsumerGroupPrepareAssignmentResponse(0, ErrorCode.UNKNOWN_MEMBER_ID))
            case ConsumerGroupInstallAssignmentRequest():
                reply(ConsumerGroupInstallAssignmentResponse(0, ErrorCode.UNKNOWN_MEMBER_ID))
            case _:
                super().receive(member_id, request, reply)

    def response(self, error: int, member_id: str, granted: set[int] | None) -> Message:
        if not error and member_id == self.leader and not self._computing and self.target_epoch != self.generation:
            self._computing = member_id
        assignment = None
        if granted is not None:
            assigned = [TopicPartitions(TOPIC_ID, sorted(granted))]
            pending = self.target.get(member_id, set()) - granted
            waiting = [TopicPartitions(TOPIC_ID, sorted(pending))] if pending else []
            assignment = ClientAssignment(0, assigned, waiting, 0, b"")
        return ClientAssignorHeartbeatResponse(
            throttle_time_ms=0,
            error_code=error,
            member_id=member_id,
            member_epoch=self._members[member_id].epoch if not error else 0,
            should_compute_assignment=not error and self._computing == member_id,
            heartbeat_interval_ms=int(self.world.settings.heartbeat * 1000),
            assignment=assignment,
        )

    def request(self, me: Process, epoch: int, owned: set[int] | None) -> Message:
        return ClientAssignorHeartbeatRequest(
            group_id=GROUP,
            member_id=me.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=-1 if epoch else int(self.world.settings.rebalance * 1000),
            subscribed_topic_names=None if epoch else [TOPIC],
            client_assignors=None if epoch else [self._assignor()],
            topic_partitions=None if owned is None else [TopicPartitions(TOPIC_ID, sorted(owned))],
        )

    def between(self, me: Process, response: Message) -> Steps:
        assert isinstance(response, ClientAssignorHeartbeatResponse)
        if not response.should_compute_assignment:
            return
        group = yield ConsumerGroupPrepareAssignmentRequest(GROUP, me.member_id, response.member_epoch)
        if group.error_code:
            return
        owned = {member.member_id: set(member.target[0].partitions) for member in group.members}
        target = balanced(owned, group.topics[0].partitions)
        yield ConsumerGroupInstallAssignmentRequest(
            GROUP,
            me.member_id,
            response.member_epoch,
            group.group_epoch,
            0,
            [
                InstalledMember(name, [TopicPartitions(TOPIC_ID, sorted(share))], 0, b"")
                for name, share in target.items()
            ],
        )

    @staticmethod
    def _assignor() -> ClientAssignor:
        return ClientAssignor("sticky", 0, 0, 0, 0, METADATA)


def granted_by(response: Message) -> set[int] | None:
    """Return the partitions in the answer to a heartbeat, or None if they did not change."""
    assignment = response.assignment  # type: ignore[attr-defined]
    if assignment is None:
        return None
    topics = assignment.topic_partitions if isinstance(assignment, Assignment) else assignment.assigned
    return {number for topic in topics for number in topic.partitions}
