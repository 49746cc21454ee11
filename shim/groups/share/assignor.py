"""Simple assignor: spreads partitions over the members of a share group; several members may share a partition.

A pure function. If there are more members than partitions they share; as many as possible keep their partitions. As by
Kafka's `SimpleAssignor` of 4.2 to 4.4 (semantics 4.9), every partition is assigned, the numbers of partitions of two
members differ by at most one, and a topic stays in the assignment of a member that loses its last partition. All
partitions of a topic have as many members, but by Kafka's some have fewer if the members with room have them already.
If the members subscribe to different topics all this holds of each topic alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions

NAME = "simple"

_Place: TypeAlias = tuple[bytes, int]


def assign(
    subscriptions: Mapping[str, AbstractSet[bytes]],
    partitions: Mapping[bytes, Sequence[int]],
    previous: Mapping[str, Partitions],
    *,
    homogeneous: bool,
) -> dict[str, Partitions]:
    """Return the partitions of each member, by topic id.

    `subscriptions` are the topics of each member, `partitions` the assignable partitions of each topic, `previous` the
    assignment before. If all members subscribe to the same topics the group is `homogeneous`, and all topics are spread
    together. The caller says it, because topics without partitions count for that too.
    """
    subscribers: dict[bytes, list[str]] = {}
    for member_id in sorted(subscriptions):
        for topic in subscriptions[member_id]:
            subscribers.setdefault(topic, []).append(member_id)
    together: list[tuple[list[str], list[_Place]]] = []
    for topic in sorted(subscribers):
        places = [(topic, number) for number in partitions.get(topic, ())]
        if homogeneous and together:
            together[0][1].extend(places)
        else:
            together.append((subscribers[topic], places))
    assigned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in subscriptions}
    for members, places in together:
        if places:
            spread = _spread(members, places, previous) or _spread(members, places, {})
            for member_id, mine in spread.items():
                by_topic = assigned[member_id]
                # In the order of the topics, because a replay of a journal has other hashes.
                for topic, number in map(places.__getitem__, sorted(mine)):
                    numbers = by_topic.get(topic)
                    if numbers is None:
                        numbers = by_topic[topic] = set()
                    numbers.add(number)
    # In the order of the assignment before, for the same reason.
    for member_id, topics in subscriptions.items():
        for topic in previous.get(member_id, NO_PARTITIONS):
            if topic in topics:
                assigned[member_id].setdefault(topic, set())
    return {
        member_id: {topic: frozenset(numbers) for topic, numbers in by_topic.items()}
        for member_id, by_topic in assigned.items()
    }


def _spread(
    members: Sequence[str], places: Sequence[_Place], previous: Mapping[str, Partitions]
) -> dict[str, set[int]]:
    """Assign every place, by its index, to the same number of members, the least with which each member gets one.

    Returns {} if the retained part of `previous` allows no such assignment; without `previous` there always is one.
    """
    sharing = -(-len(members) // len(places))
    least, more = divmod(sharing * len(places), len(members))
    mine: dict[str, set[int]] = {member_id: set() for member_id in members}
    wanting = [sharing] * len(places)
    before = _retained(members, places, previous)
    # If members cannot all have the same number, those that had most get one more.
    by_most = sorted(members, key=lambda each: -len(before[each]))
    room = dict.fromkeys(by_most[:more], least + 1) | dict.fromkeys(by_most[more:], least)
    for member_id in members:
        for place in before[member_id]:
            if room[member_id] and wanting[place]:
                mine[member_id].add(place)
                room[member_id] -= 1
                wanting[place] -= 1
    # Places that lack most members come first and take members with most room: this finds any solution.
    free = [(-room[member_id], number) for number, member_id in enumerate(members) if room[member_id]]
    heapify(free)
    for place in sorted(range(len(places)), key=lambda each: -wanting[each]):
        if not wanting[place]:
            break
        passed_over = []
        for _ in range(wanting[place]):
            while free and place in mine[members[free[0][1]]]:
                passed_over.append(heappop(free))
            if not free:
                return {}
            negative_room, number = heappop(free)
            mine[members[number]].add(place)
            if negative_room != -1:
                passed_over.append((negative_room + 1, number))
        for each in passed_over:
            heappush(free, each)
    return mine


def _retained(
    members: Sequence[str], places: Sequence[_Place], previous: Mapping[str, Partitions]
) -> dict[str, list[int]]:
    """Return those places of the former assignment of each member that there still are, in their order."""
    if not previous:
        return {member_id: [] for member_id in members}
    indexes: dict[bytes, dict[int, int]] = {}
    for index, (topic, number) in enumerate(places):
        indexes.setdefault(topic, {})[number] = index
    retained = {}
    for member_id in members:
        before = previous.get(member_id, NO_PARTITIONS)
        retained[member_id] = sorted(
            of_topic[number]
            for topic, of_topic in indexes.items()
            for number in before.get(topic, ())
            if number in of_topic
        )
    return retained
