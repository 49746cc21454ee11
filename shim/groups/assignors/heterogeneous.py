"""Assignor `uniform` for a group whose members subscribe to different topics.

What a member may keep it keeps; what nobody has goes, topic by topic, to the subscriber with the fewest partitions;
then partitions move from subscribers with many to subscribers with few until no topic can be balanced further, or
`ROUNDS` are over. The outcome is what Kafka's `UniformHeterogeneousAssignmentBuilder` of 4.2 answers for the same
members in the same order, partition by partition; a test compares the two. It looks at no racks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from .spec import GroupSpec, Partitions

ROUNDS = 16
"""How often the topics are gone through; overlapping subscriptions may need more, but each round gains less."""

_NOBODY = -1


def assign(spec: GroupSpec) -> Mapping[str, Partitions]:
    return _Heterogeneous(spec).assign()


class _Heterogeneous:
    """One assignment in the making. Members are numbered in the order of the group."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.sizes = [0] * len(spec.members)
        """Partitions of each member, over all topics."""
        self.subscribers = _subscribers(spec)
        self.owners = {topic: [_NOBODY] * spec.partition_counts[topic] for topic in self.subscribers}
        """Topic -> the owner of each partition."""
        self.topics = sorted(self.subscribers, key=self._urgency)
        self.changes: dict[bytes, set[int]] = {}
        """By topic, the members whose partitions of it are not those they had."""

    def assign(self) -> Mapping[str, Partitions]:
        if not self.subscribers:
            return {}
        self._keep()
        for topic in self.topics:
            self._assign_free(topic)
        self._balance()
        return self._assignments()

    def _urgency(self, topic: bytes) -> tuple[float, int, int, int]:
        """Many partitions for each subscriber first, then few subscribers, then ids as Kafka's `Uuid` orders them."""
        count = len(self.subscribers[topic])
        high = int.from_bytes(topic[:8], signed=True)
        low = int.from_bytes(topic[8:], signed=True)
        return -self.spec.partition_counts[topic] / count, count, high, low

    def _keep(self) -> None:
        """Members keep what they have of the topics they subscribe to."""
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
                # Topics with the same subscribers follow each other where they have as many partitions.
                if subscribers is not balanced and self._is_balanced(subscribers):
                    balanced = subscribers
                moved = subscribers is not balanced and self._balance_topic(topic)
                if moved:
                    balanced = None
                if moved or last is None:
                    last = topic

    def _is_balanced(self, members: list[int]) -> bool:
        sizes = [self.sizes[number] for number in members]
        return max(sizes) - min(sizes) <= 1

    def _balance_topic(self, topic: bytes) -> bool:
        """Move partitions of one topic among its subscribers; whether any moved."""
        owners = self.owners[topic]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        by_size = self._by_size(topic)
        takers = _least_loaded(by_size, self.sizes)
        moved: set[int] = set()
        for giver, high in _most_loaded(by_size, self.sizes, owned):
            partition = owned[giver].pop()
            taker, low = next(takers)
            if high - low <= 1:
                break
            self.sizes[giver] -= 1
            self.sizes[taker] += 1
            owners[partition] = taker
            moved.add(giver)
            moved.add(taker)
        if moved:
            self.changes.setdefault(topic, set()).update(moved)
        return bool(moved)

    def _by_size(self, topic: bytes) -> list[int]:
        """Subscribers of a topic by their number of partitions, ascending, then in the order of the group."""
        return sorted(self.subscribers[topic], key=self.sizes.__getitem__)

    def _assignments(self) -> Mapping[str, Partitions]:
        """Only what changed is made anew."""
        before = [member.assignment for member in self.spec.members.values()]
        made: dict[int, dict[bytes, frozenset[int]]] = {}
        for topic, members in self.changes.items():
            owned: dict[int, list[int]] = {}
            for partition, owner in enumerate(self.owners.get(topic, ())):
                if owner in members:
                    if owner in owned:
                        owned[owner].append(partition)
                    else:
                        owned[owner] = [partition]
            for number in members:
                if number not in made:
                    made[number] = dict(before[number])
                if number in owned:
                    made[number][topic] = frozenset(owned[number])
                else:
                    made[number].pop(topic, None)
        return {member_id: made.get(number, before[number]) for number, member_id in enumerate(self.spec.members)}


def _subscribers(spec: GroupSpec) -> dict[bytes, list[int]]:
    """Topic -> its subscribers; one list for all topics that have the same."""
    alike: dict[frozenset[bytes], list[int]] = {}
    for number, member in enumerate(spec.members.values()):
        alike.setdefault(member.topics, []).append(number)
    of_topic: dict[bytes, list[frozenset[bytes]]] = {}
    for topics in alike:
        for topic in topics:
            of_topic.setdefault(topic, []).append(topics)
    merged: dict[tuple[frozenset[bytes], ...], list[int]] = {}
    found: dict[bytes, list[int]] = {}
    for topic, subscriptions in of_topic.items():
        key = tuple(subscriptions)
        if key not in merged:
            merged[key] = sorted(chain.from_iterable(alike[topics] for topics in key))
        found[topic] = merged[key]
    return found


def _takers(by_size: list[int], sizes: list[int], count: int) -> list[int]:
    """Who takes so many partitions, one after the other: water finds its level."""
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
    """Without end, who takes the next partition, and how many it has if it took all before."""
    level = sizes[by_size[0]]
    end = 0
    while True:
        while end < len(by_size) and sizes[by_size[end]] == level:
            end += 1
        for position in range(end):
            yield by_size[position], level
        level += 1


def _most_loaded(by_size: list[int], sizes: list[int], owned: Mapping[int, list[int]]) -> Iterator[tuple[int, int]]:
    """Who gives the next partition of a topic away, and how many it has of all topics; ends when nobody has one."""
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
