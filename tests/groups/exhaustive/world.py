"""The common part of all worlds: a node, its topic, clients, and the way to save a state.

Timers fire in any order and at any time, so a state has no time; it has the number of crashes and of changes of the
topic that may still come. Records never change, so a state keeps the durable ones as they are, and pickles groups,
timers and clients. Everything else is the same in every state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import count
from pickle import HIGHEST_PROTOCOL, Pickler, Unpickler
from typing import Any, ClassVar

from kafka_shim.groups.group import Group
from kafka_shim.groups.shard import Shard
from kafka_shim.groups.timers import Timer
from tests.groups.consumer.context import Cluster
from tests.groups.context import GROUP
from tests.groups.exhaustive.explore import Step

TOPIC = "t"


class World(ABC):
    """A group of one kind on one node. `clients` are named by letters; `crashes` and `changes` are yet to come."""

    settings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, names: str, partitions: int) -> None:
        self.node = self.make_node()
        # Ids of one length: a later id is greater.
        self.node._ids = count(10_000_000)
        self.node.topics.create(TOPIC, partitions)
        self.names = names
        self.clients = [self.make_client(name) for name in names]
        self.crashes = 1
        self.changes = 1

    def make_node(self) -> Cluster:
        return QuietCluster("offsets.topic.num.partitions=1", *self.settings)

    @abstractmethod
    def make_client(self, name: str) -> Any: ...

    @property
    def shard(self) -> Shard:
        return self.node.service.shards[0]

    @property
    def group(self) -> Group | None:
        return self.node.service.groups.get(GROUP)

    # States

    def save(self) -> tuple[bytes, dict[Any, Any], dict[str, tuple[bytes, int]]]:
        shard, buffer = self.shard, BytesIO()
        memory = shard.groups, shard.timers, self.clients, self.crashes, self.changes
        _Pickler(buffer, self._fixed()).dump(memory)
        return buffer.getvalue(), dict(self.node.durable[0]), dict(self.node.topics.by_name)

    def load(self, saved: tuple[bytes, dict[Any, Any], dict[str, tuple[bytes, int]]]) -> None:
        memory, durable, topics = saved
        node, shard = self.node, self.shard
        loaded = _Unpickler(BytesIO(memory), self._fixed()).load()
        groups, shard.timers, self.clients, self.crashes, self.changes = loaded
        shard.groups = groups
        node.service.timers = shard.timers
        shard.arm, shard.cancel = shard.timers.arm, shard.timers.cancel
        node.service.groups.clear()
        node.service.groups.update(groups)
        node.durable[0] = dict(durable)
        node.topics.by_name = dict(topics)
        node.written.clear()

    def _fixed(self) -> dict[str, object]:
        """Objects that a state refers to and does not contain."""
        node, shard = self.node, self.shard
        fixed = {"node": node, "topics": node.topics, "outbox": node.outbox}
        return {**fixed, "shard": shard, "expiry": shard.expiry_timer}

    @abstractmethod
    def key(self) -> object: ...

    def shared_key(self) -> object:
        """The part of the key that all worlds have: topics, and the crashes and changes still to come."""
        topics = tuple(sorted(self.node.topics.by_name.items()))
        return topics, self.crashes, self.changes

    # Steps

    def steps(self) -> Iterator[Step]:
        for name, client in zip(self.names, self.clients, strict=True):
            for what in self.steps_of(client):
                yield what, name
        for timer in self.timers():
            yield "fire", timer.kind, timer.member_id
        if self.crashes:
            yield ("crash",)
        if self.changes:
            for what in self.topic_changes():
                yield (what,)

    @abstractmethod
    def steps_of(self, client: Any) -> Iterable[str]: ...

    def topic_changes(self) -> Iterable[str]:
        return ("topic grows",)

    def take(self, step: Step) -> None:
        group = self.group
        before = None if group is None else group.generation
        if step[0] == "fire":
            timer = next(each for each in self.timers() if (each.kind, each.member_id) == step[1:])
            self.fire(timer)
        elif step[0] == "crash":
            self.crashes -= 1
            self.crash()
        elif len(step) == 1:
            self.changes -= 1
            self.change_topic(step[0])
        else:
            self.act(self.clients[self.names.index(step[1])], step[0])
        after = self.group
        if before is not None and after is group:
            assert after is not None
            assert after.generation >= before, f"I2: epoch {after.generation} after {before}"

    @abstractmethod
    def act(self, client: Any, what: str) -> None: ...

    def crash(self) -> None:
        self.node.crash()

    def change_topic(self, what: str) -> None:
        topics = self.node.topics
        if what == "topic grows":
            self.node.create(TOPIC, topics.partitions_of(TOPIC) + 1)
        else:
            self.node.delete_topic(TOPIC)

    def timers(self) -> list[Timer]:
        """Those of the group that are armed."""
        armed = (timer for timer in self.shard.timers.armed() if timer.group_id)
        return sorted(armed, key=lambda timer: (timer.kind, timer.member_id))

    def fire(self, timer: Timer) -> None:
        group = self.group
        assert group is not None, f"I10: {timer} of no group"
        self.shard.timers.cancel(timer)
        group.fire(timer, self.node.now)
        self.node.settle()

    # Invariants

    def reloaded(self) -> Group | None:
        """The group after a restart on the durable records."""
        node = self.node
        again = type(node).__new__(type(node))
        again.__dict__.update(node.__dict__)
        again.events, again.written, again.parked = [], [], set()
        again.start()
        return again.service.groups.get(GROUP)

    @abstractmethod
    def check(self) -> None: ...

    @abstractmethod
    def settle(self) -> None: ...

    def until_quiet(self, view: Callable[[], object], act: Callable[[], None], rounds: int = 30) -> None:
        """Do something again and again until nothing changes."""
        for _ in range(rounds):
            before = view()
            act()
            self.check()
            if view() == before:
                return
        raise AssertionError("the group does not come to rest")


class _Pickler(Pickler):
    """Pickler that writes a name in the place of each object that all states share."""

    def __init__(self, buffer: BytesIO, fixed: dict[str, object]) -> None:
        super().__init__(buffer, HIGHEST_PROTOCOL)
        self._names = {id(value): name for name, value in fixed.items()}

    def persistent_id(self, value: object) -> str | None:
        return self._names.get(id(value))


class _Unpickler(Unpickler):
    def __init__(self, buffer: BytesIO, fixed: dict[str, object]) -> None:
        super().__init__(buffer)
        self._fixed = fixed

    def persistent_load(self, name: str) -> object:
        return self._fixed[name]


class QuietCluster(Cluster):
    """A node without readers of its trace."""

    listens = False


def ordered(partitions: Any) -> tuple[Any, ...]:
    """Partitions by topic, as part of a key."""
    return tuple(sorted((topic, tuple(sorted(numbers))) for topic, numbers in partitions.items()))


class Epochs:
    """Epochs as differences to the group's: rules only add to them and compare them. Every epoch of a client that is
    neither the present nor the last one of a member is refused alike."""

    def __init__(self, group_epoch: int, known: Iterable[int] = ()) -> None:
        self._group_epoch = group_epoch
        self._known = set(known)

    def of(self, epoch: int) -> object:
        return epoch if epoch <= 0 else f"-{self._group_epoch - epoch}"

    def of_client(self, epoch: int) -> object:
        return self.of(epoch) if epoch <= 0 or epoch in self._known or epoch > self._group_epoch else "old"
