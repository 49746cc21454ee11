"""The listeners of trace events and the events for each."""

import logging
from typing import Any

import pytest

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafka_shim.server.events import OF_REQUESTS
from kafka_shim.server.group_log import GroupLog
from kafka_shim.testing import CoordinatorServer
from tests.server.test_trace_file import live
from tests.server.wire import Wire, cluster, request


async def test_a_listener_without_requests_gets_only_events_of_groups_and_members() -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    heard: list[dict[str, Any]] = []

    def hear(events: list[dict[str, Any]], now: float) -> None:
        heard.extend(events)

    wire.cluster.events.listen(hear, requests=False)
    live(wire)
    kinds = {event["event"] for event in heard}
    assert {"group", "member", "state", "round", "assignment"} <= kinds
    assert not kinds & (OF_REQUESTS - {"exchange"} | {"commit"})
    # Of the exchanges those that change the group; the heartbeats and the commit are not among them.
    assert [event["api"] for event in heard if event["event"] == "exchange"] == ["JoinGroup", "SyncGroup", "LeaveGroup"]
    wire.cluster.events.unlisten(hear)
    assert not wire.cluster.outbox.listening


async def test_only_listeners_for_requests_get_their_events() -> None:
    wire = Wire(cluster())
    heard: list[str] = []

    def hear(events: list[dict[str, Any]], now: float) -> None:
        heard.extend(event["event"] for event in events)

    def hear_of_groups(events: list[dict[str, Any]], now: float) -> None:
        of_groups.extend(event["event"] for event in events)

    of_groups: list[str] = []
    wire.cluster.events.listen(hear_of_groups, requests=False)
    wire.cluster.events.listen(hear)
    # The second and third are known by their bytes, and their events made from a template.
    for _ in range(3):
        wire.receive(request(HeartbeatRequest("g", 1, "m"), 0))
    assert heard == ["exchange"] * 3
    wire.cluster.events.unlisten(hear)
    wire.receive(request(HeartbeatRequest("g", 1, "m"), 0))
    assert heard == ["exchange"] * 3
    # It is an error: the first, the second and the fourth.
    assert of_groups == ["exchange"] * 3
    assert wire.cluster.outbox.listening
    assert not wire.cluster.outbox.tracing
    assert len(wire.answers()) == 4


async def test_a_fetch_of_the_offsets_of_one_group_is_an_event_of_this_group() -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    heard: list[dict[str, Any]] = []

    def hear(events: list[dict[str, Any]], now: float) -> None:
        heard.extend(events)

    wire.cluster.events.listen(hear)
    topics = [OffsetFetchRequestTopic("orders", [0])]
    of_group = [OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("orders", [0])])]
    wire.receive(request(OffsetFetchRequest("g", topics), 7))
    wire.receive(request(OffsetFetchRequest(groups=of_group), 8))
    wire.receive(request(OffsetFetchRequest(groups=[*of_group, OffsetFetchRequestGroup("h", topics=[])]), 9))
    assert [(event["version"], event["group"]) for event in heard] == [(7, "g"), (8, "g"), (9, "")]


@pytest.mark.parametrize(
    ("version", "name", "software"), [(3, "sarama", "sarama 1.31.0"), (2, "sarama", None), (4, "x" * 9_000, "x" * 200)]
)
async def test_a_request_to_join_has_the_software_of_its_client(version: int, name: str, software: str | None) -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    heard: list[dict[str, Any]] = []

    def hear(events: list[dict[str, Any]], now: float) -> None:
        heard.extend(event for event in events if event["event"] == "exchange")

    wire.cluster.events.listen(hear, requests=False)
    wire.receive(request(ApiVersionsRequest(name, "1.31.0"), version))
    wire.receive(
        request(JoinGroupRequest("g", 6_000, 6_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]), 4)
    )
    consumer = ConsumerGroupHeartbeatRequest("h", "m", 0, None, None, 6_000, ["orders"], None, None, [])
    wire.receive(request(consumer, 1))
    wire.receive(request(HeartbeatRequest("g", 1, "nobody"), 0))
    assert [each["api"] for each in heard] == ["JoinGroup", "ConsumerGroupHeartbeat", "Heartbeat"]
    assert [each.get("software") for each in heard] == [software, software, None]


def test_the_log_names_the_test_that_ended_a_session(caplog: pytest.LogCaptureFixture) -> None:
    with CoordinatorServer(topics={"orders": 1}) as server:
        server.puppet("billing", ["orders"], client_id="one")
        (member,) = server.group("billing").stable(members=1).members
        server.expire("billing", "one")
        with caplog.at_level(logging.INFO, "kafka_shim.groups"):
            GroupLog().hear(server.events("billing"), 0.0)
    lines = [record.getMessage() for record in caplog.records]
    at = lines.index(f"group billing: a test ends the session of member {member.member_id}")
    assert lines[at + 1] == f"group billing: member {member.member_id} is expelled, its session is over"
    assert lines[at - 1].startswith("group billing: generation 1 has 1 members after ")
