"""Who hears of which trace events."""

from typing import Any

from kafka_shim.apis.heartbeat import HeartbeatRequest
from tests.server.test_trace_file import live
from tests.server.wire import Wire, cluster, request

OF_REQUESTS = {"exchange", "parked", "timer", "commit"}


async def test_who_does_not_want_requests_hears_of_groups_and_members_alone() -> None:
    wire = Wire(cluster(topics={"orders": 1}))
    heard: list[dict[str, Any]] = []

    def hear(events: list[dict[str, Any]], now: float) -> None:
        heard.extend(events)

    wire.cluster.events.listen(hear, requests=False)
    live(wire)
    kinds = {event["event"] for event in heard}
    assert {"group", "member", "state", "round", "assignment"} <= kinds
    assert not kinds & OF_REQUESTS
    wire.cluster.events.unlisten(hear)
    assert not wire.cluster.outbox.listening


async def test_requests_are_heard_while_anybody_wants_them() -> None:
    wire = Wire(cluster())
    heard: list[str] = []

    def hear(events: list[dict[str, Any]], now: float) -> None:
        heard.extend(event["event"] for event in events)

    def hear_all(events: list[dict[str, Any]], now: float) -> None:
        pass

    wire.cluster.events.listen(hear, requests=False)
    wire.cluster.events.listen(hear_all)
    wire.receive(request(HeartbeatRequest("g", 1, "m"), 0))
    assert heard == ["exchange"]
    wire.cluster.events.unlisten(hear_all)
    wire.receive(request(HeartbeatRequest("g", 1, "m"), 0))
    assert heard == ["exchange"]
    assert len(wire.answers()) == 2
