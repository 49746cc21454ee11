"""Simple assignor: spreads partitions over the members of a share group; several members may share a partition.

A pure function. If there are more members than partitions they share; as many as possible keep their partitions. It has
the properties of Kafka's `SimpleAssignor` of 4.2 (semantics 4.9): every partition is assigned, the numbers of members
of two partitions of a topic differ by at most one, and so do the numbers of partitions of two members with equal
subscriptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from kafka_shim.groups.assignors.spec import NO_PARTITIONS, Partitions

NAME = "simple"

_Place: TypeAlias = tuple[bytes, int]


def assign(
    subscriptions: Mapping[str, AbstractSet[bytes]],
    partitions: Mapping[bytes, Sequence[int]],
    previous: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """Return the partitions of each member, by topic id.

    `subscriptions` are the topics of each member, `partitions` the assignable partitions of each topic, `previous` the
    assignment before. Topics with the same subscribers are spread together.
    """
    subscribers: dict[bytes, list[str]] = {}
    for member_id in sorted(subscriptions):
        for topic in subscriptions[member_id]:
            subscribers.setdefault(topic, []).append(member_id)
    alike: dict[tuple[str, ...], list[_Place]] = {}
    for topic in sorted(subscribers):
        places = alike.setdefault(tuple(subscribers[topic]), [])
        places += ((topic, number) for number in partitions.get(topic, ()))
    assigned: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in subscriptions}
    for members, places in alike.items():
        if places:
            spread = _spread(members, places, previous) or _spread(members, places, {})
            for member_id, mine in spread.items():
                # Sorted, because a replay of a journal has other hashes.
                for topic, number in sorted(mine):
                    assigned[member_id].setdefault(topic, set()).add(number)
    return {
        member_id: {topic: frozenset(numbers) for topic, numbers in by_topic.items()}
        for member_id, by_topic in assigned.items()
    }


def _spread(
    members: Sequence[str], places: Sequence[_Place], previous: Mapping[str, Partitions]
) -> dict[str, set[_Place]]:
    """Assign every place to the same number of members, the least with which each member gets one.

    Returns {} if the retained part of `previous` allows no such assignment; without `previous` there always is one.
    """
    sharing = -(-len(members) // len(places))
    least, more = divmod(sharing * len(places), len(members))
    mine: dict[str, set[_Place]] = {member_id: set() for member_id in members}
    wanting = dict.fromkeys(places, sharing)
    before = {
        member_id: [place for place in places if place[1] in previous.get(member_id, NO_PARTITIONS).get(place[0], ())]
        for member_id in members
    }
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
    for place in sorted(places, key=lambda each: -wanting[each]):
        free = sorted(
            (each for each in members if room[each] and place not in mine[each]), key=lambda each: -room[each]
        )
        if len(free) < wanting[place]:
            return {}
        for member_id in free[: wanting[place]]:
            mine[member_id].add(place)
            room[member_id] -= 1
    return mine
