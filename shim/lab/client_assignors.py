"""Assignors for a puppet that leads: those of Kafka's own client.

Range and round robin give the same result as Kafka's for the same members and topics; the sticky one is balanced and
keeps as much as possible, in its own order. Source: Kafka's AbstractPartitionAssignor, RangeAssignor,
RoundRobinAssignor; KIP-429 for the revocations of cooperative members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

Topics: TypeAlias = Mapping[str, Sequence[str]]
"""Subscribed topics, by member id."""
Counts: TypeAlias = Mapping[str, int]
"""Partition counts, by topic."""
Owned: TypeAlias = dict[str, dict[str, list[int]]]
"""By member and topic, partitions in order."""


def range_assignor(topics: Topics, counts: Counts, owned: Owned) -> Owned:
    """Give every member one range of each topic; if the division is not even, the first members get one more."""
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
    """Give out all partitions of all topics one by one."""
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
    """Balance with few moves; a partition that moves stays unassigned until its owner has revoked it."""
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
    """Balance with as few moves as possible."""
    assignment: Owned = {member: {} for member in topics}
    sizes = dict.fromkeys(topics, 0)
    everything = [
        (t, p) for t in sorted({t for each in topics.values() for t in each}) for p in range(counts.get(t, 0))
    ]
    most = -(-len(everything) // max(len(topics), 1))
    least = len(everything) // max(len(topics), 1)
    with_more = len(everything) - least * len(topics)
    placed = set()
    for member in sorted(owned):
        for topic, partitions in sorted(owned[member].items()):
            for partition in partitions:
                here = (topic, partition)
                if (
                    member not in topics
                    or topic not in topics[member]
                    or here in placed
                    or partition >= counts.get(topic, 0)
                ):
                    continue
                if sizes[member] >= (most if with_more > 0 else least):
                    continue
                placed.add(here)
                assignment[member].setdefault(topic, []).append(partition)
                sizes[member] += 1
                with_more -= sizes[member] > least
    for topic, partition in everything:
        if (topic, partition) not in placed:
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
"""By the name of the protocol that members offer; the last one is KafkaJS's name for its own."""
