"""Assignor `uniform` for a group whose members subscribe to different topics.

What a member may keep it keeps; what nobody has goes, topic by topic, to the subscriber with the fewest partitions;
then partitions move from subscribers with many to subscribers with few until no topic can be balanced further, or
`ROUNDS` are over. The outcome is what Kafka's `UniformHeterogeneousAssignmentBuilder` of 4.2 answers for the same
members in the same order, partition by partition; a test compares the two. It looks at no racks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
        self.ids = list(spec.members)
        self.sizes = [0] * len(self.ids)
        """Partitions of each member, over all topics."""
        self.subscribers: dict[bytes, list[int]] = {}
        for number, member in enumerate(spec.members.values()):
            for topic in member.topics:
                self.subscribers.setdefault(topic, []).append(number)
        self.owners = {topic: [_NOBODY] * spec.partition_counts[topic] for topic in self.subscribers}
        """Topic -> the owner of each partition."""
        self.topics = sorted(self.subscribers, key=self._urgency)
        self.changes: dict[int, set[bytes]] = {}
        """Members whose partitions of these topics are not those they had."""

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
            for topic, partitions in member.assignment.items():
                if topic not in member.topics:
                    self.changes.setdefault(number, set()).add(topic)
                    continue
                owners = self.owners[topic]
                for partition in partitions:
                    owners[partition] = number
                self.sizes[number] += len(partitions)

    def _assign_free(self, topic: bytes) -> None:
        owners = self.owners[topic]
        if _NOBODY not in owners:
            return
        takers = _least_loaded(self._by_size(topic), self.sizes)
        for partition, owner in enumerate(owners):
            if owner == _NOBODY:
                self._give(topic, partition, next(takers)[0])

    def _balance(self) -> None:
        shared = [topic for topic in self.topics if len(self.subscribers[topic]) > 1]
        last = None
        for _ in range(ROUNDS):
            for topic in shared:
                if topic == last:
                    return
                if self._balance_topic(topic) or last is None:
                    last = topic

    def _balance_topic(self, topic: bytes) -> bool:
        """Move partitions of one topic among its subscribers; whether any moved."""
        sizes = [self.sizes[number] for number in self.subscribers[topic]]
        if max(sizes) - min(sizes) <= 1:
            return False
        owners = self.owners[topic]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        by_size = self._by_size(topic)
        takers = _least_loaded(by_size, self.sizes)
        moved = False
        for giver, high in _most_loaded(by_size, self.sizes, owned):
            partition = owned[giver].pop()
            taker, low = next(takers)
            if high - low <= 1:
                break
            self.sizes[giver] -= 1
            self.changes.setdefault(giver, set()).add(topic)
            self._give(topic, partition, taker)
            moved = True
        return moved

    def _by_size(self, topic: bytes) -> list[int]:
        """Subscribers of a topic by their number of partitions, ascending, then in the order of the group."""
        return sorted(self.subscribers[topic], key=self.sizes.__getitem__)

    def _give(self, topic: bytes, partition: int, number: int) -> None:
        self.owners[topic][partition] = number
        self.sizes[number] += 1
        self.changes.setdefault(number, set()).add(topic)

    def _assignments(self) -> Mapping[str, Partitions]:
        """Only what changed is made anew."""
        fresh: dict[int, dict[bytes, list[int]]] = {number: {} for number in self.changes}
        for topic in {topic for topics in self.changes.values() for topic in topics} & self.owners.keys():
            for partition, owner in enumerate(self.owners[topic]):
                if owner in fresh:
                    fresh[owner].setdefault(topic, []).append(partition)
        assignments: dict[str, Partitions] = {}
        for number, (member_id, member) in enumerate(self.spec.members.items()):
            changed = self.changes.get(number)
            if changed is None:
                assignments[member_id] = member.assignment
                continue
            assignment = {topic: kept for topic, kept in member.assignment.items() if topic not in changed}
            assignment |= {topic: frozenset(fresh[number][topic]) for topic in changed if topic in fresh[number]}
            assignments[member_id] = assignment
        return assignments


def _least_loaded(by_size: list[int], sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Without end, who takes the next partition, and how many it has if it took all before: water finds its level."""
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
