"""Rules of Kafka 4.3 and 4.4 in the tables: the wait for the assignment interval, and descriptions of topologies.

The rules write one trace, a server with a client of the wire protocol the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from kafka_shim.apis.streams_group_topology_description_update import (
    Node,
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from kafka_shim.apis.streams_group_topology_description_update import Subtopology as DescribedSubtopology
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.targets.base import DESCRIPTIONS_IN_MEMORY
from kafka_shim.conformance.wire import Connection, Tape
from kafka_shim.pipeline.needs import places_for
from kafka_shim.pipeline.run import answer, build, sort_out
from kafka_shim.pipeline.warehouse import Warehouse
from kafka_shim.testing import CoordinatorServer
from tests.groups.consumer.context import Cluster
from tests.pipeline.test_epochs import Story


def write_wait(folder: Path) -> None:
    """Write the trace of a member that joins 1 s after an assignment, in a group with an interval of 3 s. The next
    heartbeat comes 1 s after the interval."""
    story = Story(cluster := Cluster("group.consumer.assignment.interval.ms=3000", t=4))
    a, b = cluster.consumer("a", "t"), cluster.consumer("b", "t")
    story.second(a.join)
    story.second(b.join)
    story.second(a.heartbeat)
    story.second()
    for _ in range(3):
        story.second(b.obey, a.obey)
    story.write(folder)


@contextmanager
def connected(server: CoordinatorServer) -> Iterator[Connection]:
    host, _, port = server.bootstrap.rpartition(":")
    connection = Connection(
        Endpoint(host, int(port)), patience=10, deadline=time.monotonic() + 60, tape=Tape(), label="member"
    )
    try:
        yield connection
    finally:
        connection.close()


def write_descriptions(file: Path) -> None:
    """Write the trace of three streams groups: one describes its topology at the second try, one is refused, one is
    silent."""
    settings = {
        "group.streams.topology.description.plugin.class": DESCRIPTIONS_IN_MEMORY,
        "group.streams.initial.rebalance.delay.ms": "0",
    }
    description = TopologyDescription([DescribedSubtopology("0", [Node("in", 1, ["t"])])], [])
    with CoordinatorServer(topics={"t": 2}, config=settings) as server, connected(server) as wire:
        for group in ("described", "refused", "silent"):
            topology = Topology(0, [Subtopology("0", source_topics=["t"])])
            lists: dict[str, list[object]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            join = StreamsGroupHeartbeatRequest(
                group, "m", 0, 0, rebalance_timeout_ms=30_000, topology=topology, process_id="p", **lists
            )
            joined = wire.call(join, 1)
            assert (joined.error_code, joined.topology_description_required) == (0, True)
        for group, epoch in (("described", 7), ("described", 0), ("refused", 0), ("refused", 7)):
            member = "m" if group == "described" else "nobody"
            wire.call(StreamsGroupTopologyDescriptionUpdateRequest(group, member, epoch, description), 0)
        server.write_trace(file)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("newer")
    write_wait(folder / "in" / "wait")
    write_descriptions(folder / "in" / "descriptions.jsonl")
    warehouse = Warehouse(spark, str(folder / "out"), only=places_for(["rounds", "cost", "descriptions"]), little=True)
    with warehouse.change("run"):
        build(warehouse, sort_out([str(folder / "in")]))
        answer(warehouse)
    return warehouse


def test_a_round_has_its_wait_for_the_assignment_interval(tables: Warehouse) -> None:
    rows = tables.read("rounds").where("kind = 'consumer'").orderBy("seq").collect()
    assert [(row.trigger, row.interval_ms, row.join_ms) for row in rows] == [("a", 0.0, 0.0), ("b", 2000.0, 3000.0)]
    (cost,) = tables.result("cost").where("kind = 'consumer'").collect()
    assert cost.interval_ms == 2000.0


def test_a_streams_group_has_its_descriptions(tables: Warehouse) -> None:
    rows = {row.group_id: row for row in tables.result("descriptions").collect()}
    assert rows.keys() == {"described", "refused", "silent"}
    found = {group: (row.described, row.accepted, row.refused, row.last_error) for group, row in rows.items()}
    assert found == {
        "described": (True, 1, 1, ErrorCode.NONE),
        "refused": (False, 0, 2, ErrorCode.UNKNOWN_MEMBER_ID),
        "silent": (False, 0, 0, None),
    }
    assert rows["described"].member_id == "m"
    assert rows["described"].accepted_at is not None
    assert rows["refused"].accepted_at is rows["silent"].member_id is None
