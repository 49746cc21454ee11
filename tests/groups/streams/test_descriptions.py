"""Topology descriptions of streams groups (KIP-1331): whose heartbeat asks for one, what is kept, and for how long."""

from __future__ import annotations

import pytest

from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_shim.apis.streams_group_topology_description_update import (
    Node,
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    Subtopology,
    TopologyDescription,
    error,
)
from kafka_shim.groups.interface import Client
from kafka_shim.groups.streams.heartbeat import refused
from kafka_shim.persistence.records import StreamsGroupMetadataKey
from tests.groups.consumer.context import HOST
from tests.groups.context import GROUP

from .context import Cluster, Member, one_subtopology

PLUGIN = "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
SETTINGS = ("group.streams.initial.rebalance.delay.ms=0", f"group.streams.topology.description.plugin.class={PLUGIN}")
DESCRIPTION = TopologyDescription([Subtopology("0", [Node("in", 1, ["t"], None, [], [])])], [])


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(*SETTINGS, t=2)


def started(cluster: Cluster) -> Member:
    member = cluster.member("a", one_subtopology("t"))
    assert member.join().error_code == 0
    return member


def is_asked(cluster: Cluster, member: Member) -> bool:
    """Return True if the answer to a heartbeat of version 1 asks for a description."""
    request = StreamsGroupHeartbeatRequest(GROUP, member.member_id, member.epoch, 0)
    answer = cluster.service.ask(request, refused, Client("c", HOST), cluster.now, describes=True)
    cluster.settle()
    assert answer.response.error_code == 0
    asked: bool = answer.response.topology_description_required
    return asked


def describe(cluster: Cluster, member: Member, epoch: int = 0) -> StreamsGroupTopologyDescriptionUpdateResponse:
    request = StreamsGroupTopologyDescriptionUpdateRequest(GROUP, member.member_id, epoch, DESCRIPTION)
    answer: StreamsGroupTopologyDescriptionUpdateResponse = cluster.service.ask(request, error)
    cluster.settle()
    return answer


def description(cluster: Cluster) -> TopologyDescription | None:
    return cluster.described_streams().topology_description


def test_one_member_is_asked_and_the_next_one_after_a_pause_that_doubles(cluster: Cluster) -> None:
    member = started(cluster)
    times = []
    for second in range(0, 250, 10):
        if is_asked(cluster, member):
            times.append(second)
        cluster.advance(10_000)
    assert times == [0, 30, 90, 210]


def test_a_description_that_is_stored_is_not_asked_for(cluster: Cluster) -> None:
    member = started(cluster)
    assert describe(cluster, member).error_code == 0
    assert not is_asked(cluster, member)
    assert description(cluster) == DESCRIPTION
    (node,) = cluster.streams_group.describe().topology
    assert (node.subtopology, node.name, node.type, node.topics) == ("0", "in", "source", ["t"])


def test_without_plugin_nobody_is_asked_and_a_description_is_refused() -> None:
    cluster = Cluster(SETTINGS[0], t=2)
    member = started(cluster)
    assert not is_asked(cluster, member)
    assert describe(cluster, member).error_code == 35
    assert description(cluster) is None


def test_a_restart_keeps_the_epoch_of_a_description_and_loses_the_description(cluster: Cluster) -> None:
    member = started(cluster)
    describe(cluster, member)
    cluster.crash()
    assert cluster.streams_group.description_epochs == (0, -1)
    assert (description(cluster), is_asked(cluster, member)) == (None, False)


def test_a_description_is_first_recorded_as_unknown(cluster: Cluster) -> None:
    member = started(cluster)
    written: list[int] = []
    group = cluster.streams_group
    write = group.shard.write

    def noted(key: object, value: object) -> None:
        if isinstance(key, StreamsGroupMetadataKey):
            written.append(value.stored_description_topology_epoch)  # type: ignore[attr-defined]
        write(key, value)

    group.shard.write = noted  # type: ignore[method-assign]
    describe(cluster, member)
    assert written == [-2, 0]


def test_an_empty_group_with_a_description_ends_a_clean_up_later(cluster: Cluster) -> None:
    member = started(cluster)
    describe(cluster, member)
    member.leave()
    period_ms = cluster.service.config.offsets_retention_check_interval_ms
    cluster.advance(period_ms)
    assert (GROUP in cluster.service.groups, description(cluster)) == (True, None)
    cluster.advance(period_ms)
    assert GROUP not in cluster.service.groups
