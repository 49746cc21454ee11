"""A coordinator of groups with assignors on the client, and members that compute assignments.

A `Member` keeps the group that it fetched for its computation. It divides partitions evenly unless a test gives other
shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_shim.apis.consumer_group_heartbeat import TopicPartitions
from kafka_shim.experiments.client_assignors.group import ClientAssignedGroup
from kafka_shim.experiments.client_assignors.kind import KIND
from kafka_shim.experiments.client_assignors.messages import (
    HEARTBEAT,
    INSTALL,
    PREPARE,
    ClientAssignor,
    ClientAssignorHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
)
from kafka_shim.groups.interface import Client
from kafka_shim.groups.kinds import KINDS
from kafka_shim.groups.shard import Kinds
from tests.groups.consumer import context as consumer
from tests.groups.context import GROUP

EVEN = ClientAssignor("even", 0, 0, 0, 0, b"")


class Cluster(consumer.Cluster):
    """One node that serves client assignors."""

    def start(self) -> None:
        self.kinds = Kinds(*{kind.name: kind for kind in (*KINDS, KIND)}.values())
        super().start()

    def ask(self, api: Any, request: Any, *arguments: Any) -> Any:
        answer = self.service.ask(request, api.error, *arguments)
        self.settle()
        self.advance(0)
        return answer

    @property
    def assigned_group(self) -> ClientAssignedGroup:
        group = self.service.groups[GROUP]
        assert isinstance(group, ClientAssignedGroup)
        return group

    def member(self, member_id: str, *topics: str, **options: Any) -> Member:
        return Member(self, member_id, list(topics or ("orders",)), **options)

    def delegations(self) -> list[tuple[str, str]]:
        return [(event["member_id"], event["change"]) for event in self.of("delegation")]


class Member(consumer.Consumer):
    """A member with assignors of its own. Its last answer set `should_compute` and `last`, its assignment."""

    def __init__(
        self,
        cluster: Cluster,
        member_id: str,
        topics: list[str],
        assignors: tuple[ClientAssignor, ...] = (EVEN,),
        **options: Any,
    ) -> None:
        super().__init__(cluster, member_id, topics, **options)
        self.server = cluster
        self.assignors = assignors
        self.should_compute = False
        self.last: Any = None
        self.given = ConsumerGroupPrepareAssignmentResponse()

    def heartbeat(self, *, lost: bool = False, **fields: Any) -> Any:
        request = ClientAssignorHeartbeatRequest(GROUP, self.member_id, self.epoch, self.instance_id)
        for name, value in fields.items():
            setattr(request, name, value)
        answer = self.server.ask(HEARTBEAT, request, Client(self.member_id, consumer.HOST), None, self.cluster.now)
        if not lost and answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.should_compute = answer.should_compute_assignment
            if answer.assignment is not None:
                self.last = answer.assignment
                self.assigned = self.cluster.named(answer.assignment.assigned)
                self.owned |= self.assigned
        return answer

    def full(self, **fields: Any) -> Any:
        return super().full(**({"client_assignors": list(self.assignors)} | fields))

    def prepare(self, **fields: Any) -> int:
        """Fetch the group to compute for; return the error."""
        request = ConsumerGroupPrepareAssignmentRequest(GROUP, self.member_id, self.epoch)
        for name, value in fields.items():
            setattr(request, name, value)
        answer = self.server.ask(PREPARE, request)
        if not answer.error_code:
            self.given = answer
        return int(answer.error_code)

    def install(self, shares: Mapping[str, list[TopicPartitions]] | None = None, **fields: Any) -> Any:
        """Hand in these shares, or even ones, for the epoch that was prepared."""
        shares = self.even_shares() if shares is None else shares
        members = [InstalledMember(member_id, topics, 0, b"") for member_id, topics in shares.items()]
        request = ConsumerGroupInstallAssignmentRequest(
            GROUP, self.member_id, self.epoch, self.given.group_epoch, 0, members
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.server.ask(INSTALL, request)

    def even_shares(self) -> dict[str, list[TopicPartitions]]:
        """Give the partitions of each topic to its subscribers in turn."""
        members = self.given.members
        shares: dict[str, list[TopicPartitions]] = {each.member_id: [] for each in members}
        for topic in self.given.topics:
            readers = sorted(each.member_id for each in members if topic.topic_id in each.subscribed_topic_ids)
            for turn, reader in enumerate(readers):
                numbers = list(range(turn, topic.partitions, len(readers)))
                shares[reader].append(TopicPartitions(topic.topic_id, numbers))
        return shares

    def compute(self) -> int:
        """Prepare and install; the error."""
        return self.prepare() or int(self.install().error_code)


def settle(*members: Member) -> None:
    """Let members send heartbeats, and compute when they are asked, until nothing changes any more."""
    for _ in range(20):
        before = [each.view for each in members]
        asked = False
        for each in members:
            assert each.obey().error_code == 0
            if each.should_compute:
                asked = True
                assert each.compute() == 0
        if not asked and before == [each.view for each in members]:
            return
    raise AssertionError("the group does not settle")
