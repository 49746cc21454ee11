"""Comparison of assignors: one group divided by each of them, and the cost of a membership change with each.

The client assignors are those of the puppets (`lab/client_assignors.py`), the brokers' those of KIP-848 groups. Each
assignor computes its own first division, from an empty group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from kafka_shim.groups.assignors.registry import BUILT_IN
from kafka_shim.groups.assignors.spec import MemberSpec, group_spec
from kafka_shim.lab.client_assignors import Owned, cooperative_assignor, range_assignor, round_robin_assignor
from kafka_shim.trace.moves import compare, owners_of

Style = Literal["eager", "cooperative", "KIP-848"]
Division = Mapping[str, Mapping[str, Sequence[int]]]
"""By member and topic, partitions."""


@dataclass(frozen=True)
class Divided:
    """Result of one assignor for a membership change. `needed` is the smallest number of moves of any balanced
    division, `stopped` the number of partitions that no member consumes for a while.
    """

    assignor: str
    style: Style
    before: Division
    after: Division
    fewest: int
    most: int
    moved: int
    needed: int
    stopped: int


def side_by_side(topics: Mapping[str, int], before: Sequence[str], after: Sequence[str]) -> list[Divided]:
    """Compute the divisions of a group by every assignor. The group subscribes to `topics`, given with their partition
    counts.
    """
    return [_divided(name, style, topics, before, after) for name, style in _STYLES.items()]


_STYLES: Final[Mapping[str, Style]] = {
    "range": "eager",
    "roundrobin": "eager",
    "sticky": "eager",
    "cooperative-sticky": "cooperative",
    "uniform": "KIP-848",
}


def _divided(
    name: str, style: Style, topics: Mapping[str, int], before: Sequence[str], after: Sequence[str]
) -> Divided:
    assign = partial(_assign, name, topics)
    first = assign(before, {})
    second = assign(after, {member: owned for member, owned in first.items() if member in after})
    old, new = owners_of(first), owners_of(second)
    moves = compare(old, new, after)
    sizes = [sum(map(len, second.get(member, {}).values())) for member in after]
    stopped = len(new) if style == "eager" else moves.moved
    return Divided(name, style, first, second, min(sizes), max(sizes), moves.moved, moves.needed, stopped)


def _assign(name: str, topics: Mapping[str, int], members: Iterable[str], owned: Owned) -> Owned:
    if name == "uniform":
        return _by_broker(name, topics, members, owned)
    subscribed = {member: list(topics) for member in members}
    if name == "range":
        return range_assignor(subscribed, topics, owned)
    if name == "roundrobin":
        return round_robin_assignor(subscribed, topics, owned)
    # The cooperative assignor first withholds partitions that their owner must revoke: the second round is the result.
    first = cooperative_assignor(subscribed, topics, owned)
    return cooperative_assignor(subscribed, topics, first)


def _by_broker(name: str, topics: Mapping[str, int], members: Iterable[str], owned: Owned) -> Owned:
    ids = {topic: number.to_bytes(16) for number, topic in enumerate(sorted(topics), 1)}
    names = {id: topic for topic, id in ids.items()}
    specs = {
        member: MemberSpec(
            frozenset(ids.values()),
            {ids[topic]: frozenset(partitions) for topic, partitions in owned.get(member, {}).items()},
        )
        for member in members
    }
    assignment = BUILT_IN[name].assign(group_spec(specs, {ids[topic]: count for topic, count in topics.items()}))
    return {
        member: {names[id]: sorted(partitions) for id, partitions in assignment.get(member, {}).items()}
        for member in specs
    }
