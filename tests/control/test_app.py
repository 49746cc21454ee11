"""The control server's routes, and how it shares its thread with the coordinator."""

import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import trio

from kafka_shim.apis.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    assignment_to_bytes,
    subscription_to_bytes,
)
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.control.app import make_app
from kafka_shim.control.server import serve_control
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.failures import Border
from kafka_shim.server.server import ServerConfig, serve
from kafka_shim.testing import open_coordinator
from kafka_shim.trace.causes import Cause
from tests.server.wire import Wire, request
from tests.waiting import turns_of_others


@asynccontextmanager
async def serving(group: str | None = None) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    """A cluster, with a stable group of one member that has committed an offset, and a client of its control API."""
    async with open_coordinator(topics={"orders": 3}) as kit:
        if group is not None:
            await add_group(kit.cluster, group)
        transport = httpx.ASGITransport(make_app(kit))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            yield kit.cluster, http


async def add_group(cluster: Cluster, group: str) -> None:
    wire = Wire(cluster)
    metadata = subscription_to_bytes(ConsumerProtocolSubscription(["orders"], owned_partitions=[]), 1)
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    wire.receive(request(JoinGroupRequest(group, 30_000, 60_000, "", None, "consumer", protocols), 2), cluster.clock())
    cluster.ticks.fire(cluster.clock())
    member_id = wire.answer(JoinGroupResponse, 2)[1].member_id
    owned = assignment_to_bytes(ConsumerProtocolAssignment([TopicPartition("orders", [2, 0, 1])]), 1)
    sync = SyncGroupRequest(group, 1, member_id, assignments=[SyncGroupRequestAssignment(member_id, owned)])
    wire.receive(request(sync, 1), cluster.clock())
    partition = OffsetCommitRequestPartition(1, 7, 0, committed_metadata="why")
    topics = [OffsetCommitRequestTopic("orders", partitions=[partition])]
    wire.receive(request(OffsetCommitRequest(group, 1, member_id, topics=topics), 8), cluster.clock())


async def test_groups_are_listed() -> None:
    async with serving("billing") as (_, http):
        listed = (await http.get("/v1/groups")).json()
    assert listed == {
        "groups": [
            {
                "group": "billing",
                "type": "classic",
                "state": "Stable",
                "protocol_type": "consumer",
                "protocol": "range",
                "generation": 1,
                "members": 1,
                "coordinator": 1,
            }
        ]
    }


@pytest.mark.parametrize("group", ["billing", "team/billing", "Zahlungen größer 0"])
async def test_a_description_has_the_target_and_owned_partitions_of_members(group: str) -> None:
    async with serving(group) as (_, http):
        described = (await http.get(f"/v1/groups/{quote(group, safe='')}")).json()
    (member,) = described["members"]
    assert described["group"] == group
    assert (described["state"], described["protocol"], described["leader"]) == ("Stable", "range", member["member_id"])
    assert described["rebalance"]["cause"] == "NEW_MEMBER"
    assert member["client_id"] == "test"
    assert member["client_host"] == "/127.0.0.1"
    assert member["subscription"]["topics"] == ["orders"]
    assert member["assignment"] == {"orders": [0, 1, 2]}
    (offset,) = described["offsets"]
    assert (offset["topic"], offset["partition"], offset["offset"], offset["metadata"]) == ("orders", 1, 7, "why")


async def test_a_group_that_is_not_there_is_not_found() -> None:
    async with serving() as (_, http):
        answer = await http.get("/v1/groups/nobody")
    assert answer.status_code == 404
    assert answer.json()["error"] == "GROUP_ID_NOT_FOUND"


async def test_metrics_have_kafkas_names() -> None:
    async with serving("billing") as (_, http):
        page = (await http.get("/metrics")).text
    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    manager, coordinator = "kafka_coordinator_group_groupmetadatamanager_", "kafka_server_group_coordinator_metrics_"
    assert float(values[f"{manager}numgroups"]) == 1
    assert float(values[f"{manager}numgroupsstable"]) == 1
    assert float(values[f"{manager}numgroupspreparingrebalance"]) == 0
    assert float(values[f"{manager}numoffsets"]) == 1
    assert float(values[f'{coordinator}group_count{{protocol="classic"}}']) == 1
    assert float(values[f"{coordinator}offset_commit_count"]) == 1
    assert float(values[f"{coordinator}group_completed_rebalance_count"]) == 1
    for kind in ("consumer", "share", "streams"):
        assert float(values[f"{coordinator}{kind}_group_rebalance_count"]) == 0
    assert float(values[f'{coordinator}num_partitions{{state="active"}}']) == 50
    assert float(values['kafka_shim_rebalances_total{cause="NEW_MEMBER"}']) == 1
    assert sum(name.startswith("kafka_shim_rebalances_total") for name in values) == len(Cause)
    assert float(values['kafka_shim_requests_total{api="OffsetCommit",node="1",version="8"}']) == 1


async def test_health_says_whether_every_partition_is_served() -> None:
    async with serving() as (served, http):
        assert (await http.get("/health")).json() == {"status": "ok"}
        served.nodes[1].groups.unload(3, served.clock())
        served.nodes[1].groups.begin_loading(3)
        answer = await http.get("/health")
        assert answer.status_code == 503
        assert answer.json()["partitions"] == {"loading": 1}


async def test_health_counts_the_exceptions_that_guards_have_caught() -> None:
    async with serving() as (served, http):
        for border in (Border.TIMER, Border.LABORATORY, Border.TIMER):
            served.failures.note(border, "a test", ValueError("a mistake of ours"))
        answer = await http.get("/health")
        assert answer.status_code == 200
        assert answer.json() == {"status": "ok", "failures": {"timer": 2, "laboratory": 1}}


async def test_listing_many_groups_gives_way_to_others() -> None:
    async with serving("billing") as (served, http):
        groups = served.nodes[1].groups.groups
        groups.update({f"g{number}": groups["billing"] for number in range(5000)})
        async with turns_of_others() as turns:
            listed = (await http.get("/v1/groups")).json()
        for number in range(5000):
            del groups[f"g{number}"]
    assert len(listed["groups"]) == 5001
    assert turns() > 20


async def test_the_control_server_runs_and_stops_with_the_coordinator() -> None:
    def ask(url: str) -> Any:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            server = await nursery.start(serve, ServerConfig())
            url = await nursery.start(serve_control, server, "127.0.0.1", 0)
            assert await trio.to_thread.run_sync(ask, f"{url}/health") == {"status": "ok"}
            # A client that lingers, in the middle of a request, does not hold up the end.
            lingering = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
            await lingering.send_all(b"GET /health HTTP/1.1\r\nHost:")
            began = trio.current_time()
            server.stop()
            await server.gone.wait()
            assert trio.current_time() - began < 1.0
            await lingering.aclose()
