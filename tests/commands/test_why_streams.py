"""A streams group in the list of groups, its description, its metrics, and the answer of `why`."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from click.testing import CliRunner

from kafka_shim.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)
from kafka_shim.commands.why import why
from kafka_shim.testing.coordinator import Coordinator
from tests.server.wire import Client

AT_ONCE = {"group.streams.initial.rebalance.delay.ms": "0"}


def test_why_explains_a_streams_group() -> None:
    coordinator = Coordinator(topics={"t": 4}, config=AT_ONCE, control=True)
    coordinator.start()
    try:
        with Client(coordinator.bootstrap) as client:

            def beat(member_id: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
                request = StreamsGroupHeartbeatRequest("app", member_id, epoch, 0, **fields)
                answer: StreamsGroupHeartbeatResponse = client.ask(request, 0, StreamsGroupHeartbeatResponse)
                assert answer.error_code == 0
                return answer

            joins: dict[str, Any] = {
                "rebalance_timeout_ms": 30_000,
                "topology": Topology(0, [Subtopology("0", ["t"])]),
                "active_tasks": [],
                "standby_tasks": [],
                "warmup_tasks": [],
            }
            beat("a", 0, process_id="a", **joins)
            beat("b", 0, process_id="b", **joins)
            beat("a", 2)
            control = coordinator.control_url

            def get(path: str) -> str:
                with urllib.request.urlopen(control + path) as answer:
                    text: str = answer.read().decode()
                    return text

            (listed,) = json.loads(get("/v1/groups"))["groups"]
            assert (listed["group"], listed["type"], listed["state"]) == ("app", "streams", "Reconciling")
            members = {each["member_id"]: each for each in json.loads(get("/v1/groups/app"))["members"]}
            assert members["a"]["assignment"] == {"0": [0, 1]}
            assert members["b"]["subscription"]["topics"] == ["t"]
            assert "streams" in get("/metrics")
            result = CliRunner().invoke(why, ["app", "--control", control.removeprefix("http://")])
            assert result.exit_code == 0, result.output
            assert "app  streams, sticky, 2 members" in result.output
            assert "waits for a, which must give up 2 partitions" in result.output
    finally:
        coordinator.stop()
