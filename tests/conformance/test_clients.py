"""The client cases themselves: the relay, and one case with the client that is always there."""

import time
from collections.abc import Iterator

import pytest

from apis.find_coordinator import FindCoordinatorRequest
from apis.heartbeat import HeartbeatRequest
from apis.metadata import MetadataRequest
from conformance.case import Verdict
from conformance.clients.case import all_client_cases, select_clients
from conformance.clients.command import expected_failures
from conformance.clients.crew import CLIENTS, OTHER_LANGUAGES
from conformance.clients.relay import Relay
from conformance.clients.runner import abilities, run_one
from conformance.targets import Instance, open_target
from conformance.wire import Closed, Connection, Tape


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    target = open_target("shim")
    try:
        yield target.start("default")
    finally:
        target.stop()


@pytest.fixture
def relay(instance: Instance) -> Iterator[Relay]:
    with Relay(instance.host, instance.port) as made:
        yield made


def connected(relay: Relay, broker: int = 1) -> Connection:
    deadline = time.monotonic() + 20
    return Connection(
        "127.0.0.1", relay.ports[broker], patience=10, deadline=deadline, tape=Tape(), label="c", client_id="tester"
    )


HEARTBEAT = HeartbeatRequest("relayed", 1, "nobody")


def test_clients_are_told_the_relays_addresses(relay: Relay) -> None:
    connection = connected(relay)
    brokers = connection.call(MetadataRequest([]), 9).brokers
    assert {broker.node_id: broker.port for broker in brokers} == relay.ports
    assert connection.call(FindCoordinatorRequest("relayed"), 3).port == relay.ports[1]


def test_what_no_plan_is_for_passes(relay: Relay) -> None:
    assert connected(relay).call(HEARTBEAT, 4).error_code == 25
    (seen,) = relay.seen("Heartbeat", "tester")
    assert (seen.error, seen.by_plan, seen.request.group_id) == (25, False, "relayed")


def test_an_error_is_answered_as_often_as_planned(relay: Relay) -> None:
    plan = relay.plan("Heartbeat", "error", 27, times=2)
    connection = connected(relay)
    assert [connection.call(HEARTBEAT, 4).error_code for _ in range(3)] == [27, 27, 25]
    assert len(plan.fired) == 2


@pytest.mark.parametrize("action", ["hold", "withhold"])
def test_what_is_held_holds_what_is_behind_it(relay: Relay, action: str) -> None:
    plan = relay.plan("Heartbeat", action)
    connection = connected(relay)
    connection.send(HEARTBEAT, 4)
    connection.send(FindCoordinatorRequest("relayed"), 3)
    assert relay.wait(lambda: relay.seen("FindCoordinator"), 5)
    assert not connection.answers_within(0.05)
    relay.release(plan)
    assert connection.receive().error_code == 25
    assert connection.receive().port == relay.ports[1]


def test_what_is_held_can_be_let_go_with_another_answer(relay: Relay) -> None:
    plan = relay.plan("Heartbeat", "hold")
    connection = connected(relay)
    connection.send(HEARTBEAT, 4)
    assert relay.wait(lambda: plan.fired, 5)
    relay.release(plan, 22)
    assert connection.receive().error_code == 22


def test_a_connection_is_closed_in_place_of_an_answer(relay: Relay) -> None:
    relay.plan("Heartbeat", "close")
    with pytest.raises(Closed):
        connected(relay).call(HEARTBEAT, 4)


def test_a_swallowed_request_is_never_answered(relay: Relay) -> None:
    relay.plan("Heartbeat", "swallow")
    connection = connected(relay)
    connection.send(HEARTBEAT, 4)
    assert not connection.answers_within(0.1)


def test_the_coordinator_moves(relay: Relay) -> None:
    old, new = connected(relay, 1), connected(relay, 2)
    assert new.call(HEARTBEAT, 4).error_code == 16
    relay.move_coordinator()
    assert old.call(HEARTBEAT, 4).error_code == 16
    assert new.call(HEARTBEAT, 4).error_code == 25
    assert old.call(FindCoordinatorRequest("relayed"), 3).port == relay.ports[2]


def test_every_scenario_has_a_case() -> None:
    assert [case.id for case in all_client_cases()] == [f"R{number:02}" for number in range(1, 21)]
    assert all(case.title and case.source for case in all_client_cases())


def test_known_failures_name_what_there_is() -> None:
    names = CLIENTS.keys() | OTHER_LANGUAGES.keys()
    cases = {case.id for case in all_client_cases()}
    assert all(client in names and case in cases for client, case in expected_failures())


def test_clients_are_chosen_by_name_or_family() -> None:
    assert {each.name for each in select_clients(CLIENTS, "aiokafka")} == {"aiokafka-0.14", "aiokafka-0.11"}
    assert [each.name for each in select_clients(CLIENTS, "kafka-python-2.3")] == ["kafka-python-2.3"]
    assert len(select_clients(CLIENTS, "all")) == len(CLIENTS)


@pytest.mark.parametrize("name", ["kafka-python-3.0", "confluent-kafka-2.16"])
@pytest.mark.parametrize("case_id", ["R04", "R07"])
def test_a_client_passes(instance: Instance, name: str, case_id: str) -> None:
    (case,) = [each for each in all_client_cases() if each.id == case_id]
    result = run_one(instance, case, CLIENTS[name])
    assert (result.verdict, result.reason) == (Verdict.PASS, "")
    assert "JoinGroup" in result.story


def test_a_case_is_skipped_where_the_client_cannot(instance: Instance) -> None:
    (case,) = [each for each in all_client_cases() if each.id == "R15"]
    assert "mixed-assignors" not in abilities(CLIENTS["aiokafka-0.14"])
    assert run_one(instance, case, CLIENTS["aiokafka-0.14"]).verdict is Verdict.SKIP
