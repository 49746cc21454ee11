"""Assignor `range`: each topic is divided into contiguous ranges, one for each subscriber.

Static members come first, by group instance id, then the others, by member id. So members keep their order from one
assignment to the next, and topics with equally many partitions and the same subscribers are co-partitioned: partition n
of each goes to the same member. Former assignments and racks are ignored. Source: Kafka's `RangeAssignor`.

Co-partitioned topics are divided once, into one set of partitions for each subscriber. The dictionary of a member's
topics is built only when it is read, as Kafka's `RangeSet` builds its numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import chain, count, repeat
from operator import attrgetter
from typing import TypeAlias

from .spec import GroupSpec, MemberSpec, Partitions

_Cut: TypeAlias = tuple[dict[bytes, None], Mapping[str, frozenset[int]]]
"""Co-partitioned topics, and each member's partitions of each of them; a member without partitions is left out."""


class RangeAssignor:
    name = "range"

    def assign(self, spec: GroupSpec) -> Mapping[str, Partitions]:
        cuts: defaultdict[frozenset[bytes], list[_Cut]] = defaultdict(list)
        ranges: dict[tuple[int, int], list[frozenset[int]]] = {}
        counts = spec.partition_counts
        for topics, subscriptions, members in _alike(spec):
            by_count: dict[int, dict[bytes, None]] = {}
            for topic in topics:
                by_count.setdefault(counts[topic], {})[topic] = None
            for partitions, same in by_count.items():
                size = partitions, len(members)
                if size not in ranges:
                    ranges[size] = _ranges(*size)
                cut = same, dict(zip(members, ranges[size], strict=False))
                for subscription in subscriptions:
                    cuts[subscription].append(cut)
        return _Shares(spec.members, cuts)


class _Shares(Mapping[str, Partitions]):
    """The assignments of all members, by their subscriptions."""

    __slots__ = ("_cuts", "_members")

    def __init__(self, members: Mapping[str, MemberSpec], cuts: Mapping[frozenset[bytes], list[_Cut]]) -> None:
        self._members = members
        self._cuts = cuts

    def __getitem__(self, member_id: str) -> Partitions:
        share: dict[bytes, frozenset[int]] = {}
        for topics, ranges in self._cuts.get(self._members[member_id].topics, ()):
            if member_id in ranges:
                share |= dict.fromkeys(topics, ranges[member_id])
        return share

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def _alike(spec: GroupSpec) -> Iterator[tuple[list[bytes], tuple[frozenset[bytes], ...], list[str]]]:
    """Yield topics with the same subscribers, the subscriptions with these topics, and the subscribers in order."""
    members = _in_order(spec.members)
    if not members:
        return
    if spec.homogeneous:
        topics = spec.members[members[0]].topics
        yield sorted(topics), (topics,), members
        return
    subscribers: defaultdict[frozenset[bytes], list[str]] = defaultdict(list)
    specs = spec.members
    for member_id in members:
        subscribers[specs[member_id].topics].append(member_id)
    subscriptions_of: defaultdict[bytes, list[frozenset[bytes]]] = defaultdict(list)
    for subscription in subscribers:
        for topic in subscription:
            subscriptions_of[topic].append(subscription)
    alike: defaultdict[tuple[frozenset[bytes], ...], list[bytes]] = defaultdict(list)
    for topic in sorted(subscriptions_of):
        alike[tuple(subscriptions_of[topic])].append(topic)
    places: dict[str, int] = {}
    for subscriptions, same in alike.items():
        takers = subscribers[subscriptions[0]]
        if len(subscriptions) > 1:
            places = places or dict(zip(members, count(), strict=False))
            takers = sorted(chain.from_iterable(map(subscribers.__getitem__, subscriptions)), key=places.__getitem__)
        yield same, subscriptions, takers


def _in_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """Sort the ids of the members, text as in Java: by UTF-16 code units."""
    if not any(map(_instance_id, members.values())):
        return _sorted(members)
    static = {id: member.instance_id for id, member in members.items() if member.instance_id is not None}
    in_order = sorted(static, key=lambda id: _units(static[id]))
    return in_order + _sorted([id for id in members if id not in static])


def _sorted(ids: Collection[str]) -> list[str]:
    return sorted(ids) if "".join(ids).isascii() else sorted(ids, key=_units)


_instance_id = attrgetter("instance_id")


def _units(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _ranges(partitions: int, members: int) -> list[frozenset[int]]:
    """Return the ranges of the first members; the members after them get none."""
    least, larger = divmod(partitions, members)
    edge = larger * (least + 1)
    return [*_runs(0, edge, least + 1), *_runs(edge, partitions, least)]


def _runs(start: int, end: int, size: int) -> Iterator[frozenset[int]]:
    """Yield ranges of equal size, without a Python step for each."""
    numbers = iter(range(start, end))
    return map(frozenset, zip(*repeat(numbers, size), strict=True))
