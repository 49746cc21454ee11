"""Which answers name brokers, and where in them.

Decides which messages a relay must change so that clients come back to it: those that name a broker.
It does not know which address takes the place of which.

Metadata, FindCoordinator and DescribeCluster name brokers always; Fetch from version 16 and Produce from version 10 on
name those that have become leaders (KIP-951), which is when a partition has moved, and seldom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from kafka_shim.apis.keys import ApiKey

SINCE: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 10,
    ApiKey.FETCH: 16,
    ApiKey.METADATA: 0,
    ApiKey.FIND_COORDINATOR: 0,
    ApiKey.DESCRIBE_CLUSTER: 0,
}
"""From which version on the answers of an API name brokers."""


class NamedBroker(NamedTuple):
    """A broker that an answer names. `place` is the part of the answer that holds `host` and `port`."""

    node_id: int
    place: Any

    @property
    def host(self) -> str:
        return str(self.place.host)

    @property
    def port(self) -> int:
        return int(self.place.port)


def named(api_key: int, answer: Any) -> list[NamedBroker]:
    """The brokers an answer names; those without an address, as beside an error, are left out."""
    return [each for each in _NAMED[api_key](answer) if each.host and each.port > 0]


def _metadata(answer: Any) -> Iterator[NamedBroker]:
    return (NamedBroker(broker.node_id, broker) for broker in answer.brokers)


def _coordinators(answer: Any) -> Iterator[NamedBroker]:
    # Before version 4 the answer itself is the one coordinator.
    return (NamedBroker(each.node_id, each) for each in (answer, *answer.coordinators))


def _cluster(answer: Any) -> Iterator[NamedBroker]:
    return (NamedBroker(broker.broker_id, broker) for broker in answer.brokers)


def _new_leaders(answer: Any) -> Iterator[NamedBroker]:
    return (NamedBroker(node.node_id, node) for node in answer.node_endpoints)


_NAMED: Final[dict[int, Callable[[Any], Iterator[NamedBroker]]]] = {
    ApiKey.PRODUCE: _new_leaders,
    ApiKey.FETCH: _new_leaders,
    ApiKey.METADATA: _metadata,
    ApiKey.FIND_COORDINATOR: _coordinators,
    ApiKey.DESCRIBE_CLUSTER: _cluster,
}
