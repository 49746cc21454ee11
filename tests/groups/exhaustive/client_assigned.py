"""Groups with assignors on the client: some members fetch the group and install an assignment late, or never.

Checked in every state: the invariants of a consumer group; one computation at most is in flight, of a present member,
with a timer of its own, for an epoch without an assignment. Without further events, the members share every partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.experiments.client_assignors.group import ClientAssignedGroup, TimerKind
from tests.experiments.client_assignors.context import Cluster, Member
from tests.groups.context import GROUP
from tests.groups.exhaustive.consumer import LEGAL, ConsumerWorld
from tests.groups.exhaustive.consumer import Client as Consumer
from tests.groups.exhaustive.world import TOPIC, Epochs, QuietCluster

NOT_NOW = {E.UNKNOWN_MEMBER_ID, E.STALE_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND, E.INVALID_REQUEST}
"""Answers to a member that computes too late."""


class Node(QuietCluster, Cluster):
    pass


class Client(Consumer, Member):
    """A member that prepares and installs when the world says so, under any value of `should_compute`."""

    legal = frozenset(LEGAL)

    def act(self, what: str) -> None:
        if what == "prepare":
            assert self.prepare() in NOT_NOW | {0}
        elif what == "install":
            assert int(self.install().error_code) in NOT_NOW | {0}
        else:
            super().act(what)


class ClientAssignedWorld(ConsumerWorld):
    node: Node

    def make_node(self) -> Node:
        return Node("offsets.topic.num.partitions=1")

    def make_client(self, name: str) -> Client:
        return Client(self.node, name, [TOPIC], rebalance_timeout_ms=1)

    def clients_key(self, group: Any) -> object:
        epochs = Epochs(0) if group is None else self.epochs(group)
        known = None if group is None or group.delegation is None else group.delegation.group_epoch
        return (
            super().clients_key(group),
            # An assignment for another computation than the one in flight is refused, with any content.
            [each.should_compute for each in self.clients],
            [epochs.of(each.given.group_epoch) if each.given.group_epoch == known else "old" for each in self.clients],
        )

    def group_key(self) -> object:
        group = self.consumer_group
        if not isinstance(group, ClientAssignedGroup):
            return None
        delegation, epochs = group.delegation, self.epochs(group)
        in_flight: object = None
        if delegation is not None:
            subjects = delegation.subjects
            in_flight = (
                delegation.member_id,
                epochs.of(delegation.group_epoch),
                None if subjects is None else sorted((each, sorted(of.topics)) for each, of in subjects.items()),
                sorted(delegation.partition_counts.items()),
            )
        return super().group_key(), in_flight, sorted(group.passed_over)

    def steps_of(self, client: Client) -> Iterable[str]:  # type: ignore[override]
        yield from super().steps_of(client)
        if client.epoch > 0:
            if client.should_compute:
                yield "prepare"
            if client.given.group_epoch > 0:
                yield "install"

    def check(self) -> None:
        super().check()
        group = self.node.service.groups.get(GROUP)
        if not isinstance(group, ClientAssignedGroup):
            return
        delegation = group.delegation
        armed = [timer for timer in self.timers() if timer.kind == TimerKind.DELEGATION]
        assert len(armed) == (delegation is not None), "one computation at most has one timer"
        if delegation is not None and delegation.member_id in group.members:
            assert group.target_epoch <= delegation.group_epoch <= group.group_epoch

    def settle(self) -> None:
        """As in a consumer group, and the member with `should_compute` computes."""
        group = self.consumer_group
        if group is None or not group.members:
            return
        present: list[Any] = [each for each in self.clients if each.member_id in group.members]
        for client in present:
            client.act("join")

        def go_on() -> None:
            for client in present:
                client.go_on()
                if client.should_compute:
                    assert client.compute() == 0

        self.until_quiet(self.key, go_on)
        owned = sorted(each for client in present for each in client.owned)
        assert owned == [(TOPIC, number) for number in range(self.node.topics.partitions_of(TOPIC))]
