"""Assignor `range`: each topic is cut into contiguous ranges, one for each subscriber.

Static members come first, by group instance id, then the others, by member id. So members keep their place from one
assignment to the next, and topics with as many partitions and the same subscribers are co-partitioned: partition n of
each goes to the same member. It looks at no former assignment and at no racks. After Kafka's `RangeAssignor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, chain, pairwise

from .spec import NO_PARTITIONS, GroupSpec, MemberSpec, Partitions


class RangeAssignor:
    name = "range"

    def assign(self, spec: GroupSpec) -> Mapping[str, Partitions]:
        members = _in_order(spec.members)
        assignments: dict[str, dict[bytes, frozenset[int]]] = {}
        for topics, places in _alike(spec, members):
            counts: dict[int, list[bytes]] = {}
            for topic in topics:
                counts.setdefault(spec.partition_counts[topic], []).append(topic)
            for count, same in counts.items():
                # Topics with the same subscribers and as many partitions are cut alike.
                for place, partitions in zip(places, _cut(count, len(places)), strict=False):
                    member_id = members[place]
                    has = assignments.get(member_id)
                    if has is None:
                        assignments[member_id] = dict.fromkeys(same, partitions)
                    else:
                        has.update(dict.fromkeys(same, partitions))
        return dict.fromkeys(members, NO_PARTITIONS) | assignments


def _in_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """The ids of the members; text as Java orders it, by UTF-16 code units."""
    static = {id: member.instance_id for id, member in members.items() if member.instance_id is not None}
    others = [id for id in members if id not in static] if static else list(members)
    return sorted(static, key=lambda id: _units(static[id])) + _sorted(others)


def _sorted(texts: list[str]) -> list[str]:
    return sorted(texts) if all(map(str.isascii, texts)) else sorted(texts, key=_units)


def _units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _alike(spec: GroupSpec, members: list[str]) -> Iterable[tuple[list[bytes], list[int]]]:
    """Topics that have the same subscribers, and the places of these in `members`."""
    places: dict[frozenset[bytes], list[int]] = {}
    for place, member_id in enumerate(members):
        topics = spec.members[member_id].topics
        places.setdefault(topics, []).append(place)
    subscriptions = list(places)
    subscribing: dict[bytes, list[int]] = {}
    for number, topics in enumerate(subscriptions):
        for topic in topics:
            subscribing.setdefault(topic, []).append(number)
    alike: dict[tuple[int, ...], list[bytes]] = {}
    for topic in sorted(subscribing):
        alike.setdefault(tuple(subscribing[topic]), []).append(topic)
    for numbers, same in alike.items():
        shared = [places[subscriptions[number]] for number in numbers]
        yield same, shared[0] if len(shared) == 1 else sorted(chain.from_iterable(shared))


def _cut(partitions: int, takers: int) -> list[frozenset[int]]:
    """The ranges of the first takers; those behind them get none."""
    least, larger = divmod(partitions, takers)
    sizes = [least + 1] * larger + ([least] * (takers - larger) if least else [])
    return [frozenset(range(start, end)) for start, end in pairwise(accumulate(sizes, initial=0))]
