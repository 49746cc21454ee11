"""Clients that die, are cut off or come back too late, settings without an administrator, and whole scenarios."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafka_shim.lab.replaying import play
from kafka_shim.testing import AsyncCoordinator, CoordinatorServer, NotReached, polling
from kafka_shim.testing.scenarios import (
    coordinator_moves_mid_commit,
    network_partition,
    rolling_restart,
    slow_member,
    zombie,
)
from kafka_shim.trace.history import History
from kafka_shim.trace.reading import read
from kafka_shim.why.explanation import as_json, explain
from kafka_shim.why.narration import Narrator
from kafka_shim.why.text import lines
from tests.server.wire import Client, request
from tests.waiting import PATIENCE_S

ALL = {"orders": range(4)}


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 4}, brokers=2) as server:
        yield server


@pytest.fixture
def consumer_of(server: CoordinatorServer) -> Iterator[Callable[..., KafkaConsumer]]:
    made: list[KafkaConsumer] = []

    def make(client_id: str = "real", **options: Any) -> KafkaConsumer:
        options = {"enable_auto_commit": False, "auto_offset_reset": "earliest"} | options
        made.append(
            KafkaConsumer(
                "orders",
                bootstrap_servers=server.bootstrap,
                group_id="billing",
                client_id=client_id,
                heartbeat_interval_ms=50,
                **options,
            )
        )
        return made[-1]

    yield make
    for consumer in made:
        consumer.close(timeout_ms=500)


def apis_after(server: CoordinatorServer, seen: int, client_id: str) -> set[str]:
    events = [event for number, _, event in server.call(lambda: list(server.kit.history.since(seen)))]
    return {each["api"] for each in events if each["event"] == "exchange" and each["client_id"] == client_id}


def test_a_killed_consumer_is_replaced_and_leaves_no_request(
    server: CoordinatorServer, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    group = server.group("billing")
    with polling(consumer_of("doomed"), consumer_of("heir")):
        group.stable(members=["doomed", "heir"])
        server.kill("doomed")
        seen = server.call(lambda: server.kit.history.seen)
        assert {each.client_id for each in group.now.members} == {"doomed", "heir"}, "it left the group"
        server.expire("billing", "doomed")
        group.stable(owners={"heir": ALL})
    assert not apis_after(server, seen, "doomed")


def test_a_killed_consumer_comes_back_after_the_block(
    server: CoordinatorServer, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    with polling(consumer_of()):
        server.group("billing").stable(members=["real"])
        with server.kill("real"):
            server.expire("billing", "real")
            server.group("billing").empty()
        server.group("billing").stable(owners={"real": ALL})


def test_a_client_that_is_revived_loses_the_connection_with_a_lost_request(server: CoordinatorServer) -> None:
    client = Client(server.bootstrap.partition(",")[0])
    ask = partial(client.ask, FindCoordinatorRequest("billing"), 0, FindCoordinatorResponse)
    ask()
    server.kill("test").clear()
    ask()  # nothing was lost, so the connection is as it was
    killed = server.call(server.kit.kill, "test")
    client.socket.sendall(request(FindCoordinatorRequest("billing"), 0))
    assert server.wait(server.kit.conditions.until, lambda: bool(killed.connections), PATIENCE_S)
    server.call(killed.clear)
    assert client.is_closed_by_server()


@pytest.mark.parametrize(
    "leave",
    [
        ConsumerGroupHeartbeatRequest("billing", "M", -1),
        ShareGroupHeartbeatRequest("billing", "M", -1),
        StreamsGroupHeartbeatRequest("billing", "M", -1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_killed_client_that_leaves_is_cut_off(server: CoordinatorServer, leave: Any) -> None:
    client = Client(server.bootstrap.partition(",")[0])
    client.ask(FindCoordinatorRequest("billing"), 0, FindCoordinatorResponse)
    server.kill("test")
    client.socket.sendall(request(leave, 1 if isinstance(leave, ShareGroupHeartbeatRequest) else 0))
    assert client.is_closed_by_server()


def test_kill_suggests_the_client_that_was_meant(
    server: CoordinatorServer, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    with polling(consumer_of()):
        server.group("billing").stable(members=1)
        with pytest.raises(ValueError, match=r"No client 'rael' is connected; did you mean 'real'\?"):
            server.kill("rael")
        with pytest.raises(ValueError, match="No session of 'rael' runs"):
            server.expire("billing", "rael")


def test_a_fault_for_two_seconds_ends_by_the_clock(server: CoordinatorServer) -> None:
    server.clock.freeze()
    fault = server.fault("error", "Heartbeat", error="COORDINATOR_LOAD_IN_PROGRESS", for_s=2)
    puppet = server.puppet("billing", ["orders"])
    server.clock.advance(0.5)
    assert fault.fired
    server.clock.advance(1.5)
    seen = fault.fired
    assert seen > 1
    server.clock.advance(5)
    assert seen <= fault.fired <= seen + 1
    assert puppet.errors


def test_a_fault_for_two_seconds_may_begin_with_the_second_match(server: CoordinatorServer) -> None:
    server.clock.freeze()
    fault = server.fault("error", "Heartbeat", error="COORDINATOR_LOAD_IN_PROGRESS", for_s=2, nth=2)
    server.puppet("billing", ["orders"])
    server.clock.advance(0.5)
    assert fault.fired > 1
    firings = [each.at for each in fault.firings]
    assert max(firings) - min(firings) < 2


def test_settings_change_without_an_administrator(server: CoordinatorServer) -> None:
    server.set_config({"max.message.bytes": 100}, topic="orders")
    with pytest.raises(ValueError, match="cannot be appended"):
        server.produce("orders", "x" * 200)
    server.set_config({"max.message.bytes": None}, topic="orders")
    server.produce("orders", "x" * 200)
    server.set_config({"consumer.heartbeat.interval.ms": 7000}, group="billing")
    server.clock.freeze()
    server.consumer_puppet("billing", ["orders"])
    server.clock.advance(20)
    beats = [e for e in server.events("billing") if e["event"] == "exchange" and e["api"] == "ConsumerGroupHeartbeat"]
    assert 2 <= len(beats) <= 4
    server.set_config({"message.max.bytes": 120})
    server.create_topic("small")
    with pytest.raises(ValueError, match="cannot be appended"):
        server.produce("small", "x" * 200)


@pytest.mark.parametrize(
    ("config", "where", "said"),
    [
        ({"max.mesage.bytes": 1}, {"topic": "orders"}, "max.mesage.bytes"),
        ({"max.message.bytes": "many"}, {"topic": "orders"}, "INVALID_CONFIG"),
        ({}, {"topic": "ordes"}, "There is no topic 'ordes'"),
        ({}, {"topic": "orders", "broker": 1}, "takes one of"),
        ({}, {"broker": 17}, "17"),
    ],
)
def test_set_config_refuses_as_kafka_does(
    server: CoordinatorServer, config: dict[str, Any], where: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        server.set_config(config, **where)


def test_a_rolling_restart_ends_with_all_members(
    server: CoordinatorServer, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    with polling(consumer_of()):
        server.group("billing").stable(members=["real"])
        server.play(rolling_restart, "billing", ["orders"], members=2)
        names = {each.client_id for each in server.group("billing").now.members}
    assert names == {"real", "restarted-1", "restarted-2"}
    left = [event["client_id"] for event in server.events("billing") if event.get("change") == "left"]
    assert left == ["restarted-1", "restarted-2"]


def test_a_member_of_the_test_may_join_during_a_rolling_restart(server: CoordinatorServer) -> None:
    with server.playing(rolling_restart, "billing", ["orders"], members=2):
        server.group("billing").next("member", change="added", client_id="restarted-1")
        server.puppet("billing", ["orders"], client_id="late")
    names = {each.client_id for each in server.group("billing").now.members}
    assert names == {"late", "restarted-1", "restarted-2"}


def test_all_wait_for_a_slow_member(server: CoordinatorServer) -> None:
    server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    began = server.call(server.kit.clock)
    server.play(slow_member, "billing", ["orders"], 20)
    assert server.call(server.kit.clock) - began >= 20
    assert len(server.group("billing").now.members) == 3


def test_a_zombie_is_fenced_when_it_returns(
    server: CoordinatorServer, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    server.produce("orders", "a", "b", partition=0)
    real = consumer_of()
    with polling(real) as polled:
        polled.wait_records(2)
        heir = server.puppet("billing", ["orders"], client_id="heir")
        server.group("billing").stable(members=["real", "heir"])
        old = server.group("billing").now.called("real")[0].member_id
        server.play(zombie, "billing", "real")
        server.group("billing").stable(members=["real", "heir"])
        assert server.group("billing").now.called("real")[0].member_id != old
    assert heir.owned


def test_a_commit_meets_a_coordinator_that_moves(
    server: CoordinatorServer, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    server.produce("orders", "a", partition=0)
    before = server.call(server.kit.coordinator_of, "billing")
    with polling(consumer := consumer_of()) as polled:
        polled.wait_records(1)
        with server.playing(coordinator_moves_mid_commit, "billing"):
            polled.call(consumer.commit)
    server.group("billing").committed("orders", 0, at_least=1)
    assert server.coordinator_of("billing") != before


def test_a_scenario_that_nothing_meets_fails(server: CoordinatorServer) -> None:
    with pytest.raises(NotReached), server.playing(coordinator_moves_mid_commit, "billing", timeout=0.05):
        pass
    with pytest.raises(ZeroDivisionError), server.playing(coordinator_moves_mid_commit, "billing"):
        raise ZeroDivisionError
    with CoordinatorServer() as alone, pytest.raises(ValueError, match="brokers=2"):
        alone.play(coordinator_moves_mid_commit, "billing")


def test_a_partition_of_the_network_expires_nobody_else(server: CoordinatorServer) -> None:
    server.puppet("billing", ["orders"], client_id="here", session_timeout=10)
    server.puppet("billing", ["orders"], client_id="away", session_timeout=10)
    server.group("billing").stable(members=["here", "away"])
    server.play(network_partition, "away", 30)
    expired = [event["client_id"] for event in server.events("billing") if event.get("change") == "expired"]
    assert expired == ["away"]


def test_a_scenario_is_awaited_on_an_event_loop() -> None:
    async def run() -> int:
        async with AsyncCoordinator(topics={"orders": 4}) as server:
            await server.play(rolling_restart, "billing", ["orders"], members=1)
            return len(server.group("billing").now.members)

    assert asyncio.run(run()) == 1


def why(server: CoordinatorServer, group: str, path: Path) -> tuple[dict[str, Any], str]:
    """Return the explanation of a group and its story, both from the trace."""
    server.write_trace(path)
    history, narrator, story = History(), Narrator(), []
    for event in read([path]):
        history.add(event)
        story += [line.text for line in narrator.lines(event)]
    explanation = explain(history.groups[group], list(history.groups[group].rebalances), play)
    assert explanation is not None
    return as_json(explanation) | {"text": " ".join(lines(explanation))}, "\n".join(story)


@pytest.mark.parametrize("start", ["puppet", "consumer_puppet"])
def test_the_end_of_a_session_by_a_test_is_said_and_gets_no_advice(
    server: CoordinatorServer, tmp_path: Path, start: str
) -> None:
    for client_id in ("one", "two"):
        getattr(server, start)("billing", ["orders"], client_id=client_id)
    server.group("billing").stable(members=2)
    # The puppet lives, and joins again.
    server.expire("billing", "one")
    server.clock.advance(20)
    server.group("billing").stable(members=2)
    answer, story = why(server, "billing", tmp_path / "trace.jsonl")
    assert "a test ended the session of one" in answer["verdict"]
    ended = [each["reason"] for each in answer["rebalances"] if each["cause"] == "SESSION_EXPIRED"]
    assert ended == ["a test ended the session of one (127.0.0.1)"]
    assert (answer["remedies"], answer["calm"]) == ([], True)
    assert "What to do: nothing" in answer["text"]
    assert "a test ends the session of one\none is expelled: a test ended its session\n" in story
    assert "within its session timeout" not in story


def test_a_killed_client_is_in_the_story_and_a_later_session_is_its_own(
    server: CoordinatorServer, tmp_path: Path
) -> None:
    for client_id in ("one", "two"):
        server.puppet("billing", ["orders"], client_id=client_id)
    server.group("billing").stable(members=2)
    server.kill("one")
    server.clock.advance(50)
    server.group("billing").stable(members=1)
    answer, story = why(server, "billing", tmp_path / "trace.jsonl")
    assert "a test kills one\n" in story
    # It ran out in the time of the coordinator.
    assert "one died" in answer["verdict"]
