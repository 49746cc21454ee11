"""Partitions that moved between two assignments, and the smallest number that had to move.

The minimum lets no member have more than one partition more than another. It assumes that every member may own every
partition; with different subscriptions it is a lower bound. Pure: plain data in, plain data out.
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
    """`moved` partitions changed owners; `needed` is the smallest possible number; `between` are those that moved
    between two remaining members, sorted.
    """

    moved: int
    needed: int
    between: tuple[Partition, ...]


def owners_of(assignments: Mapping[str, Mapping[str, Iterable[int]] | int]) -> dict[Partition, str]:
    """Return the `assignments` of an event by partition; assignments of other protocols than `consumer` are skipped."""
    return {
        (topic, number): member
        for member, topics in assignments.items()
        if not isinstance(topics, int)
        for topic, numbers in topics.items()
        for number in numbers
    }


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Return the numbers of partitions by topic, sorted."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return topics


def compare(before: Owners, after: Owners, members: Iterable[str]) -> Moved:
    """Count the moves from `before` to `after`, an assignment to `members`.

    A partition without an owner before has not moved.
    """
    staying = set(members)
    changed = sorted(partition for partition, member in after.items() if before.get(partition, member) != member)
    between = tuple(partition for partition in changed if before[partition] in staying)
    return Moved(len(changed), _needed(before, after, staying), between)


def _needed(before: Owners, after: Owners, members: set[str]) -> int:
    remaining = Counter(member for partition, member in before.items() if partition in after and member in members)
    orphans = sum(1 for partition, member in before.items() if partition in after and member not in members)
    if not members:
        return 0
    share, more = divmod(len(after), len(members))
    # The members with the most partitions get the larger shares, so that the fewest partitions move.
    owned = sorted((remaining[member] for member in members), reverse=True)
    excess = sum(max(0, count - share - (1 if place < more else 0)) for place, count in enumerate(owned))
    return orphans + excess
