"""Assignor `uniform`, Kafka's default: partitions spread evenly over the group, with as few moves as possible.

If all members have the same subscription, no member has two partitions more than another, and no such assignment moves
fewer. Other groups are left to `heterogeneous`. Racks are ignored. Source: Kafka's `UniformAssignor` and
`UniformHomogeneousAssignmentBuilder` of 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import heterogeneous
from .spec import GroupSpec, Partitions


class UniformAssignor:
    name = "uniform"

    def assign(self, spec: GroupSpec) -> Mapping[str, Partitions]:
        if not spec.members:
            return {}
        if not spec.homogeneous:
            return heterogeneous.assign(spec)
        topics = next(iter(spec.members.values())).topics
        if not topics:
            return {}
        least, larger = divmod(sum(map(spec.partition_counts.__getitem__, topics)), len(spec.members))
        released: list[tuple[bytes, list[int]]] = []
        unassigned: list[tuple[bytes, list[int]]] = []
        for topic in sorted(topics):
            owners, count = spec.owners.get(topic, {}), spec.partition_counts[topic]
            if len(owners) < count:
                unassigned.append((topic, [partition for partition in range(count) if partition not in owners]))
        unsubscribed = not spec.owners.keys() <= topics
        assignments: dict[str, Partitions] = {}
        room: list[tuple[str, int]] = []
        remaining = len(spec.members)
        for member_id, member in spec.members.items():
            retained, size = member.assignment, member.size
            if unsubscribed and not retained.keys() <= topics:
                retained = {topic: partitions for topic, partitions in retained.items() if topic in topics}
                size = sum(map(len, retained.values()))
            # `larger` members have one partition more than the others. A member with that many keeps them; another
            # member gets that many only if the remaining members are no more than such places.
            most = least + 1 if larger else least
            if size > most:
                retained, surplus = _shrink(retained, most)
                released += surplus
                size = most
            if larger and (size > least or remaining <= larger):
                larger -= 1
            else:
                most = least
            if size < most:
                room.append((member_id, most - size))
            assignments[member_id] = retained
            remaining -= 1
        _deal(assignments, room, unassigned + released)
        return assignments


def _shrink(assignment: Partitions, size: int) -> tuple[Partitions, list[tuple[bytes, list[int]]]]:
    """Return as much of an assignment as fits, and the rest."""
    retained: dict[bytes, frozenset[int]] = {}
    surplus: list[tuple[bytes, list[int]]] = []
    for topic, partitions in assignment.items():
        if len(partitions) <= size:
            retained[topic] = partitions
            size -= len(partitions)
            continue
        ordered = sorted(partitions)
        if size:
            retained[topic] = frozenset(ordered[:size])
        surplus.append((topic, ordered[size:]))
        size = 0
    return retained, surplus


def _deal(assignments: dict[str, Partitions], room: list[tuple[str, int]], free: list[tuple[bytes, list[int]]]) -> None:
    """Give free partitions to the members with room for so many, in order, topic by topic, in pieces as large as
    possible.

    There are too few if a member has just replaced a static one: its own partitions count as owned, and as in Kafka
    they are given out in the next epoch.
    """
    rest = iter(free)
    topic = b""
    partitions: list[int] = []
    begin = 0
    for member_id, count in room:
        grown = dict(assignments[member_id])
        while count:
            if begin == len(partitions):
                more = next(rest, None)
                if more is None:
                    break
                (topic, partitions), begin = more, 0
            piece = partitions[begin : begin + count]
            if piece:
                grown[topic] = grown.get(topic, frozenset()).union(piece)
            begin += len(piece)
            count -= len(piece)
        assignments[member_id] = grown
