"""Every order of steps of a few members, up to a depth: a model checker whose model is the rules themselves.

A state is what is durable and what each client knows. From each state each step is tried on a coordinator that has just
loaded it, so that a crash and a reload lie between any two steps; what a coordinator keeps in memory besides, timers
and the memory of what it looked at, is only ever a reason to do less. States are hashed with epochs by their order.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kafka_shim.apis.wire.errors import ErrorCode as E
from kafka_shim.groups.consumer.live import ConsumerGroup
from kafka_shim.groups.consumer.timers import TimerKind
from tests.groups.context import GROUP

from .context import Cluster, Consumer
from .safety import check

Step = tuple[str, int]


class World:
    """Members of a group on one partition of `__consumer_offsets`; one is static."""

    def __init__(self, ids: str, partitions: int) -> None:
        self.cluster = Cluster("offsets.topic.num.partitions=1")
        self.cluster.topics.create("t", partitions)
        self.clients = [
            Consumer(self.cluster, name, ["t"], instance_id="i" if name == "s" else None, rebalance_timeout_ms=1)
            for name in ids
        ]

    # States

    def snapshot(self) -> Any:
        return (
            dict(self.cluster.durable[0]),
            dict(self.cluster.topics.by_name),
            [(each.epoch, set(each.owned), set(each.assigned)) for each in self.clients],
        )

    def restore(self, snapshot: Any) -> None:
        durable, topics, clients = snapshot
        cluster = self.cluster
        cluster.durable[0] = dict(durable)
        cluster.topics.by_name = dict(topics)
        cluster.events, cluster.written = [], []
        cluster.start()
        for client, (epoch, owned, assigned) in zip(self.clients, clients, strict=True):
            client.epoch, client.owned, client.assigned = epoch, set(owned), set(assigned)

    def key(self) -> Any:
        """The state, with epochs by their order: what happens next depends on nothing else of them."""
        group = self.cluster.service.groups.get(GROUP)
        epochs = {0, -1, -2} | {client.epoch for client in self.clients}
        if isinstance(group, ConsumerGroup):
            epochs |= {group.group_epoch, group.target_epoch}
            epochs |= {epoch for each in group.members.values() for epoch in (each.epoch, each.previous_epoch)}
        order = {epoch: number for number, epoch in enumerate(sorted(epochs))}
        clients = tuple((order[each.epoch], frozenset(each.owned), frozenset(each.assigned)) for each in self.clients)
        if not isinstance(group, ConsumerGroup):
            return clients
        members = frozenset(
            (
                each.member_id,
                order[each.epoch],
                order[each.previous_epoch],
                each.state,
                frozenset(each.assigned.items()),
                frozenset(each.pending_revocation.items()),
            )
            for each in group.members.values()
        )
        targets = frozenset((name, frozenset(target.items())) for name, target in group.targets.items())
        topics = tuple(self.cluster.topics.by_name.values())
        return clients, members, targets, order[group.group_epoch], order[group.target_epoch], topics

    # Steps

    def steps(self) -> Iterator[Step]:
        for number, client in enumerate(self.clients):
            yield "join", number
            if client.epoch > 0:
                yield "obey", number
                yield "obey, answer lost", number
                yield "heartbeat", number
                yield "heartbeat, answer lost", number
                yield "leave", number
                if client.instance_id is not None:
                    yield "leave for a while", number
            yield "session ends", number
            yield "rebalance timeout", number
        if self.cluster.topics.partitions_of("t") < 3:
            yield "topic grows", 0

    def take(self, step: Step) -> None:
        what, number = step
        _STEPS[what](self, self.clients[number])
        check(self.cluster, self.clients)

    def hear(self, client: Consumer, error: int) -> None:
        assert error in (0, E.UNKNOWN_MEMBER_ID, E.FENCED_MEMBER_EPOCH, E.GROUP_ID_NOT_FOUND, E.UNRELEASED_INSTANCE_ID)
        if error:
            client.epoch, client.owned, client.assigned = 0, set(), set()

    def away(self, client: Consumer, epoch: int) -> None:
        client.leave(epoch)
        client.epoch, client.owned, client.assigned = 0, set(), set()

    def fire(self, client: Consumer, kind: TimerKind) -> None:
        group = self.cluster.service.groups.get(GROUP)
        if isinstance(group, ConsumerGroup) and client.member_id in group.members:
            timer = (
                group.session(client.member_id) if kind is TimerKind.SESSION else group.timer(kind, client.member_id)
            )
            armed = timer in set(self.cluster.service.timers.armed())
            if armed:
                self.cluster.service.timers.cancel(timer)
                self.cluster.consumer_group.fire(timer, self.cluster.now)
                self.cluster.settle()


_STEPS: dict[str, Callable[[World, Consumer], None]] = {
    "join": lambda world, client: world.hear(client, client.join().error_code),
    "obey": lambda world, client: world.hear(client, client.obey().error_code),
    "obey, answer lost": lambda world, client: world.hear(client, client.obey(lost=True).error_code),
    "heartbeat": lambda world, client: world.hear(client, client.heartbeat().error_code),
    "heartbeat, answer lost": lambda world, client: world.hear(client, client.heartbeat(lost=True).error_code),
    "leave": lambda world, client: world.away(client, -1),
    "leave for a while": lambda world, client: world.away(client, -2),
    "session ends": lambda world, client: world.fire(client, TimerKind.SESSION),
    "rebalance timeout": lambda world, client: world.fire(client, TimerKind.REBALANCE),
    "topic grows": lambda world, client: world.cluster.create("t", world.cluster.topics.partitions_of("t") + 1),
}


def explore(world: World, depth: int) -> int:
    """How many states there are within `depth` steps; every one is checked."""
    seen = {world.key()}
    queue: deque[tuple[Any, int, tuple[Step, ...]]] = deque([(world.snapshot(), 0, ())])
    while queue:
        snapshot, steps, path = queue.popleft()
        if steps == depth:
            continue
        world.restore(snapshot)
        for step in list(world.steps()):
            world.restore(snapshot)
            try:
                world.take(step)
            except AssertionError as error:
                raise AssertionError(f"after {[*path, step]}: {error}") from error
            key = world.key()
            if key not in seen:
                seen.add(key)
                queue.append((world.snapshot(), steps + 1, (*path, step)))
    return len(seen)


def depth_of(usual: int, long: int) -> int:
    return long if "FUZZ_SECONDS" in os.environ else usual


def test_two_members_share_two_partitions() -> None:
    assert explore(World("ab", 2), depth_of(6, 10)) > 100


def test_a_static_member_and_another_share_two_partitions() -> None:
    assert explore(World("as", 2), depth_of(5, 9)) > 100


def test_three_members_share_two_partitions() -> None:
    assert explore(World("abc", 2), depth_of(4, 7)) > 100
