"""Faults and barriers: their effects on requests, and their conditions."""

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from kafka_shim.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
    TopologyDescription,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.server.exchange import Exchange
from kafka_shim.testing import CoordinatorServer, NotReached, UnfiredFaults, Unmatchable
from tests.server.wire import Client, request
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 4}) as server:
        yield server


def exchanges(server: CoordinatorServer, api: str) -> list[dict[str, Any]]:
    return [event for event in server.events() if event["event"] == "exchange" and event["api"] == api]


def commits(server: CoordinatorServer) -> list[tuple[int, int]]:
    return [
        (event["error"], each["offset"])
        for event in server.events()
        if event["event"] == "commit"
        for each in event["offsets"] or [{"offset": -1}]
    ]


def test_an_error_is_answered_without_the_rule(server: CoordinatorServer) -> None:
    fault = server.fault("error", "OffsetCommit", error="NOT_COORDINATOR", group="billing", times=2)
    puppet = server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    for offset in (1, 2, 3):
        puppet.commit({("orders", 0): offset})
    assert server.group("billing").committed("orders", 0) == 3
    assert fault.fired == 2
    assert commits(server) == [(0, 3)]
    assert puppet.errors == [("OffsetCommit", ErrorCode.NOT_COORDINATOR)] * 2


def test_an_error_after_the_rule_hides_its_effect(server: CoordinatorServer) -> None:
    server.fault("error", "OffsetCommit", error=7, applied=True)
    puppet = server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    puppet.commit({("orders", 0): 5})
    assert server.group("billing").committed("orders", 0) == 5
    server.group("billing").no_rebalance_for(heartbeats=1)
    assert puppet.errors == [("OffsetCommit", ErrorCode.REQUEST_TIMED_OUT)]


def test_a_fault_fires_only_the_nth_time(server: CoordinatorServer) -> None:
    fault = server.fault("error", "Heartbeat", error=27, nth=3)
    server.puppet("billing", ["orders"], heartbeat_interval=0.01)
    server.group("billing").stable(members=1)
    server.group("billing").next("exchange", api="Heartbeat", error=27)
    assert fault.fired == 1
    assert [event["error"] for event in exchanges(server, "Heartbeat")[:3]] == [0, 0, 27]
    # Its generation is unharmed: it joins again and is told so.
    assert server.group("billing").stable(members=1).generation in (1, 2)


def test_probability_uses_the_seed(server: CoordinatorServer) -> None:
    errors = []
    for group, seed in (("a", 3), ("b", 3), ("c", 4)):
        fault = server.fault("error", "OffsetCommit", error=16, times=None, probability=0.5, seed=seed, group=group)
        puppet = server.puppet(group, ["orders"])
        server.group(group).stable(members=1)
        before = len(puppet.errors)
        for offset in range(12):
            puppet.commit({("orders", 0): offset})
        server.group(group).no_rebalance_for(heartbeats=1)
        errors.append(len(puppet.errors) - before)
        assert fault.fired == errors[-1]
    assert errors[0] == errors[1]
    assert 0 < errors[0] < 12


def test_a_dropped_request_is_never_seen(server: CoordinatorServer) -> None:
    server.fault("drop", "OffsetCommit")
    puppet = server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    puppet.commit({("orders", 0): 5})
    with pytest.raises(NotReached):
        server.group("billing").committed("orders", 0, timeout=0.05)
    assert commits(server) == []


def test_a_plugin_of_topology_descriptions_fails_by_a_fault(server: CoordinatorServer) -> None:
    """Our plugin never fails, as Kafka's own; a client meets its two errors by faults alone."""
    api = "StreamsGroupTopologyDescriptionUpdate"
    server.fault("error", api, error="STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED")
    server.fault("error", "DeleteGroups", error="GROUP_DELETION_FAILED")
    server.seed_offsets("words", {("orders", 0): 1})
    update = StreamsGroupTopologyDescriptionUpdateRequest("words", "member", 0, TopologyDescription([], []))
    with Client(server.bootstrap) as client:
        answer = client.ask(update, 0, StreamsGroupTopologyDescriptionUpdateResponse)
        assert answer.error_code == ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED == 135
        (result,) = client.ask(DeleteGroupsRequest(["words"]), 3, DeleteGroupsResponse).results
        assert result.error_code == ErrorCode.GROUP_DELETION_FAILED == 134
    assert server.group("words").committed("orders", 0) == 1


@pytest.mark.parametrize("action", ["drop", "swallow"])
def test_after_a_request_without_an_answer_the_next_one_is_served(server: CoordinatorServer, action: str) -> None:
    server.fault(action, "Heartbeat")
    client = Client(server.bootstrap)
    client.socket.sendall(request(HeartbeatRequest("billing", 1, "somebody"), 0))
    assert client.ask(FindCoordinatorRequest("billing"), 0, FindCoordinatorResponse).node_id == 1


def test_a_swallowed_answer_was_applied(server: CoordinatorServer) -> None:
    fault = server.fault("swallow", "OffsetCommit")
    puppet = server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    puppet.commit({("orders", 0): 5})
    assert server.group("billing").committed("orders", 0) == 5
    fault.wait_fired()


@pytest.mark.parametrize(("when", "applied"), [("before", False), ("applied", True), ("answered", True)])
def test_a_connection_is_closed(server: CoordinatorServer, when: str, applied: bool) -> None:
    fault = server.fault("close", "OffsetCommit", when=when)
    puppet = server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    puppet.commit({("orders", 0): 5})
    fault.wait_fired()
    server.group("billing").no_rebalance_for(heartbeats=1)
    connections = {event["conn"] for event in exchanges(server, "Heartbeat") + exchanges(server, "JoinGroup")}
    assert len(connections) == 2
    assert commits(server) == ([(0, 5)] if applied else [])


def test_a_duplicate_is_applied_twice_and_answered_once(server: CoordinatorServer) -> None:
    server.fault("duplicate", "OffsetCommit")
    puppet = server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    puppet.commit({("orders", 0): 5})
    server.group("billing").no_rebalance_for(heartbeats=2)
    assert commits(server) == [(0, 5), (0, 5)]
    assert puppet.errors == []


def test_a_half_open_connection_answers_nothing_more(server: CoordinatorServer) -> None:
    server.fault("half-open", "Heartbeat", client_id="deaf")
    server.puppet("billing", ["orders"], client_id="deaf", session_timeout=0.5)
    server.puppet("billing", ["orders"], client_id="well")
    assert server.group("billing").next("member", change="expired")["client_id"] == "deaf"
    server.group("billing").stable(members=["well"])


def test_a_delay_holds_the_request_back(server: CoordinatorServer) -> None:
    server.fault("delay", "SyncGroup", seconds=0.05, role="leader")
    server.puppet("billing", ["orders"])
    assert server.group("billing").next("assignment")["leader_ms"] >= 50
    server.group("billing").stable(members=1)


def test_a_delayed_answer_was_applied_before(server: CoordinatorServer) -> None:
    server.fault("delay", "SyncGroup", seconds=0.05, applied=True)
    server.puppet("billing", ["orders"])
    assert server.group("billing").next("assignment")["leader_ms"] < 50
    server.group("billing").stable(members=1)


@pytest.mark.parametrize(
    "fault", [{"action": "delay", "seconds": 0.01, "applied": True}, {"action": "slow", "bytes_per_second": 100}]
)
def test_a_delayed_act_that_raises_leaves_the_server_running(
    server: CoordinatorServer, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any]
) -> None:
    def spoilt(*arguments: object) -> NoReturn:
        raise RuntimeError("a mistake of ours")

    server.fault(api="DeleteGroups", **fault)
    failures = server.server.cluster.failures
    with Client(server.bootstrap) as unlucky, Client(server.bootstrap) as other, monkeypatch.context() as patch:
        patch.setattr(Exchange, "deliver", spoilt)
        unlucky.socket.sendall(request(DeleteGroupsRequest(["g"]), 0))
        until(lambda: server.call(lambda: failures.by_border) == {"laboratory": 1})
        assert other.ask(FindCoordinatorRequest("g"), 0, FindCoordinatorResponse).error_code == 0


def test_a_puppet_waits_for_the_whole_of_a_slow_answer(server: CoordinatorServer) -> None:
    slow = server.fault("slow", "JoinGroup", bytes_per_second=500, group="billing")
    server.puppet("billing", ["orders"])
    group = server.group("billing").stable(members=1)
    assert group.members[0].owned == {"orders": [0, 1, 2, 3]}
    assert slow.fired == 1


def test_a_slow_answer_comes_whole_in_the_end(server: CoordinatorServer) -> None:
    from kafka import KafkaConsumer

    server.fault("slow", "Metadata", bytes_per_second=2000, times=1)
    consumer = KafkaConsumer(bootstrap_servers=server.bootstrap)
    assert consumer.topics() == {"orders"}
    consumer.close()


def test_a_barrier_holds_requests_until_its_release(server: CoordinatorServer) -> None:
    with server.barrier("leader-sync-arrived", group="billing") as barrier:
        server.puppet("billing", ["orders"], client_id="one")
        barrier.reached()
        assert server.group("billing").now.state == "CompletingRebalance"
        assert barrier.held[0].startswith("one-")
        barrier.release()
        server.group("billing").stable(members=1)


def test_a_barrier_holds_answers_of_a_round_that_is_over(server: CoordinatorServer) -> None:
    with server.barrier("join-complete", group="billing") as barrier:
        puppet = server.puppet("billing", ["orders"])
        barrier.reached()
        assert server.group("billing").now.generation == 1
        assert puppet.generation == -1
    server.group("billing").stable(members=1)


def test_a_barrier_releases_requests_one_by_one(server: CoordinatorServer) -> None:
    with server.barrier("sync-arrived") as barrier:
        for name in ("a", "b"):
            server.puppet(name, ["orders"], client_id=name)
        barrier.reached(2)
        assert barrier.release(1) == 1
        assert len(barrier.held) == 1


def test_faults_ask_for_state_generation_instance_and_broker(server: CoordinatorServer) -> None:
    hits = server.fault(
        "error", "Heartbeat", error=27, state="Stable", generation=1, instance="static-1", broker=1, member="static-*"
    )
    misses = server.fault("error", "Heartbeat", error=25, broker=2, times=None, optional=True)
    server.puppet("billing", ["orders"], instance_id="static-1", heartbeat_interval=0.01)
    server.group("billing").stable(members=["static-1"])
    hits.wait_fired()
    assert hits.firings[0].group == "billing"
    assert misses.fired == 0


def test_a_function_of_the_test_chooses_the_requests(server: CoordinatorServer) -> None:
    def of_the_third(request: Any) -> bool:
        return bool(request.topics[0].partitions[0].partition_index == 2)

    fault = server.fault("error", "OffsetCommit", error="NOT_COORDINATOR", where=of_the_third, times=None)
    puppet = server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    for partition in range(4):
        puppet.commit({("orders", partition): 1})
    assert fault.fired == 1
    assert puppet.errors == [("OffsetCommit", ErrorCode.NOT_COORDINATOR)]


def test_an_error_of_an_evicted_member_may_come_after_the_rule(server: CoordinatorServer) -> None:
    puppet = server.puppet("billing", ["orders"])
    member = server.group("billing").stable(members=1).members[0].member_id
    server.clock.freeze()
    fault = server.fault("error", "OffsetCommit", error="UNKNOWN_MEMBER_ID", applied=True)
    puppet.commit({("orders", 0): 5})
    assert fault.fired == 1
    assert server.group("billing").committed("orders", 0) == 5
    assert [each.member_id for each in server.group("billing").now.members] == [member]


def test_a_fault_that_was_cleared_happens_no_more(server: CoordinatorServer) -> None:
    fault = server.fault("error", "OffsetCommit", error=16, times=None)
    puppet = server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    puppet.commit({("orders", 0): 1})
    fault.wait_fired()
    fault.clear()
    puppet.commit({("orders", 0): 2})
    assert server.group("billing").committed("orders", 0) == 2


def test_a_fault_lasts_as_long_as_its_block(server: CoordinatorServer) -> None:
    puppet = server.puppet("billing", ["orders"])
    server.group("billing").stable(members=1)
    with server.fault("error", "OffsetCommit", error=16, times=None) as fault:
        puppet.commit({("orders", 0): 1})
        fault.wait_fired()
    puppet.commit({("orders", 0): 2})
    assert server.group("billing").committed("orders", 0) == 2


def test_a_fault_that_never_happened_in_its_block_is_reported() -> None:
    with (
        pytest.raises(UnfiredFaults, match="drop for api=LeaveGroup"),
        CoordinatorServer(topics={"orders": 1}) as server,
        server.fault("drop", "LeaveGroup"),
    ):
        pass


def test_a_client_is_disconnected_and_comes_back(server: CoordinatorServer) -> None:
    for name in ("billing-1", "billing-2", "other"):
        server.puppet("billing", ["orders"], client_id=name)
    before = server.group("billing").stable(members=3)
    assert server.disconnect("nobody") == 0
    assert server.disconnect("billing-*") == 2
    for name in ("billing-1", "billing-2"):
        server.group("billing").next("exchange", api="Heartbeat", client_id=name, error=0)
    connections = {event["client_id"]: event["conn"] for event in exchanges(server, "JoinGroup")}
    now = {event["client_id"]: event["conn"] for event in exchanges(server, "Heartbeat")}
    assert {name for name in now if now[name] != connections[name]} == {"billing-1", "billing-2"}
    assert server.group("billing").now == before


def test_a_node_without_faults_has_no_interceptor(server: CoordinatorServer) -> None:
    nodes = server.server.cluster.nodes.values()
    assert all(node.interceptor is None for node in nodes)
    fault = server.fault("drop", "Heartbeat", optional=True)
    assert all(node.interceptor is not None for node in nodes)
    fault.clear()
    assert all(node.interceptor is None for node in nodes)


def test_unfired_faults_are_reported() -> None:
    with (
        pytest.raises(UnfiredFaults, match="drop for api=SyncGroup group=billing"),
        CoordinatorServer(faults=[{"action": "drop", "api": "SyncGroup", "group": "billing"}]),
    ):
        pass


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"action": "explode"}, "is not an action"),
        ({"action": "drop", "api": "Join"}, "is not an API; did you mean 'JoinGroup'"),
        ({"action": "drop", "topic": "orders"}, "^A fault has no topic; there are action, "),
        ({"action": "drop", "tims": 2}, "^A fault has no tims; did you mean 'times'"),
        ({"action": "error", "api": "JoinGroup"}, "needs an error, such as error="),
        ({"action": "error", "error": "NOT_COORDINATER"}, "of Kafka's protocol; did you mean 'NOT_COORDINATOR'"),
        ({"action": "close", "when": "later"}, "before, applied or answered"),
        ({"action": "drop", "times": 0}, "times must be a number of at least 1"),
        ({"action": "drop", "generation": "2"}, "generation must be a whole number"),
        ({"action": "drop", "colour": "red"}, "A fault has no colour; there are action"),
        ({"action": "delay", "seconds": 1e9}, "at most a day"),
    ],
)
def test_an_impossible_fault_is_refused_in_one_sentence(
    server: CoordinatorServer, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(Unmatchable, match=message):
        server.fault(**fields)
