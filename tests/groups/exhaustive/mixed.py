"""Members of the classic protocol and of KIP-848 in one group, which changes its kind as they come and go.

Checked in every state: the invariants of the present kind; in a consumer group a client of either protocol uses only
partitions that the coordinator counts as its own (I1). Without further events, the members share every partition.
After semantics 4.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.groups.classic.group import ClassicGroup
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.group import Group
from tests.groups.consumer.safety import check, check_records
from tests.groups.context import GROUP
from tests.groups.exhaustive.classic import ClassicWorld, Member
from tests.groups.exhaustive.consumer import Client, ConsumerWorld
from tests.groups.exhaustive.explore import Step
from tests.groups.exhaustive.world import TOPIC, World

CLASSIC = "xyz"
"""Clients of the classic protocol."""


class Newcomer(Client):
    """A client of KIP-848. A group of classic members without a generation is not converted: Kafka says -1."""

    legal = Client.legal | {E.UNKNOWN_SERVER_ERROR}


class MixedWorld(ClassicWorld, ConsumerWorld):
    settings = ("group.initial.rebalance.delay.ms=0", "group.consumer.migration.policy=bidirectional")

    def make_client(self, name: str) -> Member | Client:  # type: ignore[override]
        if name in CLASSIC:
            return ClassicWorld.make_client(self, name)
        return Newcomer(self.node, name, [TOPIC], rebalance_timeout_ms=1)

    @property
    def group(self) -> Group | None:
        return self.node.service.groups.get(GROUP)

    # States

    def key(self) -> object:
        return (
            self.members_key(self.members),
            self.clients_key(self.consumer_group),
            self.classic_key(),
            self.group_key(),
            self.shared_key(),
        )

    def ids(self) -> Mapping[str, int]:  # type: ignore[override]
        group = self.group
        ids = {member_id for each in self.members for member_id in (each.member_id, *each.followers)} - {""}
        if isinstance(group, ClassicGroup):
            ids |= {*group.members, *group.pending, *self._durable_ids()}
        elif isinstance(group, ConsumerGroup):
            ids |= set(group.members)
        return {member_id: number for number, member_id in enumerate(sorted(ids))} | {"": -1}

    # Steps

    def steps_of(self, client: Member | Client) -> Iterable[str]:  # type: ignore[override]
        if isinstance(client, Member):
            return ClassicWorld.steps_of(self, client)
        return ConsumerWorld.steps_of(self, client)

    def act(self, client: Member | Client, what: str) -> None:  # type: ignore[override]
        client.act(what)

    def take(self, step: Step) -> None:
        World.take(self, step)
        self.deliver()

    def crash(self) -> None:
        World.crash(self)
        for client in self.members:
            client.waits = None

    # Invariants

    def check(self) -> None:
        group = self.consumer_group
        if group is None:
            ClassicWorld.check(self)
            return
        # After a group has changed its kind twice a classic member may use partitions until it hears of it: the first
        # change gave it its target assignment. In Kafka too (semantics 4.8).
        heard = [
            each
            for each in self.clients
            if isinstance(each, Client)
            or (each.member_id in group.members and each.generation == group.members[each.member_id].epoch)
        ]
        check(self.node, heard)
        check_records(self.node)

    def settle(self) -> None:
        group = self.group
        if group is None:
            return
        present = [each for each in self.clients if self.is_present(each)]
        for client in present:
            client.act("join")
            self.deliver()
        self.come_to_rest(present)

    def is_present(self, client: Member | Client) -> bool:  # type: ignore[override]
        group = self.group
        known = group.members if isinstance(group, (ClassicGroup, ConsumerGroup)) else {}
        return client.member_id in known or (isinstance(client, Member) and client.waits is not None)
