"""What moved between two assignments, and how much of it had to.

Decides the least number of partitions that must change hands so that nobody has more than one partition more than
another. It assumes that every member may own every partition; where subscriptions differ, the figure is a lower bound.
Pure: plain data in, plain data out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""
Owners: TypeAlias = Mapping[Partition, str]
"""Member id by partition."""


class Moved(NamedTuple):
    """`moved` partitions changed hands; `needed` is the least that had to; `between` moved from one member that stayed
    to another, sorted."""

    moved: int
    needed: int
    between: tuple[Partition, ...]


def owners_of(assignments: Mapping[str, Mapping[str, Iterable[int]] | int]) -> dict[Partition, str]:
    """The `assignments` of an event by partition; what a protocol other than `consumer` assigns cannot be known."""
    return {
        (topic, number): member
        for member, topics in assignments.items()
        if not isinstance(topics, int)
        for topic, numbers in topics.items()
        for number in numbers
    }


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """The numbers of partitions by their topics, sorted."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics


def compare(before: Owners, after: Owners, members: Iterable[str]) -> Moved:
    """What moved from `before` to `after`, an assignment to `members`.

    A partition that nobody owned before has not moved.
    """
    staying = set(members)
    changed = sorted(partition for partition, member in after.items() if before.get(partition, member) != member)
    between = tuple(partition for partition in changed if before[partition] in staying)
    return Moved(len(changed), _needed(before, after, staying), between)


def _needed(before: Owners, after: Owners, members: set[str]) -> int:
    kept = Counter(member for partition, member in before.items() if partition in after and member in members)
    orphans = sum(1 for partition, member in before.items() if partition in after and member not in members)
    if not members:
        return 0
    share, more = divmod(len(after), len(members))
    # Who has most gets the larger shares: so the fewest partitions move.
    owned = sorted((kept[member] for member in members), reverse=True)
    excess = sum(max(0, count - share - (1 if place < more else 0)) for place, count in enumerate(owned))
    return orphans + excess
