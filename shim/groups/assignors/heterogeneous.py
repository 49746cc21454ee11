"""Assignor `uniform` for a group whose members have different subscriptions.

Members keep partitions of topics they subscribe to. Free partitions go, topic by topic, to the subscriber with the
fewest partitions. Then partitions move from subscribers with many to subscribers with few until no topic can be
balanced further, or for `ROUNDS` rounds. The result equals that of Kafka's `UniformHeterogeneousAssignmentBuilder` of
4.2 for the same members in the same order, partition by partition; a test compares the two. Racks are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from .spec import GroupSpec, Partitions

ROUNDS = 16
"""Largest number of passes over all topics; overlapping subscriptions may need more, but each pass gains less."""

_NOBODY = -1


def assign(spec: GroupSpec) -> Mapping[str, Partitions]:
    return _Heterogeneous(spec).assign()


class _Heterogeneous:
    """One assignment under construction. Members are numbered in the order of the group."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.sizes = [0] * len(spec.members)
        """Number of partitions of each member, over all topics."""
        self.subscribers = _subscribers(spec)
        self.owners = {topic: [_NOBODY] * spec.partition_counts[topic] for topic in self.subscribers}
        """Topic -> the owner of each partition."""
        self.topics = sorted(self.subscribers, key=self._urgency)
        self.changes: dict[bytes, set[int]] = {}
        """By topic, the members whose partitions of it have changed."""

    def assign(self) -> Mapping[str, Partitions]:
        if not self.subscribers:
            return {}
        self._keep()
        for topic in self.topics:
            self._assign_free(topic)
        self._balance()
        return self._assignments()

    def _urgency(self, topic: bytes) -> tuple[float, int, int, int]:
        """Sort topics: many partitions per subscriber first, then few subscribers, then ids as Kafka's `Uuid` orders
        them.
        """
        count = len(self.subscribers[topic])
        high = int.from_bytes(topic[:8], signed=True)
        low = int.from_bytes(topic[8:], signed=True)
        return -self.spec.partition_counts[topic] / count, count, high, low

    def _keep(self) -> None:
        """Let members keep their partitions of the topics they subscribe to."""
        for number, member in enumerate(self.spec.members.values()):
            size = member.size
            for topic, partitions in member.assignment.items():
                if topic not in member.topics:
                    self.changes.setdefault(topic, set()).add(number)
                    size -= len(partitions)
                    continue
                owners = self.owners[topic]
                for partition in partitions:
                    owners[partition] = number
            self.sizes[number] = size

    def _assign_free(self, topic: bytes) -> None:
        owners, sizes = self.owners[topic], self.sizes
        free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
        if not free:
            return
        takers = _takers(self._by_size(topic), sizes, len(free))
        for partition, taker in zip(free, takers, strict=True):
            owners[partition] = taker
            sizes[taker] += 1
        self.changes.setdefault(topic, set()).update(takers)

    def _balance(self) -> None:
        shared = [topic for topic in self.topics if len(self.subscribers[topic]) > 1]
        last = None
        for _ in range(ROUNDS):
            balanced: list[int] | None = None
            for topic in shared:
                if topic == last:
                    return
                subscribers = self.subscribers[topic]
                # Topics with the same subscribers follow each other if they have equally many partitions.
                if subscribers is not balanced and self._is_balanced(subscribers):
                    balanced = subscribers
                has_moved = subscribers is not balanced and self._balance_topic(topic)
                if has_moved:
                    balanced = None
                if has_moved or last is None:
                    last = topic

    def _is_balanced(self, members: list[int]) -> bool:
        sizes = [self.sizes[number] for number in members]
        return max(sizes) - min(sizes) <= 1

    def _balance_topic(self, topic: bytes) -> bool:
        """Move partitions of one topic among its subscribers; return True if any moved."""
        owners = self.owners[topic]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        by_size = self._by_size(topic)
        takers = _least_loaded(by_size, self.sizes)
        changed: set[int] = set()
        for giver, high in _most_loaded(by_size, self.sizes, owned):
            partition = owned[giver].pop()
            taker, low = next(takers)
            if high - low <= 1:
                break
            self.sizes[giver] -= 1
            self.sizes[taker] += 1
            owners[partition] = taker
            changed.add(giver)
            changed.add(taker)
        if changed:
            self.changes.setdefault(topic, set()).update(changed)
        return bool(changed)

    def _by_size(self, topic: bytes) -> list[int]:
        """Sort the subscribers of a topic by their number of partitions, then by the order of the group."""
        return sorted(self.subscribers[topic], key=self.sizes.__getitem__)

    def _assignments(self) -> Mapping[str, Partitions]:
        """Build the assignments; only changed ones are new objects."""
        before = [member.assignment for member in self.spec.members.values()]
        assignments: dict[int, dict[bytes, frozenset[int]]] = {}
        for topic, members in self.changes.items():
            owned: dict[int, list[int]] = {}
            for partition, owner in enumerate(self.owners.get(topic, ())):
                if owner in members:
                    if owner in owned:
                        owned[owner].append(partition)
                    else:
                        owned[owner] = [partition]
            for number in members:
                if number not in assignments:
                    assignments[number] = dict(before[number])
                if number in owned:
                    assignments[number][topic] = frozenset(owned[number])
                else:
                    assignments[number].pop(topic, None)
        return {
            member_id: assignments.get(number, before[number]) for number, member_id in enumerate(self.spec.members)
        }


def _subscribers(spec: GroupSpec) -> dict[bytes, list[int]]:
    """Map topics to their subscribers; topics with the same subscribers share one list."""
    alike: dict[frozenset[bytes], list[int]] = {}
    for number, member in enumerate(spec.members.values()):
        alike.setdefault(member.topics, []).append(number)
    of_topic: dict[bytes, list[frozenset[bytes]]] = {}
    for topics in alike:
        for topic in topics:
            of_topic.setdefault(topic, []).append(topics)
    merged: dict[tuple[frozenset[bytes], ...], list[int]] = {}
    subscribers: dict[bytes, list[int]] = {}
    for topic, subscriptions in of_topic.items():
        key = tuple(subscriptions)
        if key not in merged:
            merged[key] = sorted(chain.from_iterable(alike[topics] for topics in key))
        subscribers[topic] = merged[key]
    return subscribers


def _takers(by_size: list[int], sizes: list[int], count: int) -> list[int]:
    """Return the members for `count` partitions, one after the other, so that the smallest members fill up first."""
    takers: list[int] = []
    level = sizes[by_size[0]]
    end = 0
    while len(takers) < count:
        while end < len(by_size) and sizes[by_size[end]] == level:
            end += 1
        takers += by_size[:end]
        level += 1
    return takers[:count]


def _least_loaded(by_size: list[int], sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield, without end, the member that takes the next partition, and its size after all earlier ones."""
    level = sizes[by_size[0]]
    end = 0
    while True:
        while end < len(by_size) and sizes[by_size[end]] == level:
            end += 1
        for position in range(end):
            yield by_size[position], level
        level += 1


def _most_loaded(by_size: list[int], sizes: list[int], owned: Mapping[int, list[int]]) -> Iterator[tuple[int, int]]:
    """Yield the member that gives away the next partition of a topic, and its size over all topics; end when no member
    has one.
    """
    start = len(by_size)
    givers: list[int] = []
    level = sizes[by_size[-1]] + 1
    while True:
        level = sizes[by_size[start - 1]] if not givers and start else level - 1
        end = start
        while start and sizes[by_size[start - 1]] == level:
            start -= 1
        givers = by_size[start:end] + givers
        if not givers:
            return
        for position in range(len(givers) - 1, -1, -1):
            if owned.get(givers[position]):
                yield givers[position], level
            else:
                givers[position] = givers[-1]
                del givers[-1]
