"""Metrics under Kafka's names, in Prometheus form (semantics 6.1).

The names are Kafka's MBean names as the JMX exporter writes them, and begin with `kafka_shim_` for metrics that Kafka
does not have. `Census` counts groups at most every few seconds and with pauses, because there may be a hundred thousand
of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from math import inf
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    UnknownMetricFamily,
)

from kafka_shim.control.groups import each_group
from kafka_shim.groups.kinds import KINDS
from kafka_shim.server.cluster import Cluster

MANAGER: Final = "kafka_coordinator_group_groupmetadatamanager_"
COORDINATOR: Final = "kafka_server_group_coordinator_metrics_"
OURS: Final = "kafka_shim_"

KEPT_SECONDS: Final = 0.5
"""Seconds for which the page is reused; a request within them gets the same page."""
RECOUNT_SECONDS: Final = 5.0
"""Seconds between two counts of groups; Kafka counts its groups every minute."""


class Census:
    """The number of groups in each state."""

    def __init__(self, cluster: Cluster) -> None:
        self.by_state: Counter[tuple[str, str]] = Counter()
        """By type and state."""
        self._cluster = cluster
        self._taken = -inf

    async def take(self) -> None:
        """Count the groups, unless they were counted a moment ago."""
        if time.monotonic() - self._taken < RECOUNT_SECONDS:
            return
        counted: Counter[tuple[str, str]] = Counter()
        async for _, group in each_group(self._cluster):
            counted[group.type, group.state] += 1
        self.by_state = counted
        self._taken = time.monotonic()


class Metrics:
    """The metrics page of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._census = Census(cluster)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._page = b""
        self._made = -inf

    async def page(self) -> bytes:
        """Return all metrics, in Prometheus' text format."""
        if time.monotonic() - self._made > KEPT_SECONDS:
            await self._census.take()
            self._page = generate_latest(self._registry)
            self._made = time.monotonic()
        return self._page

    def describe(self) -> Iterable[Metric]:
        """Return nothing: without this method the registry would collect when the collector is registered."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics; see `prometheus_client`."""
        yield from self._groups()
        yield from self._totals()
        yield from self._partitions()
        yield from self._server()

    def _groups(self) -> Iterable[Metric]:
        counted = self._census.by_state
        nodes = self._cluster.nodes.values()
        of_type = {kind.name: sum(counted[kind.name, state] for state in kind.states) for kind in KINDS}
        offsets = sum(shard.offsets.count for node in nodes for shard in node.groups.shards.values())
        yield GaugeMetricFamily(f"{MANAGER}numgroups", "Classic groups.", value=of_type["classic"])
        for state in KINDS.by_name["classic"].states:
            name = f"{MANAGER}numgroups{state.lower()}"
            yield GaugeMetricFamily(name, f"Classic groups that are {state}.", value=counted["classic", state])
        yield GaugeMetricFamily(f"{MANAGER}numoffsets", "Committed offsets.", value=offsets)
        by_protocol = GaugeMetricFamily(f"{COORDINATOR}group_count", "Groups by protocol.", labels=["protocol"])
        for type_, number in of_type.items():
            by_protocol.add_metric([type_], number)
        yield by_protocol
        for kind in KINDS:
            if kind.name != "classic":
                name = f"{COORDINATOR}{kind.name}_group_count"
                by_state = GaugeMetricFamily(name, f"Groups of type {kind.name} by state.", labels=["state"])
                for state in kind.states:
                    by_state.add_metric([state.lower()], counted[kind.name, state])
                yield by_state

    def _totals(self) -> Iterable[Metric]:
        counters = [node.groups.counters for node in self._cluster.nodes.values()]
        totals = [
            (name, help_, sum(getattr(each, attribute) for each in counters))
            for name, help_, attribute in (
                ("offset_commit", "Offsets committed, by partition.", "offset_commits"),
                ("offset_expiration", "Offsets that have expired.", "offset_expirations"),
                ("offset_deletion", "Offsets deleted.", "offset_deletions"),
                (
                    "group_completed_rebalance",
                    "Rebalances of classic groups that became Stable.",
                    "completed_rebalances",
                ),
            )
        ]
        totals += [
            (
                f"{kind.name}_group_rebalance",
                f"New epochs of {kind.name} groups, but for members that left.",
                sum(each.new_epochs[kind.name] for each in counters),
            )
            for kind in KINDS
            if kind.name != "classic"
        ]
        for name, help_, value in totals:
            # Not of type counter: that would get another name than Kafka's.
            yield UnknownMetricFamily(f"{COORDINATOR}{name}_count", help_, value=value)
        yield CounterMetricFamily(
            f"{OURS}marker_retries",
            "Markers of transactions that were sent again, by partition.",
            value=sum(each.marker_retries for each in counters),
        )
        rebalances = CounterMetricFamily(f"{OURS}rebalances", "Rebalances begun, by cause.", labels=["cause"])
        for cause in counters[0].rebalances:
            rebalances.add_metric([cause.value], sum(each.rebalances[cause] for each in counters))
        yield rebalances

    def _partitions(self) -> Iterable[Metric]:
        counted = Counter(state for node in self._cluster.nodes.values() for state in node.groups.partitions().values())
        partitions = GaugeMetricFamily(
            f"{COORDINATOR}num_partitions", "Partitions of __consumer_offsets by state.", labels=["state"]
        )
        for state in ("loading", "active", "failed"):
            partitions.add_metric([state], counted[state])
        yield partitions

    def _server(self) -> Iterable[Metric]:
        cluster = self._cluster
        requests = CounterMetricFamily(f"{OURS}requests", "Requests by API.", labels=["node", "api", "version"])
        connections = GaugeMetricFamily(f"{OURS}connections", "Open connections.", labels=["node"])
        refused = CounterMetricFamily(
            f"{OURS}refused_connections", "Connections closed because of a bad request.", labels=["node"]
        )
        for node in cluster.nodes.values():
            for served in list(node.table.endpoints.values()):
                requests.add_metric([str(node.id), served.api.name, str(served.version)], served.calls)
            connections.add_metric([str(node.id)], len(node.sessions))
            refused.add_metric([str(node.id)], node.refused)
        yield requests
        yield connections
        yield refused
        durability = cluster.durability
        yield CounterMetricFamily(f"{OURS}batches", "Batches of records made durable.", value=durability.batches)
        yield CounterMetricFamily(f"{OURS}failed_batches", "Batches that failed.", value=durability.failures)
        caught = CounterMetricFamily(
            f"{OURS}caught_exceptions", "Exceptions that a guard has caught, by border.", labels=["border"]
        )
        for border, count in cluster.failures.counts.items():
            caught.add_metric([border.value], count)
        yield caught
        yield InfoMetricFamily(
            f"{OURS}build",
            "Version and Kafka release of this process.",
            value={"version": version("kafka-group-shim"), "poses_as": cluster.config.release},
        )
