"""A group's own setting after a restart of the broker with narrower bounds, of ours and of a running Kafka.

No case of the suite can show it: its cells share a broker that runs.
"""

import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kafka_shim.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_shim.apis.wire import Message
from kafka_shim.conformance import processes
from kafka_shim.conformance.targets.base import READY_SECONDS, TargetError, wait_until_listening
from kafka_shim.conformance.targets.kafka import KafkaTarget
from kafka_shim.testing import CoordinatorServer
from tests.server.wire import Client
from tests.waiting import until

Ask = Callable[[Message, int, type[Any]], Any]

NAME = "consumer.heartbeat.interval.ms"
STORED, MOST = "9000", "6000"
"""The value of the group, and the broker's upper bound after the restart."""


def store_it(ask: Ask) -> None:
    config = AlterConfigsResource(32, "g", [AlterableConfig(NAME, 0, STORED)])
    answer = ask(IncrementalAlterConfigsRequest([config]), 1, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == 0


def described(ask: Ask) -> str | None:
    resource = DescribeConfigsResource(32, "g", [NAME])
    (config,) = ask(DescribeConfigsRequest([resource]), 4, DescribeConfigsResponse).results[0].configs
    value: str | None = config.value
    return value


def interval(ask: Ask) -> int:
    """Return the time between two heartbeats that a new member is told; 0 while the coordinator is not there.

    The search for the coordinator lets Kafka create its topic.
    """
    ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse)
    heartbeat = ConsumerGroupHeartbeatRequest("g", str(uuid.uuid4()), 0, rebalance_timeout_ms=30_000)
    heartbeat.subscribed_topic_names, heartbeat.topic_partitions = ["t"], []
    told: int = ask(heartbeat, 1, ConsumerGroupHeartbeatResponse).heartbeat_interval_ms
    return told


@pytest.mark.parametrize(("release", "expected"), [("4.2", STORED), ("4.3", MOST), ("4.4", MOST)])
def test_ours_uses_the_nearest_bound_and_describes_what_is_stored(tmp_path: Path, release: str, expected: str) -> None:
    def ours(**config: str) -> CoordinatorServer:
        return CoordinatorServer(topics={"t": 1}, store=f"sqlite:{tmp_path / 'db'}", release=release, config=config)

    with ours() as server, Client(server.bootstrap) as client:
        store_it(client.ask)
    with ours(**{"group.consumer.max.heartbeat.interval.ms": MOST}) as server, Client(server.bootstrap) as client:
        assert (described(client.ask), interval(client.ask)) == (STORED, int(expected))


@pytest.mark.second_stage("a real Kafka")
@pytest.mark.parametrize(("release", "expected"), [("4.2", STORED), ("4.4", MOST)])
def test_kafka_uses_the_nearest_bound_and_describes_what_is_stored(release: str, expected: str) -> None:
    target = KafkaTarget(release)
    try:
        try:
            instance = target.start("default")
        except TargetError as error:
            pytest.skip(str(error))
        (endpoint,) = instance.endpoints
        assert instance.process is not None
        with Client(str(endpoint)) as client:
            until(lambda: interval(client.ask))
            store_it(client.ask)
            until(lambda: described(client.ask) == STORED)
        processes.terminate(instance.process)
        processes.end(instance.process)
        command = instance.process.args
        assert isinstance(command, list)
        with open(command[-1], "a") as properties:
            properties.write(f"group.consumer.max.heartbeat.interval.ms={MOST}\n")
        again = target._children.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until_listening(endpoint, again, READY_SECONDS)
        with Client(str(endpoint)) as client:
            until(lambda: interval(client.ask))
            assert (described(client.ask), interval(client.ask)) == (STORED, int(expected))
    finally:
        target.stop()
