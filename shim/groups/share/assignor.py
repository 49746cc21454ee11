"""The simple assignor: spreads partitions over the members of a share group, where several may have one partition.

Decides that alone, as a pure function over plain data. Members that are more than partitions share them; as many as
possible stay where they are. After the properties of Kafka's `SimpleAssignor` of 4.2 (semantics 4.9): every partition
is given, numbers of members of two partitions of a topic differ by one at most, and so do numbers of partitions of two
members that subscribe alike.
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
    """The partitions of each member, by topic id.

    `subscriptions` has the topics of each member, `partitions` those of each topic that can be assigned, `previous` the
    assignment before. Topics with the same subscribers are dealt with together.
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
                for topic, number in mine:
                    assigned[member_id].setdefault(topic, set()).add(number)
    return {
        member_id: {topic: frozenset(numbers) for topic, numbers in by_topic.items()}
        for member_id, by_topic in assigned.items()
    }


def _spread(
    members: Sequence[str], places: Sequence[_Place], previous: Mapping[str, Partitions]
) -> dict[str, set[_Place]]:
    """Give every place to as many of the members as there must be for everybody to get one.

    Empty if what is kept of `previous` leaves no way to do so; without `previous` there always is one.
    """
    sharing = -(-len(members) // len(places))
    least, more = divmod(sharing * len(places), len(members))
    mine: dict[str, set[_Place]] = {member_id: set() for member_id in members}
    wanting = dict.fromkeys(places, sharing)
    before = {
        member_id: [place for place in places if place[1] in previous.get(member_id, NO_PARTITIONS).get(place[0], ())]
        for member_id in members
    }
    # Whoever had most keeps one more than others where not all can have the same.
    by_most = sorted(members, key=lambda each: -len(before[each]))
    room = dict.fromkeys(by_most[:more], least + 1) | dict.fromkeys(by_most[more:], least)
    for member_id in members:
        for place in before[member_id]:
            if room[member_id] and wanting[place]:
                mine[member_id].add(place)
                room[member_id] -= 1
                wanting[place] -= 1
    # Those who want most choose first, and of those who have most room: where there is a way, this finds it.
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
