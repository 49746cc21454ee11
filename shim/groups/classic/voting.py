"""Which protocol the members of a classic group elect.

Decides the vote. It does not know members, only what each offers, in its order of preference.

Source: semantics 2.5; Kafka's `ClassicGroup.selectProtocol`, which counts votes in a Java HashMap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kafka_shim.persistence.partition import java_string_hash

_LEAST_BUCKETS: Final = 16


def elected(preferences: Mapping[tuple[str, ...], int], candidates: set[str], tie_breaker: Sequence[str]) -> str:
    """The protocol most members prefer among `candidates`, of which there is at least one that everybody offers.

    `preferences` is how many members offer these protocols in this order. Of protocols with as many votes the first in
    the HashMap's order wins. That depends on their names, and for names in one bucket on the order in which the members
    voted; members have random ids in Kafka, so there the first in `tie_breaker` wins.
    """
    votes: dict[str, int] = {}
    for names, count in preferences.items():
        name = next(name for name in names if name in candidates)
        votes[name] = votes.get(name, 0) + count
    most = max(votes.values())
    winners = [name for name, count in votes.items() if count == most]
    if len(winners) == 1:
        return winners[0]
    buckets = _LEAST_BUCKETS
    while len(votes) > buckets * 3 // 4:
        buckets *= 2
    return min(winners, key=lambda name: (_bucket(name, buckets), tie_breaker.index(name)))


def _bucket(name: str, buckets: int) -> int:
    hashed = java_string_hash(name) & 0xFFFFFFFF
    return (hashed ^ hashed >> 16) % buckets
