"""A coordinator without sockets, with time as a number: tests read like scripts.

`Context` drives the same `handle` and `shape` functions as the server, keeps the durable records in a dictionary,
checks every trace event against the schema, and gives out a `Reply` per request that knows its answer or that it is
parked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

from kafka_shim.apis import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)
from kafka_shim.apis.consumer_protocol import ConsumerProtocolSubscription, TopicPartition, subscription_to_bytes
from kafka_shim.apis.describe_groups import DescribedGroup
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafka_shim.apis.releases import DEFAULT_RELEASE, rules_of
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.config import GroupConfig
from kafka_shim.groups.interface import PARKED, Client
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.outbox import Outbox
from kafka_shim.groups.service import GroupService
from kafka_shim.groups.shard import Kinds, NodeParts
from kafka_shim.groups.timers import Timers
from kafka_shim.persistence.store import records_of
from kafka_shim.trace import schema
from tests.handling import Call, handle

WALL_OFFSET = 1_700_000_000.0
GROUP = "group"
_INTERVALS = tuple(f"group.{kind}.assignment.interval.ms" for kind in ("consumer", "share", "streams"))
AT_ONCE = tuple(f"{name}=0" for name in _INTERVALS)
KAFKA_INTERVALS = tuple(f"{name}=1000" for name in _INTERVALS)
"""Kafka's default settings for the interval between two assignments."""


def subscription(*topics: str, owned: dict[str, list[int]] | None = None, version: int = 1) -> bytes:
    """A consumer's metadata."""
    return subscription_to_bytes(
        ConsumerProtocolSubscription(
            topics=list(topics),
            owned_partitions=[TopicPartition(topic, partitions) for topic, partitions in (owned or {}).items()],
        ),
        version,
    )


RANGE = ("range", subscription("topic"))
ROUND_ROBIN = ("roundrobin", subscription("topic"))


class Reply(Call):
    """One request: its answer, or None while it is parked."""

    response: Any = None

    @property
    def parked(self) -> bool:
        return self.response is None

    @property
    def error(self) -> int:
        assert self.response is not None, "the request is parked"
        return int(self.response.error_code)

    def __getattr__(self, name: str) -> Any:
        assert self.response is not None, "the request is parked"
        return getattr(self.response, name)


class Context:
    """One node with all partitions of `__consumer_offsets`, at time `now` in seconds. `listens`: to its trace.

    Assignments do not wait for an interval, unless the settings say so.
    """

    listens = True

    def __init__(
        self, *settings: str, client_id: str = "client", kinds: Kinds = KINDS, release: str = DEFAULT_RELEASE
    ) -> None:
        self.kinds = kinds
        self.rules = rules_of(release)
        self.config = GroupConfig().with_settings(["offsets.topic.num.partitions=2", *AT_ONCE, *settings])
        self.now = 1000.0
        self.client = Client(client_id, "/127.0.0.1")
        self.durable: dict[int, dict[Any, Any]] = {p: {} for p in range(self.config.offsets_topic_num_partitions)}
        self.written: list[tuple[Any, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.parked: set[Reply] = set()
        self.broker: Any = SimpleNamespace(remote_share_states=None)
        self._ids = count(1)
        self.start()

    # The node

    def start(self) -> None:
        """Start a coordinator on the durable records."""
        self.serve()

    def serve(self, **options: Any) -> None:
        """Start a coordinator with these parts, and load the durable records."""
        self.outbox = Outbox()
        self.outbox.listening = self.outbox.tracing = self.listens
        parts = NodeParts(
            config=self.config,
            outbox=self.outbox,
            timers=Timers(self.outbox),
            new_id=lambda: str(next(self._ids)),
            wall_offset=WALL_OFFSET,
            rules=self.rules,
            **options,
        )
        self.service = GroupService(1, parts, self.kinds, lambda key, key_type: (0, 1, "localhost", 9092))
        for partition, records in self.durable.items():
            self.service.begin_loading(partition)
            self.service.load(partition, list(records.items()), self.now)
        self.settle()

    def crash(self) -> None:
        """Lose everything that is not durable, with every parked request, and start again."""
        self.parked.clear()
        self.start()

    def settle(self) -> None:
        """Handle the outbox as a server does."""
        for partition, key, value in records_of(self.outbox.records):
            self.written.append((key, value))
            if value is None:
                self.durable[partition].pop(key, None)
            else:
                self.durable[partition][key] = value
        for exchange, response, _ in self.outbox.replies:
            assert exchange in self.parked, "answered twice, or never parked"
            self.parked.remove(exchange)
            exchange.response = response
        for event in self.outbox.events:
            assert schema.problems(event) == []
        self.events.extend(self.outbox.events)
        self.outbox.records, self.outbox.replies, self.outbox.events = [], [], []

    def advance(self, ms: float) -> None:
        """Let time pass, firing every timer at its own time."""
        until = self.now + ms / 1000
        while self.service.next_deadline() <= until:
            self.now = max(self.now, self.service.next_deadline())
            self.service.fire(self.now)
            self.settle()
        self.now = until

    # Requests

    def send(self, api: Any, request: Any, version: int, client: Client | None = None) -> Reply:
        """Send a request through its API's `handle`."""
        reply = Reply(version, client or self.client, self.now, self.service, self.broker)
        # A rule may release the parked request before it returns.
        self.parked.add(reply)
        response = handle(request, reply)
        if response is not PARKED:
            self.parked.remove(reply)
            reply.response = response
        self.settle()
        if reply.response is not None:
            reply.response = api.API.shape(reply.response, version)
        return reply

    def join(
        self,
        member_id: str = "",
        *protocols: tuple[str, bytes],
        instance: str | None = None,
        group: str = GROUP,
        version: int = 9,
        session: int = 10_000,
        rebalance: int = 60_000,
        protocol_type: str = "consumer",
        client: Client | None = None,
        reason: str | None = None,
    ) -> Reply:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(*protocol) for protocol in protocols or (RANGE,)],
            reason=reason,
        )
        return self.send(join_group, request, version, client)

    def join_new(self, *protocols: tuple[str, bytes], **options: Any) -> tuple[str, Reply]:
        """Join as a dynamic member of v4+ does: once for an id, once with it. The member id and the second reply."""
        first = self.join("", *protocols, **options)
        assert first.error == ErrorCode.MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, *protocols, **options)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        group: str = GROUP,
        version: int = 5,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> Reply:
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[SyncGroupRequestAssignment(*each) for each in (assignments or {}).items()],
        )
        return self.send(sync_group, request, version)

    def heartbeat(
        self, member_id: str, generation: int, *, instance: str | None = None, group: str = GROUP, version: int = 4
    ) -> int:
        """The error code."""
        request = heartbeat.HeartbeatRequest(group, generation, member_id, instance)
        return self.send(heartbeat, request, version).error

    def leave(
        self, *members: str | tuple[str, str | None], group: str = GROUP, version: int = 5, reason: str | None = None
    ) -> LeaveGroupResponse:
        """Members are ids, or pairs of id and instance id."""
        identities = [
            MemberIdentity(member, None, reason) if isinstance(member, str) else MemberIdentity(*member, reason)
            for member in members
        ]
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=identities[0].member_id)
        else:
            request = LeaveGroupRequest(group_id=group, members=identities)
        return self.send(leave_group, request, version).response

    def left(self, *members: str | tuple[str, str | None], **options: Any) -> list[int]:
        """Leave, and the error of each member."""
        response = self.leave(*members, **options)
        assert response.error_code == ErrorCode.NONE
        return [int(member.error_code) for member in response.members]

    def describe(self, group: str = GROUP, version: int = 6) -> DescribedGroup:
        request = describe_groups.DescribeGroupsRequest([group])
        (described,) = self.send(describe_groups, request, version).response.groups
        return described

    def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> Any:
        request = list_groups.ListGroupsRequest(list(states), list(types))
        return self.send(list_groups, request, 5).response

    def delete(self, *groups: str) -> list[tuple[str, int]]:
        response = self.send(delete_groups, delete_groups.DeleteGroupsRequest(list(groups)), 2).response
        return [(result.group_id, int(result.error_code)) for result in response.results]

    # Groups

    @property
    def group(self) -> ClassicGroup:
        group = self.service.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        """The group's state as clients see it."""
        return self.describe().group_state

    def form(self, size: int = 2, *, instances: Sequence[str] = (), **options: Any) -> list[str]:
        """A Stable group of `size` dynamic members, or of a static one for each of `instances`; the leader is first.

        Generation 1; each member's assignment is its number in ASCII.
        """
        ids = self.prepare(size, instances=instances, **options)
        self.end_round()
        self.sync_all(ids)
        assert self.group.state == "Stable"
        return ids

    def prepare(self, size: int = 2, *, instances: Sequence[str] = (), **options: Any) -> list[str]:
        """The members of a group during its initial round."""
        if instances:
            for instance in instances:
                self.join(instance=instance, **options)
            return [self.group.static[instance] for instance in instances]
        return [self.join_new(**options)[0] for _ in range(size)]

    def end_round(self) -> None:
        """Let the initial round end by its timer."""
        while self.group.state == "PreparingRebalance":
            self.advance(max(self.config.group_initial_rebalance_delay_ms, 1))

    def sync_all(self, ids: Sequence[str]) -> list[Reply]:
        """All members sync, the leader last."""
        generation, leader = self.group.generation, self.group.leader
        assert leader is not None
        name = self.group.protocol
        followers = [self.sync(m, generation, protocol_name=name) for m in ids if m != leader]
        assignments = {member_id: str(number).encode() for number, member_id in enumerate(ids)}
        return [*followers, self.sync(leader, generation, assignments, protocol_name=name)]

    def armed(self, kind: str) -> dict[str, float]:
        """Milliseconds from now to the deadline of each armed timer of one kind, by member id."""
        return {
            timer.member_id: round((timer.deadline - self.now) * 1000, 3)
            for timer in self.service.timers.armed()
            if timer.kind == kind
        }

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Trace events of one kind."""
        return [event for event in self.events if event["event"] == kind]

    def causes(self) -> list[str]:
        """The cause of each rebalance, in order."""
        return [event["cause"] for event in self.of("state") if event["to"] == "PreparingRebalance"]
