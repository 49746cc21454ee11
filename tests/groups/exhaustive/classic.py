"""Classic groups: members that join, sync, leave and fall silent, a static one and its successor, requests that wait.

Checked in every state: in one generation each partition has one owner at most (I1), and one member leads (I7); only a
crash takes generations back (I2); a client with answer 0 is a member (I6); each parked request has a timer (I3, I10);
the records give the same group (I5). Without further events, the members share every partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartition,
    assignment_from_bytes,
    assignment_to_bytes,
)
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.join_group import error as join_refused
from kafka_shim.apis.leave_group import LeaveGroupRequest, MemberIdentity
from kafka_shim.apis.leave_group import error as leave_refused
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from kafka_shim.apis.sync_group import error as sync_refused
from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.interface import PARKED, Client
from kafka_shim.groups.timers import Timer
from kafka_shim.persistence.records import GroupMetadataKey
from tests.groups.classic_safety import check_counts, check_reload, check_timers
from tests.groups.consumer.context import HOST
from tests.groups.context import GROUP, subscription
from tests.groups.exhaustive.explore import Step
from tests.groups.exhaustive.world import TOPIC, QuietCluster, World

STATIC = "rs"
"""Members with one instance id."""
METADATA = subscription(TOPIC)


class Exchange:
    """A request of a member; its answer may get lost."""

    def __init__(self, name: str, *, lost: bool) -> None:
        self.name = name
        self.lost = lost


class Node(QuietCluster):
    """A node that keeps the answers to parked requests for their clients."""

    def start(self) -> None:
        self.answered: list[tuple[Exchange, JoinGroupResponse | SyncGroupResponse]] = []
        super().start()

    def settle(self) -> None:
        self.answered += [(exchange, response) for exchange, response, _ in self.outbox.replies]
        self.outbox.replies = []
        super().settle()


class Member:
    """A client of the classic protocol. `generation` is -1 before it is in one; `followers` are the members that it is
    to give partitions, if it leads; `assigned` is None until it has synced; `waits` is the request it waits for."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.name = name
        self.instance_id = "i" if name in STATIC else None
        self.member_id = ""
        self.waits: Exchange | None = None
        self.forget_generation()

    def forget_generation(self) -> None:
        self.generation = -1
        self.followers: list[str] = []
        self.assigned: set[int] | None = None

    @property
    def owned(self) -> set[tuple[str, int]]:
        return {(TOPIC, number) for number in self.assigned or ()}

    # Requests

    def act(self, what: str) -> None:
        lost = what.endswith("lost")
        if what.startswith("join"):
            self.join(lost=lost)
        elif what.startswith("sync"):
            self.sync(lost=lost)
        elif what == "heartbeat":
            self.heartbeat()
        else:
            request = LeaveGroupRequest(GROUP, members=[MemberIdentity(self.member_id, self.instance_id)])
            self.node.service.ask(request, leave_refused, self.node.now)
            self.waits, self.member_id = None, ""
            self.forget_generation()
            self.node.settle()

    def join(self, *, lost: bool = False) -> None:
        """Give up all partitions, then join."""
        self.forget_generation()
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", METADATA)],
        )
        exchange = self._ask(lost=lost)
        answer = self.node.service.ask(
            request,
            join_refused,
            Client(self.name, HOST),
            exchange,
            self.node.now,
            member_id_required=True,
            skip_assignment_supported=True,
        )
        self._heard(exchange, answer)

    def sync(self, *, lost: bool = False) -> None:
        assigned: dict[str, list[int]] = {member_id: [] for member_id in self.followers}
        for number in range(self.node.topics.partitions_of(TOPIC) if assigned else 0):
            assigned[self.followers[number % len(assigned)]].append(number)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(*each) for each in _to_bytes(assigned)],
        )
        exchange = self._ask(lost=lost)
        self._heard(exchange, self.node.service.ask(request, sync_refused, exchange, self.node.now))

    def heartbeat(self) -> int:
        error = self.node.service.heartbeat(GROUP, self.generation, self.member_id, self.instance_id, self.node.now)
        self.node.settle()
        self._refused(error)
        return error

    def _ask(self, *, lost: bool) -> Exchange:
        exchange = Exchange(self.name, lost=lost)
        self.waits = None if lost else exchange
        return exchange

    def _heard(self, exchange: Exchange, answer: object) -> None:
        self.node.settle()
        if answer is not PARKED:
            self.node.answered.append((exchange, answer))  # type: ignore[arg-type]

    # Answers

    def hear(self, answer: JoinGroupResponse | SyncGroupResponse) -> None:
        """An answer that did not get lost."""
        if isinstance(answer, JoinGroupResponse):
            if answer.error_code in (E.NONE, E.MEMBER_ID_REQUIRED):
                self.member_id = answer.member_id
            if answer.error_code == E.MEMBER_ID_REQUIRED:
                self.join()
            elif answer.error_code == E.NONE:
                self.generation = answer.generation_id
                # One that may skip the assignment gets the list to watch, not to assign.
                self.followers = [] if answer.skip_assignment else [each.member_id for each in answer.members]
        elif answer.error_code == E.NONE:
            assignment = assignment_from_bytes(answer.assignment)
            topics = [] if assignment is None else assignment.assigned_partitions
            self.assigned = {number for each in topics for number in each.partitions}
        self._refused(answer.error_code)

    def _refused(self, error: int) -> None:
        assert error in (
            0,
            E.MEMBER_ID_REQUIRED,
            E.ILLEGAL_GENERATION,
            E.UNKNOWN_MEMBER_ID,
            E.REBALANCE_IN_PROGRESS,
        ) or (error == E.FENCED_INSTANCE_ID and self.instance_id), error
        if error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self.member_id = ""
        if error in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.ILLEGAL_GENERATION):
            self.forget_generation()

    def go_on(self) -> None:
        """Take the client's next step when no event disturbs it."""
        if self.waits is not None:
            return
        if self.generation < 0:
            self.join()
        elif self.assigned is None:
            self.sync()
        elif self.heartbeat() == E.REBALANCE_IN_PROGRESS:
            self.join()


class ClassicWorld(World):
    settings = ("group.initial.rebalance.delay.ms=0",)
    node: Node

    def make_node(self) -> Node:
        return Node("offsets.topic.num.partitions=1", *self.settings)

    def make_client(self, name: str) -> Member:
        return Member(self.node, name)

    @property
    def classic_group(self) -> ClassicGroup | None:
        group = self.node.service.groups.get(GROUP)
        return group if isinstance(group, ClassicGroup) else None

    @property
    def members(self) -> list[Member]:
        """The clients of the classic protocol."""
        return [each for each in self.clients if isinstance(each, Member)]

    # States

    def key(self) -> object:
        return self.members_key(self.members), self.classic_key(), self.shared_key()

    def ids(self) -> Mapping[str, int]:
        """Member ids by their age: nothing else in them matters."""
        group = self.classic_group
        ids = {member_id for each in self.members for member_id in (each.member_id, *each.followers)} - {""}
        if group is not None:
            ids |= {*group.members, *group.pending, *self._durable_ids()}
        return {member_id: number for number, member_id in enumerate(sorted(ids))} | {"": -1}

    def _durable_ids(self) -> Iterable[str]:
        durable = self.node.durable[0].get(GroupMetadataKey(GROUP))
        return () if durable is None or not self.crashes else (each.member_id for each in durable.members)

    def members_key(self, members: Iterable[Member]) -> object:
        group, ids = self.group, self.ids()
        generation = 0 if group is None else group.generation
        return [
            (
                ids[each.member_id],
                each.generation - generation if each.generation >= 0 else "none",
                [ids[member_id] for member_id in each.followers],
                None if each.assigned is None else sorted(each.assigned),
                each.waits is not None,
            )
            for each in members
        ]

    def classic_key(self) -> object:
        group = self.classic_group
        if group is None:
            return None
        ids = self.ids()
        durable = self.node.durable[0].get(GroupMetadataKey(GROUP)) if self.crashes else None
        return (
            group.state.value,
            group.in_initial_round,
            group.new_member_added,
            group.generation == 0,
            -1 if group.leader is None else ids[group.leader],
            [
                (
                    ids[each.member_id],
                    each.group_instance_id or "",
                    each.assignment,
                    self._waiting(each.join_exchange),
                    self._waiting(each.sync_exchange),
                    each.is_new,
                )
                for each in group.members.values()
            ],
            sorted(ids[each] for each in group.pending),
            sorted(ids[each] for each in group.pending_sync),
            sorted((timer.kind.value, ids[timer.member_id]) for timer in self.timers()),
            durable
            and (
                group.generation - durable.generation,
                [(ids[each.member_id], each.assignment) for each in durable.members],
            ),
        )

    def _waiting(self, exchange: object) -> str:
        if exchange is None:
            return ""
        assert isinstance(exchange, Exchange)
        client = self.clients[self.names.index(exchange.name)]
        return exchange.name if client.waits is exchange else "nobody"

    # Steps

    def steps_of(self, client: Member) -> Iterator[str]:
        yield "join"
        yield "join, answer lost"
        if client.generation >= 0:
            yield "sync"
            yield "sync, answer lost"
            yield "heartbeat"
        if client.member_id:
            yield "leave"

    def act(self, client: Member, what: str) -> None:
        client.act(what)

    def take(self, step: Step) -> None:
        super().take(step)
        self.deliver()

    def deliver(self) -> None:
        """Let members hear the answers that are there."""
        while self.node.answered:
            exchange, answer = self.node.answered.pop(0)
            client = self.clients[self.names.index(exchange.name)]
            if client.waits is exchange:
                client.waits = None
                client.hear(answer)

    def crash(self) -> None:
        super().crash()
        for client in self.members:
            client.waits = None

    # Invariants

    def check(self) -> None:
        group = self.classic_group
        check_timers(self.shard.timers, group)
        if group is not None:
            check_counts(group)
        again = self.reloaded()
        assert again is None or isinstance(again, ClassicGroup)
        check_reload(group, again)
        self.check_members(self.members)

    def check_members(self, members: Iterable[Member]) -> None:
        group = self.classic_group
        known = {} if group is None else group.members
        for one, other in combinations(members, 2):
            if one.generation == other.generation >= 0 and one.name not in STATIC:
                both = (one.assigned or set()) & (other.assigned or set())
                assert not both, f"I1: {both} of {one.name} and {other.name} in generation {one.generation}"
                # A generation that a crash has undone comes again, without the members of the first.
                lead = one.followers and other.followers and one.member_id in known and other.member_id in known
                assert not lead, f"I7: {one.name} and {other.name} lead"

    def settle(self) -> None:
        group = self.classic_group
        if group is None:
            return
        present = [each for each in self.clients if self.is_present(each)]
        for client in present:
            client.act("join")
            self.deliver()
        self.come_to_rest(present)

    def is_present(self, client: Member) -> bool:
        group = self.classic_group
        return group is not None and (
            client.waits is not None or client.member_id in group.members or client.member_id in group.pending
        )

    def come_to_rest(self, present: list[Member]) -> None:
        """Let members go on, and time pass when all wait."""
        for _ in range(60):
            before = self.key()
            for timer in self.timers():
                if timer.member_id and self.is_forgotten(timer):
                    self.fire(timer)
            for client in present:
                client.go_on()
                self.deliver()
            self.check()
            if self.key() == before:
                rounds = [timer for timer in self.timers() if timer.kind in ("join", "sync")]
                if not rounds:
                    break
                self.fire(rounds[0])
                self.deliver()
        else:
            raise AssertionError("the group does not come to rest")
        owned = sorted(each for client in present for each in client.owned)
        there = [(TOPIC, number) for number in range(self.node.topics.partitions_of(TOPIC))]
        assert owned == (there if present else []), f"{owned} is not {there}"

    def is_forgotten(self, timer: Timer) -> bool:
        """Whether no client knows the id that a timer is for: it is silent then."""
        return all(client.member_id != timer.member_id for client in self.clients)


def _to_bytes(assigned: dict[str, list[int]]) -> Iterator[tuple[str, bytes]]:
    for member_id, numbers in assigned.items():
        assignment = ConsumerProtocolAssignment([TopicPartition(TOPIC, numbers)] if numbers else [])
        yield member_id, assignment_to_bytes(assignment, 1)
