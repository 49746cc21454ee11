"""Which answers name brokers, and where in them.

Decides which messages a relay must change so that clients come back to it: those that tell a client where a broker is.
It does not know which address takes the place of which.

Metadata, FindCoordinator and DescribeCluster name brokers always; Fetch from version 16 and Produce from version 10 on
name those that have become leaders (KIP-951), which is when a partition has moved, and seldom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
DESCRIBE_CLUSTER: Final = 60

SINCE: Final[dict[int, int]] = {PRODUCE: 10, FETCH: 16, METADATA: 0, FIND_COORDINATOR: 0, DESCRIBE_CLUSTER: 0}
"""From which version on the answers of an API name brokers."""


class Named(NamedTuple):
    """A broker that an answer names. `place` is the part of the answer that holds `host` and `port`."""

    node_id: int
    place: Any

    @property
    def host(self) -> str:
        return str(self.place.host)

    @property
    def port(self) -> int:
        return int(self.place.port)


def named(api_key: int, answer: Any) -> list[Named]:
    """The brokers an answer names; those without an address, as beside an error, are left out."""
    return [each for each in _NAMED[api_key](answer) if each.host and each.port > 0]


def _metadata(answer: Any) -> Iterator[Named]:
    return (Named(broker.node_id, broker) for broker in answer.brokers)


def _coordinators(answer: Any) -> Iterator[Named]:
    # Before version 4 the answer itself is the one coordinator.
    return (Named(each.node_id, each) for each in (answer, *answer.coordinators))


def _cluster(answer: Any) -> Iterator[Named]:
    return (Named(broker.broker_id, broker) for broker in answer.brokers)


def _new_leaders(answer: Any) -> Iterator[Named]:
    return (Named(node.node_id, node) for node in answer.node_endpoints)


_NAMED: Final[dict[int, Callable[[Any], Iterator[Named]]]] = {
    PRODUCE: _new_leaders,
    FETCH: _new_leaders,
    METADATA: _metadata,
    FIND_COORDINATOR: _coordinators,
    DESCRIBE_CLUSTER: _cluster,
}
