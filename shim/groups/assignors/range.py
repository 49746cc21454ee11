"""Assignor `range`: each topic is cut into contiguous ranges, one for each subscriber.

Static members come first, by group instance id, then the others, by member id. So members keep their place from one
assignment to the next, and topics with as many partitions and the same subscribers are co-partitioned: partition n of
each goes to the same member. It looks at no former assignment and at no racks. After Kafka's `RangeAssignor`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise

from .spec import GroupSpec, MemberSpec, Partitions


class RangeAssignor:
    name = "range"

    def assign(self, spec: GroupSpec) -> Mapping[str, Partitions]:
        members = [member_id for member_id, _ in sorted(spec.members.items(), key=_place)]
        assignments: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in members}
        if not members:
            return assignments
        if spec.homogeneous:
            subscribers = dict.fromkeys(spec.members[members[0]].topics, members)
        else:
            subscribers = {}
            for member_id in members:
                for topic in spec.members[member_id].topics:
                    subscribers.setdefault(topic, []).append(member_id)
        ranges: dict[tuple[int, int], list[frozenset[int]]] = {}
        for topic in sorted(subscribers):
            takers = subscribers[topic]
            shape = spec.partition_counts[topic], len(takers)
            if shape not in ranges:
                ranges[shape] = _cut(*shape)
            for member_id, partitions in zip(takers, ranges[shape], strict=False):
                assignments[member_id][topic] = partitions
        return assignments


def _place(item: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    """Sorts members; text as Java orders it, by UTF-16 code units."""
    member_id, member = item
    name = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


def _cut(partitions: int, takers: int) -> list[frozenset[int]]:
    """The ranges of the first takers; those behind them get none."""
    least, larger = divmod(partitions, takers)
    sizes = [least + 1] * larger + ([least] * (takers - larger) if least else [])
    return [frozenset(range(start, end)) for start, end in pairwise(accumulate(sizes, initial=0))]
