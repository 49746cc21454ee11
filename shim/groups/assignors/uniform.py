"""Assignor `uniform`, Kafka's default: partitions spread evenly over the group, and moved as little as that allows.

Where all members subscribe to the same topics, which is decided here, nobody has two partitions more than anybody else,
and among such assignments it is one that moves the fewest. Other groups are left to `heterogeneous`. It looks at no
racks. After Kafka's `UniformAssignor` and `UniformHomogeneousAssignmentBuilder` of 4.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from . import heterogeneous
from .spec import GroupSpec, Partitions


class UniformAssignor:
    name = "uniform"

    def assign(self, spec: GroupSpec) -> Mapping[str, Partitions]:
        if not spec.members:
            return {}
        return _homogeneous(spec) if spec.homogeneous else heterogeneous.assign(spec)


def _homogeneous(spec: GroupSpec) -> Mapping[str, Partitions]:
    topics = next(iter(spec.members.values())).topics
    if not topics:
        return {}
    least, larger = divmod(sum(map(spec.partition_counts.__getitem__, topics)), len(spec.members))
    released: list[tuple[bytes, list[int]]] = []
    unassigned = [(topic, free) for topic in sorted(topics) if (free := _free(spec, topic))]
    unsubscribed = not spec.owners.keys() <= topics
    assignments: dict[str, Partitions] = {}
    room: list[tuple[str, int]] = []
    left = len(spec.members)
    for member_id, member in spec.members.items():
        kept, size = member.assignment, member.size
        if unsubscribed and not kept.keys() <= topics:
            kept = {topic: partitions for topic, partitions in kept.items() if topic in topics}
            size = sum(map(len, kept.values()))
        # `larger` members have one partition more than the others. Whoever has it keeps it; it is forced on somebody
        # only when there are no more members left than such places.
        most = least + 1 if larger else least
        if size > most:
            kept, surplus = _shrink(kept, most)
            released += surplus
            size = most
        if larger and (size > least or left <= larger):
            larger -= 1
        else:
            most = least
        if size < most:
            room.append((member_id, most - size))
        assignments[member_id] = kept
        left -= 1
    deal = _Deal(unassigned + released)
    for member_id, count in room:
        assignments[member_id] = deal.add(assignments[member_id], count)
    return assignments


def _free(spec: GroupSpec, topic: bytes) -> list[int]:
    """Partitions of a topic that nobody has, in ascending order."""
    owners = spec.owners.get(topic)
    count = spec.partition_counts[topic]
    if not owners:
        return list(range(count))
    if len(owners) == count:
        return []
    return [partition for partition in range(count) if partition not in owners]


def _shrink(assignment: Partitions, size: int) -> tuple[Partitions, list[tuple[bytes, list[int]]]]:
    """As much of an assignment as fits, and what does not."""
    kept: dict[bytes, frozenset[int]] = {}
    surplus: list[tuple[bytes, list[int]]] = []
    for topic, partitions in assignment.items():
        if len(partitions) <= size:
            kept[topic] = partitions
            size -= len(partitions)
            continue
        ordered = sorted(partitions)
        if size:
            kept[topic] = frozenset(ordered[:size])
        surplus.append((topic, ordered[size:]))
        size = 0
    return kept, surplus


class _Deal:
    """Hands out partitions in order, topic by topic, in pieces as large as they can be."""

    def __init__(self, partitions: list[tuple[bytes, list[int]]]) -> None:
        self._rest: Iterator[tuple[bytes, list[int]]] = iter(partitions)
        self._topic = b""
        self._partitions: list[int] = []
        self._next = 0

    def add(self, assignment: Partitions, count: int) -> Partitions:
        """The assignment with as many partitions more, or all that are left.

        There are too few when a member has just taken a static one's place: what it had itself counts as owned, and is
        dealt out at the next epoch, as in Kafka.
        """
        grown = dict(assignment)
        while count:
            if self._next == len(self._partitions):
                more = next(self._rest, None)
                if more is None:
                    break
                self._topic, self._partitions = more
                self._next = 0
            piece = self._partitions[self._next : self._next + count]
            if piece:
                grown[self._topic] = grown.get(self._topic, frozenset()).union(piece)
            self._next += len(piece)
            count -= len(piece)
        return grown
