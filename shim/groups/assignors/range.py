"""Assignor `range`: each topic is cut into contiguous ranges, one for each subscriber.

Static members come first, by group instance id, then the others, by member id. So members keep their place from one
assignment to the next, and topics with as many partitions and the same subscribers are co-partitioned: partition n of
each goes to the same member. It looks at no former assignment and at no racks. After Kafka's `RangeAssignor`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from operator import attrgetter

from .spec import NO_PARTITIONS, GroupSpec, MemberSpec, Partitions


class RangeAssignor:
    name = "range"

    def assign(self, spec: GroupSpec) -> Mapping[str, Partitions]:
        members = _in_order(spec.members)
        assignments: dict[str, Partitions] = dict.fromkeys(members, NO_PARTITIONS)
        cuts: dict[tuple[int, int], list[frozenset[int]]] = {}
        for topics, takers, is_first in _alike(spec, members):
            counts: dict[int, dict[bytes, None]] = {}
            for topic in topics:
                counts.setdefault(spec.partition_counts[topic], {})[topic] = None
            for count, same in counts.items():
                # Topics with the same subscribers and as many partitions are cut alike.
                if (cut := cuts.get((count, len(takers)))) is None:
                    cut = cuts[count, len(takers)] = _cut(count, len(takers))
                shares = zip(takers, map(dict.fromkeys, repeat(same), cut), strict=False)
                if is_first:
                    assignments.update(shares)
                else:
                    for member_id, share in shares:
                        assignments[member_id] = {**assignments[member_id], **share}
                is_first = False
        return assignments


def _in_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """The ids of the members; text as Java orders it, by UTF-16 code units."""
    if not any(map(_instance_id, members.values())):
        return _sorted(list(members))
    static = {id: member.instance_id for id, member in members.items() if member.instance_id is not None}
    in_order = sorted(static, key=lambda id: _units(static[id]))
    return in_order + _sorted([id for id in members if id not in static])


def _sorted(ids: list[str]) -> list[str]:
    return sorted(ids) if "".join(ids).isascii() else sorted(ids, key=_units)


_instance_id = attrgetter("instance_id")


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
    edge = larger * (least + 1)
    return [*_runs(0, edge, least + 1), *_runs(edge, partitions, least)]


def _runs(start: int, end: int, size: int) -> Iterator[frozenset[int]]:
    """Runs of one size, made without a step of Python for each."""
    numbers = iter(range(start, end))
    return map(frozenset, zip(*repeat(numbers, size), strict=True))
