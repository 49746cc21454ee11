"""Assignor `range`: each topic is cut into contiguous ranges, one for each subscriber.

Static members come first, by group instance id, then the others, by member id. So members keep their place from one
assignment to the next, and topics with as many partitions and the same subscribers are co-partitioned: partition n of
each goes to the same member. It looks at no former assignment and at no racks. After Kafka's `RangeAssignor`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate, chain, pairwise, repeat

from .spec import NO_PARTITIONS, GroupSpec, MemberSpec, Partitions


class RangeAssignor:
    name = "range"

    def assign(self, spec: GroupSpec) -> Mapping[str, Partitions]:
        members = _in_order(spec.members)
        assignments: dict[str, Partitions] = dict.fromkeys(members, NO_PARTITIONS)
        for topics, takers, is_first in _alike(spec, members):
            counts: dict[int, dict[bytes, None]] = {}
            for topic in topics:
                counts.setdefault(spec.partition_counts[topic], {})[topic] = None
            for count, same in counts.items():
                # Topics with the same subscribers and as many partitions are cut alike.
                shares = zip(takers, map(dict.fromkeys, repeat(same), _cut(count, len(takers))), strict=False)
                if is_first:
                    assignments.update(shares)
                else:
                    for member_id, share in shares:
                        assignments[member_id] = {**assignments[member_id], **share}
                is_first = False
        return assignments


def _in_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """The ids of the members; text as Java orders it, by UTF-16 code units."""
    static = {id: member.instance_id for id, member in members.items() if member.instance_id is not None}
    others = [id for id in members if id not in static] if static else list(members)
    in_order = sorted(static, key=lambda id: _units(static[id]))
    return in_order + (sorted(others) if all(map(str.isascii, others)) else sorted(others, key=_units))


def _units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _alike(spec: GroupSpec, members: list[str]) -> Iterator[tuple[list[bytes], list[str], bool]]:
    """Topics that have the same subscribers, these in order, and whether none of them was among those before."""
    if not members:
        return
    if spec.homogeneous:
        yield sorted(spec.members[members[0]].topics), members, True
        return
    places: dict[frozenset[bytes], list[int]] = {}
    for place, member_id in enumerate(members):
        places.setdefault(spec.members[member_id].topics, []).append(place)
    subscriptions = list(places)
    subscribing: dict[bytes, list[int]] = {}
    for number, topics in enumerate(subscriptions):
        for topic in topics:
            subscribing.setdefault(topic, []).append(number)
    alike: dict[tuple[int, ...], list[bytes]] = {}
    for topic in sorted(subscribing):
        alike.setdefault(tuple(subscribing[topic]), []).append(topic)
    before: set[int] = set()
    for numbers, same in alike.items():
        takers = sorted(chain.from_iterable(places[subscriptions[number]] for number in numbers))
        yield same, [members[place] for place in takers], before.isdisjoint(numbers)
        before.update(numbers)


def _cut(partitions: int, takers: int) -> list[frozenset[int]]:
    """The ranges of the first takers; those behind them get none."""
    least, larger = divmod(partitions, takers)
    sizes = [least + 1] * larger + ([least] * (takers - larger) if least else [])
    return [frozenset(range(start, end)) for start, end in pairwise(accumulate(sizes, initial=0))]
