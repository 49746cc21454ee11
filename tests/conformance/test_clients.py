"""The client cases: the relay, and one case with a client that is always installed."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from rich.console import Console

from kafka_shim.apis.find_coordinator import FindCoordinatorRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from kafka_shim.conformance.cli import cli
from kafka_shim.conformance.clients import report
from kafka_shim.conformance.clients.builds import ClientMissing
from kafka_shim.conformance.clients.case import ClientCase
from kafka_shim.conformance.clients.catalogue import all_client_cases, select_clients
from kafka_shim.conformance.clients.client_processes import CLIENTS, EVERY_CLIENT, FURTHER_CLIENTS
from kafka_shim.conformance.clients.command import print_summary
from kafka_shim.conformance.clients.expected import EXPECT, Expectations
from kafka_shim.conformance.clients.relay import Relay
from kafka_shim.conformance.clients.runner import (
    ClientResult,
    ClientRun,
    abilities,
    run_cell,
    run_one,
    unavailable,
    with_traces,
)
from kafka_shim.conformance.endpoint import Endpoint
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.targets import Instance, open_target
from kafka_shim.conformance.verdict import Verdict
from kafka_shim.conformance.wire import Closed, Connection, Tape
from tests.clients.harness import stage
from tests.server.places import confirm_places

pytestmark = pytest.mark.second_stage("real clients")


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    target = open_target("shim")
    try:
        yield target.start("default")
    finally:
        target.stop()


@pytest.fixture
def relay(instance: Instance) -> Iterator[Relay]:
    with Relay(instance.host, instance.port) as running:
        yield running


def connected(relay: Relay, broker: int = 1) -> Connection:
    deadline = time.monotonic() + 20
    return Connection(
        Endpoint("127.0.0.1", relay.ports[broker]),
        patience=10,
        deadline=deadline,
        tape=Tape(),
        label="c",
        client_id="tester",
    )


def test_both_brokers_of_the_relay_answer_to_their_ids(relay: Relay) -> None:
    confirm_places(f"127.0.0.1:{relay.ports[1]}", 2)


def case_of(case_id: str, protocol: str) -> ClientCase:
    (case,) = [each for each in all_client_cases() if (each.id, each.protocol) == (case_id, protocol)]
    return case


HEARTBEAT = HeartbeatRequest("relayed", 1, "nobody")


def test_clients_get_the_addresses_of_the_relay(relay: Relay) -> None:
    connection = connected(relay)
    brokers = connection.call(MetadataRequest([]), 9).brokers
    assert {broker.node_id: broker.port for broker in brokers} == relay.ports
    assert connection.call(FindCoordinatorRequest("relayed"), 3).port == relay.ports[1]


def test_a_request_without_a_plan_passes(relay: Relay) -> None:
    assert connected(relay).call(HEARTBEAT, 4).error_code == 25
    (seen,) = relay.seen("Heartbeat", "tester")
    assert (seen.error, seen.by_plan, seen.request.group_id) == (25, False, "relayed")


def test_an_error_is_answered_as_often_as_planned(relay: Relay) -> None:
    plan = relay.plan("Heartbeat", "error", 27, times=2)
    connection = connected(relay)
    assert [connection.call(HEARTBEAT, 4).error_code for _ in range(3)] == [27, 27, 25]
    assert len(plan.fired) == 2


@pytest.mark.parametrize("version", [1, 3, 7, 8])
def test_a_planned_error_is_encoded_in_every_version(relay: Relay, version: int) -> None:
    relay.plan("OffsetFetch", "error", 14)
    partitions = OffsetFetchRequestTopic("t", [0])
    one = OffsetFetchRequest("relayed", [partitions])
    several = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("relayed", topics=[])])
    answer = connected(relay).call(several if version >= 8 else one, version)
    codes = {answer.error_code, *(each.error_code for each in answer.groups)}
    codes |= {each.error_code for topic in answer.topics for each in topic.partitions}
    assert 14 in codes


@pytest.mark.parametrize("action", ["hold", "withhold"])
def test_a_held_answer_blocks_later_answers(relay: Relay, action: str) -> None:
    plan = relay.plan("Heartbeat", action)
    connection = connected(relay)
    connection.send(HEARTBEAT, 4)
    connection.send(FindCoordinatorRequest("relayed"), 3)
    assert relay.wait(lambda: relay.seen("FindCoordinator"), 5)
    assert not connection.answers_within(0.05)
    relay.release(plan)
    assert connection.receive().error_code == 25
    assert connection.receive().port == relay.ports[1]


def test_a_held_answer_can_be_replaced_by_an_error(relay: Relay) -> None:
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
    cases = all_client_cases()
    scenarios = {f"R{number:02}" for number in range(1, 21)}
    assert scenarios < {case.id for case in cases if case.protocol == "classic"}
    # With a server-side assignor no leader is slow or assigns wrongly.
    assert scenarios - {case.id for case in cases if case.protocol == "consumer"} == {"R08", "R14"}
    assert all(case.title and case.source for case in cases)


def test_known_failures_name_existing_clients_and_cases() -> None:
    cases = {(case.id, case.protocol) for case in all_client_cases()}
    expectations = Expectations.read(EXPECT)
    assert all((case, EVERY_CLIENT[client].protocol) in cases for client, case in expectations.reasons)
    assert all(expectations.reasons.values())


def test_clients_are_chosen_by_name_or_family() -> None:
    assert {each.name for each in select_clients(CLIENTS, "aiokafka")} == {"aiokafka-0.14", "aiokafka-0.11"}
    assert [each.name for each in select_clients(CLIENTS, "kafka-python-2.3")] == ["kafka-python-2.3"]
    assert len(select_clients(CLIENTS, "all")) == len(CLIENTS)
    assert [each.protocol for each in select_clients(EVERY_CLIENT, "java-4.4.0")] == ["classic"]
    assert {each.protocol for each in select_clients(EVERY_CLIENT, "java")} == {"classic", "consumer"}
    assert [each.protocol for each in select_clients(EVERY_CLIENT, "confluent-kafka-2.16")] == ["classic"]


# One of the fast scenarios for every client; `kafka-shim conformance --client all` runs the rest.
QUICK = {
    "kafka-python-3.0": ["R04", "R07"],
    "kafka-python-2.3": ["R04"],
    "kafka-python-2.0": ["R07"],
    "aiokafka-0.14": ["R04"],
    "aiokafka-0.11": ["R07"],
    "confluent-kafka-2.16": ["R04", "R07"],
    "java-4.4.0": ["R02"],
    "franz-go-1.22.2": ["R04"],
    "sarama-1.61.1": ["R04"],
    "kafkajs-2.2.4": ["R04"],
    "confluent-kafka-2.16-consumer": ["H01", "H05", "R06", "R07"],
    "java-4.4.0-consumer": ["H05", "R06"],
    "franz-go-1.22.2-consumer": ["H05", "R06"],
}


def quick(protocol: str) -> list[Any]:
    """Return the name of each client of a protocol with each of its cases."""
    return [
        pytest.param(name, case, marks=stage(client))
        for name, client in EVERY_CLIENT.items()
        if client.protocol == protocol
        for case in QUICK.get(name, ())
    ]


def passes(instance: Instance, name: str, case_id: str) -> None:
    client = EVERY_CLIENT[name]
    missing = unavailable(client)
    if missing:
        pytest.skip(missing)
    result = run_one(instance, case_of(case_id, client.protocol), client)
    assert (result.verdict, result.reason) == (Verdict.PASS, "")
    assert "FindCoordinator" in result.story


def test_every_client_is_tried() -> None:
    assert QUICK.keys() == EVERY_CLIENT.keys() - FURTHER_CLIENTS.keys()


@pytest.mark.parametrize(("name", "case_id"), quick("classic"))
def test_a_client_passes(instance: Instance, name: str, case_id: str) -> None:
    passes(instance, name, case_id)


@pytest.mark.parametrize(("name", "case_id"), quick("consumer"))
def test_a_client_of_the_consumer_protocol_passes(instance: Instance, name: str, case_id: str) -> None:
    passes(instance, name, case_id)


def test_a_case_without_its_ability_is_skipped(instance: Instance) -> None:
    assert "mixed-assignors" not in abilities(CLIENTS["aiokafka-0.14"])
    assert run_one(instance, case_of("R15", "classic"), CLIENTS["aiokafka-0.14"]).verdict is Verdict.SKIP


def test_consumer_cases_are_unimplemented_without_the_heartbeat_api(instance: Instance) -> None:
    client = EVERY_CLIENT["confluent-kafka-2.16-consumer"]
    result = run_cell(Peer(instance, {}), "theirs", case_of("H01", "consumer"), client, {})
    why = "the target does not serve ConsumerGroupHeartbeat"
    assert (result.verdict, result.reason, result.target) == (Verdict.UNIMPLEMENTED, why, "theirs")


def test_a_missing_client_is_skipped_with_a_reason(instance: Instance) -> None:
    client = replace(EVERY_CLIENT["kafkajs-2.2.4"], build=no_node)
    assert unavailable(client) == "KafkaJS needs Node.js"
    missing = {client.name: unavailable(client)}
    result = run_cell(Peer(instance, {}), "shim", case_of("R01", "classic"), client, missing)
    assert (result.verdict, result.reason) == (Verdict.SKIP, "KafkaJS needs Node.js")


def no_node(adapter: str, lock: str | None) -> list[str]:
    raise ClientMissing("KafkaJS needs Node.js")


def test_a_lost_answer_stays_unanswered(relay: Relay) -> None:
    relay.plan("Heartbeat", "close")
    with pytest.raises(Closed):
        connected(relay).call(HEARTBEAT, 4)
    (exchange,) = relay.seen("Heartbeat")
    assert (exchange.answered, exchange.error) == (None, None)


def test_reports_of_a_run_contain_frames_logs_and_traces(tmp_path: Path) -> None:
    """A failure has its frames, its members' logs and the coordinator's trace; all reports agree."""
    files = {kind: tmp_path / kind for kind in ("results", "junit", "html", "evidence")}
    options = [option for kind, path in files.items() for option in (f"--{kind}", str(path))]
    arguments = ["--client", "kafka-python-3.0", "--case", "R09", *options]
    outcome = CliRunner().invoke(cli, arguments)
    assert outcome.exit_code == 0, outcome.output
    document = json.loads(files["results"].read_text())
    (result,) = document["results"]
    assert (result["verdict"], result["surprise"], result["level"]) == ("fail", None, "must")
    assert (result["target"], result["protocol"]) == ("shim", "classic")
    assert "heartbeat" in result["expected"]
    assert document["violations"] == []
    suite = ElementTree.parse(files["junit"]).getroot()
    assert suite.get("tests") == "2"
    assert suite.get("failures") == "0"
    (evidence,) = files["evidence"].iterdir()
    text = evidence.read_text()
    assert "the member was expelled while its listener worked" in text
    assert " > JoinGroup v7 JoinGroupRequest(" in text
    assert '"event": "revoked"' in text
    assert '"event":"round"' in text
    assert "the member was expelled" in files["html"].read_text()


def test_violations_and_traces_belong_to_their_group(tmp_path: Path) -> None:
    case, client = case_of("R01", "classic"), CLIENTS["kafka-python-3.0"]
    passed = ClientResult(case, client, Verdict.PASS, "", 1.0, group="one")
    other = replace(passed, group="other")
    events = [{"event": "member", "group": group, "seq": seq} for seq, group in enumerate(["one", "other", "one"])]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    violations = ["I1 group one at event 2: two owners", "I2 group onerous at event 3: another group"]
    results = with_traces([passed, other], tmp_path, violations)
    assert [each.violations for each in results] == [violations[:1], []]
    assert [len(each.trace) for each in results] == [2, 0]
    run = ClientRun("shim", "ours", results, 1.0, violations, {})
    report.write_junit(run, Expectations({}), tmp_path / "junit")
    assert ElementTree.parse(tmp_path / "junit").getroot().get("failures") == "1"
    report.write_evidence(run, Expectations({}), tmp_path / "evidence")
    assert "violated:  I1 group one" in (tmp_path / "evidence" / "R01-kafka-python-3.0.txt").read_text()
    document = Console(record=True)
    assert print_summary(document, run, Expectations({})) == 1
    assert "2 invariants violated" in document.export_text()


@pytest.mark.parametrize(
    ("verdict", "expected", "news"),
    [
        (Verdict.PASS, False, False),
        (Verdict.PASS, True, True),
        (Verdict.FAIL, False, True),
        (Verdict.NON_STRICT, False, True),
        (Verdict.FAIL, True, False),
        (Verdict.SKIP, True, False),
        (Verdict.UNIMPLEMENTED, True, False),
        (Verdict.HARNESS_ERROR, True, True),
    ],
)
def test_a_change_in_either_direction_is_unexpected(verdict: Verdict, expected: bool, news: bool) -> None:
    client = CLIENTS["kafka-python-3.0"]
    result = ClientResult(case_of("R01", "classic"), client, verdict, "", 1.0)
    lines = Expectations({(client.name, "R01"): "a reason"} if expected else {})
    assert (lines.surprise(result) is not None) is news


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL])
def test_a_case_that_sometimes_fails_is_expected_either_way(verdict: Verdict) -> None:
    client = CLIENTS["kafka-python-3.0"]
    lines = Expectations({(client.name, "R01"): "a reason"}, frozenset({(client.name, "R01")}))
    assert lines.surprise(ClientResult(case_of("R01", "classic"), client, verdict, "", 1.0)) is None
