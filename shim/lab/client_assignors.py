"""How a puppet that leads divides the partitions: as the assignors of Kafka's own client do.

Decides who gets what. Range and round robin give the same members and topics the same result as Kafka's; the sticky one
is balanced and keeps what can be kept, in an order of its own. It does not know groups or requests.

Source: Kafka's AbstractPartitionAssignor, RangeAssignor, RoundRobinAssignor; KIP-429 for what cooperative members give
up before others get it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

Topics: TypeAlias = Mapping[str, Sequence[str]]
"""Topics that each member, by id, subscribes to."""
Counts: TypeAlias = Mapping[str, int]
"""Partitions that each topic has."""
Owned: TypeAlias = dict[str, dict[str, list[int]]]
"""By member and topic, partitions in order."""


def range_assignor(topics: Topics, counts: Counts, owned: Owned) -> Owned:
    """Of each topic, every member gets a run of partitions; the first ones get one more if it is not even."""
    assignment: Owned = {member: {} for member in topics}
    for topic in sorted({topic for each in topics.values() for topic in each}):
        members = sorted(member for member, each in topics.items() if topic in each)
        size, more = divmod(counts.get(topic, 0), len(members))
        start = 0
        for number, member in enumerate(members):
            end = start + size + (number < more)
            if end > start:
                assignment[member][topic] = list(range(start, end))
            start = end
    return assignment


def round_robin_assignor(topics: Topics, counts: Counts, owned: Owned) -> Owned:
    """All partitions of all topics are dealt out one by one."""
    assignment: Owned = {member: {} for member in topics}
    members = sorted(topics)
    turn = 0
    for topic in sorted({topic for each in topics.values() for topic in each}):
        for partition in range(counts.get(topic, 0)):
            while topic not in topics[members[turn % len(members)]]:
                turn += 1
            assignment[members[turn % len(members)]].setdefault(topic, []).append(partition)
            turn += 1
    return assignment


def cooperative_assignor(topics: Topics, counts: Counts, owned: Owned) -> Owned:
    """Balanced, keeping what members own; a partition that moves is unassigned until its owner has revoked it."""
    target = balanced(topics, counts, owned)
    owner = {(topic, p): member for member, by in owned.items() for topic, ps in by.items() for p in ps}
    assignment: Owned = {member: {} for member in topics}
    for member, by_topic in target.items():
        for topic, partitions in by_topic.items():
            free = [p for p in partitions if owner.get((topic, p), member) == member]
            if free:
                assignment[member][topic] = free
    return assignment


def balanced(topics: Topics, counts: Counts, owned: Owned) -> Owned:
    """Balanced, keeping what members own as far as that goes."""
    assignment: Owned = {member: {} for member in topics}
    sizes = dict.fromkeys(topics, 0)
    everything = [
        (t, p) for t in sorted({t for each in topics.values() for t in each}) for p in range(counts.get(t, 0))
    ]
    most = -(-len(everything) // max(len(topics), 1))
    least = len(everything) // max(len(topics), 1)
    with_more = len(everything) - least * len(topics)
    taken = set()
    for member in sorted(owned):
        for topic, partitions in sorted(owned[member].items()):
            for partition in partitions:
                here = (topic, partition)
                if member not in topics or topic not in topics[member] or here in taken or partition >= counts[topic]:
                    continue
                if sizes[member] >= (most if with_more > 0 else least):
                    continue
                taken.add(here)
                assignment[member].setdefault(topic, []).append(partition)
                sizes[member] += 1
                with_more -= sizes[member] > least
    for topic, partition in everything:
        if (topic, partition) not in taken:
            member = min((m for m in topics if topic in topics[m]), key=lambda m: (sizes[m], m))
            assignment[member].setdefault(topic, []).append(partition)
            sizes[member] += 1
    return {member: {topic: sorted(by[topic]) for topic in sorted(by)} for member, by in assignment.items()}


ASSIGNORS: Final[dict[str, Callable[[Topics, Counts, Owned], Owned]]] = {
    "range": range_assignor,
    "roundrobin": round_robin_assignor,
    "cooperative-sticky": cooperative_assignor,
    "RoundRobinAssigner": round_robin_assignor,
}
"""By the name of the protocol that members offer; the last is what KafkaJS calls its own."""
