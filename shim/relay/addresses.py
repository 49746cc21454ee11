"""Broker addresses in answers: the APIs that have them, and their place in each message.

A relay replaces these addresses by its own. Metadata, FindCoordinator and DescribeCluster always name brokers; Fetch
from version 16 and Produce from version 10 name a new leader (KIP-951), only when a partition has moved.
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
"""First version of each API with broker addresses in its answer."""


class NamedBroker(NamedTuple):
    """A broker named in an answer. `place` is the part of the answer with `host` and `port`."""

    node_id: int
    place: Any

    @property
    def host(self) -> str:
        return str(self.place.host)

    @property
    def port(self) -> int:
        return int(self.place.port)


def brokers_in(api_key: int, answer: Any) -> list[NamedBroker]:
    """Return the brokers named in an answer; those without an address, as beside an error, are left out."""
    return [each for each in _BROKERS_IN[api_key](answer) if each.host and each.port > 0]


def _metadata(answer: Any) -> Iterator[NamedBroker]:
    return (NamedBroker(broker.node_id, broker) for broker in answer.brokers)


def _coordinators(answer: Any) -> Iterator[NamedBroker]:
    # Before version 4 the answer itself is the only coordinator.
    return (NamedBroker(each.node_id, each) for each in (answer, *answer.coordinators))


def _cluster(answer: Any) -> Iterator[NamedBroker]:
    return (NamedBroker(broker.broker_id, broker) for broker in answer.brokers)


def _new_leaders(answer: Any) -> Iterator[NamedBroker]:
    return (NamedBroker(node.node_id, node) for node in answer.node_endpoints)


_BROKERS_IN: Final[dict[int, Callable[[Any], Iterator[NamedBroker]]]] = {
    ApiKey.PRODUCE: _new_leaders,
    ApiKey.FETCH: _new_leaders,
    ApiKey.METADATA: _metadata,
    ApiKey.FIND_COORDINATOR: _coordinators,
    ApiKey.DESCRIBE_CLUSTER: _cluster,
}
