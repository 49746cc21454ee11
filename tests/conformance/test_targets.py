"""Foreign targets: addresses, commands, files; their capabilities; clusters with moving coordinators."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_shim.conformance.case import Case
from kafka_shim.conformance.cells import Cell, Selection, all_cases
from kafka_shim.conformance.cli import cli
from kafka_shim.conformance.endpoint import Endpoint, parse_endpoints
from kafka_shim.conformance.peers import Peers
from kafka_shim.conformance.runner import Runner
from kafka_shim.conformance.targets import ForeignTarget, TargetError, open_target
from kafka_shim.conformance.targets.base import Limits, free_port
from kafka_shim.conformance.targets.capabilities import CAPABILITIES, advice, capabilities_of
from kafka_shim.conformance.targets.foreign import Place, declared
from kafka_shim.conformance.targets.postgres import binaries
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level, Verdict
from kafka_shim.testing import CoordinatorServer
from tests.waiting import until

FAST = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}


def test_a_free_port_is_kept_for_a_server() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)) as client:
        assert client.getpeername() == ("127.0.0.1", port)
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port))


@pytest.fixture(scope="module")
def cluster() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(brokers=3, config=FAST) as server:
        yield server


def own_case(body: object, *, api: str | None = None) -> Case:
    nothing: frozenset[str] = frozenset()
    return Case("own/case/1", "", "", Level.MUST, api, None, nothing, nothing, "default", 30.0, body, "")  # type: ignore[arg-type]


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, list(arguments))
    return done.exit_code, done.output


def test_an_address_may_be_of_ipv6() -> None:
    assert parse_endpoints("[::1]:9092,b:1") == (Endpoint("::1", 9092), Endpoint("b", 1))
    assert str(Endpoint("::1", 9092)) == "[::1]:9092"


@pytest.mark.parametrize("text", ["nonsense", "host:", ":9092", "host:port", "host:70000", "a:1,b"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(TargetError, match="there is no target"):
        declared(text)


def test_a_command_that_takes_its_settings_starts_every_profile() -> None:
    assert declared("", start="broker {port} {properties}").places.keys() == {"default", "limits", "retention"}
    assert declared("", start="broker {port}").places.keys() == {"default"}


def test_a_command_without_port_needs_an_address() -> None:
    with pytest.raises(TargetError, match="no address says where it listens"):
        declared("", start="broker")
    assert declared("h:1", start="broker").places["default"] == Place((Endpoint("h", 1),), "broker")


def test_a_file_describes_a_target(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "mine 1.0"\nstart = "mine --port {port} --settings {properties}"\nclient-id = "suite"\n'
        'capabilities = ["short-sessions"]\nbaseline = "known.toml"\n'
        '[limits]\n"group.max.size" = 5\n[profiles.limits]\naddress = "other:9092,other:9093"\n'
    )
    found = declared(str(file))
    assert (found.name, found.client_id, found.capabilities) == ("mine 1.0", "suite", {"short-sessions"})
    assert found.places["limits"].endpoints == (Endpoint("other", 9092), Endpoint("other", 9093))
    assert found.places["retention"].start.startswith("mine")
    assert found.settings == {"group.max.size": "5"}
    assert found.baseline == tmp_path / "known.toml"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nonsense", "cannot be read"),
        ("", "it needs an address, or a start command"),
        ('adress = "a:1"', "adress is unknown; the names are address, baseline, capabilities"),
        ('address = "a"', "not HOST:PORT: a"),
        (
            'address = "a:1"\n[profiles.fast]\naddress = "a:2"',
            "fast is unknown; the names are default, limits, retention",
        ),
    ],
)
def test_an_invalid_target_file_is_refused_in_a_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    code, output = run("--target", str(file), "--case", "join/first/1")
    assert code == 2
    assert complaint in output
    assert "Traceback" not in output


def test_a_target_is_started_by_a_command_with_the_settings_of_each_profile(tmp_path: Path) -> None:
    script = tmp_path / "broker.py"
    script.write_text(
        "import os, sys\n"
        "settings = [word for line in open(sys.argv[2]) for word in ('--config', line.strip())]\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'kafka_shim', 'serve', '--store', 'memory:',\n"
        "    '--listen', '127.0.0.1:' + sys.argv[1], '--log-level', 'error', *settings])\n"
    )
    badge = tmp_path / "badge.json"
    command = f"{sys.executable} {script} {{port}} {{properties}}"
    arguments = [
        "--start-command",
        command,
        "--case",
        "delay/initial/1",
        "--case",
        "size/full/1",
        "--badge",
        str(badge),
    ]
    code, output = run(*arguments, "--case", "heartbeat/unknown/1")
    assert code == 0, output
    assert "found short-sessions" in output
    assert " 0 not judged" in output
    assert json.loads(badge.read_text())["message"] == "3/3"


def test_a_failed_command_is_reported_with_its_output() -> None:
    code, output = run("--start-command", "echo no such setting; exit 3 # {port}", "--case", "join/first/1")
    assert code == 2
    assert "ended with exit code 3" in output
    assert "no such setting" in output


def test_missing_capabilities_are_counted_with_reasons(tmp_path: Path) -> None:
    badge = tmp_path / "badge.json"
    slow = FAST | {"group.min.session.timeout.ms": "6000"}
    with CoordinatorServer(config=slow) as server:
        arguments = ["--target", server.bootstrap, "--case", "join/pending/*", "--case", "delay/initial/1"]
        code, output = run(*arguments, "--badge", str(badge))
    assert code == 0, output
    assert "group.min.session.timeout.ms=100 a run is about ten times faster" in output
    assert "cells, sessions are too long to wait for their end: group.min.session.timeout.ms is 6000" in output
    assert "there is no delay before a first round that could be seen" in output
    assert json.loads(badge.read_text())["message"].endswith(" not judged")


def test_a_capability_is_declared() -> None:
    with CoordinatorServer(config={"group.initial.rebalance.delay.ms": "0"}) as server:
        peers = Peers(ForeignTarget(declared(server.bootstrap, capabilities=["short-sessions"])))
        peers.start({"default"})
    peer = peers.of("limits")
    assert peer is not None
    assert "short-sessions" in peer.instance.capabilities


def test_limits_give_capabilities_and_advice() -> None:
    assert capabilities_of(Limits()) == {"initial-delay"}
    assert capabilities_of(Limits(100, initial_rebalance_delay=0)) == {"short-sessions"}
    assert "group.initial.rebalance.delay.ms=0, group.min.session.timeout.ms=100" in advice(Limits())
    assert advice(Limits(100, initial_rebalance_delay=0)) == ""
    assert CAPABILITIES["small-groups"].lack(Limits()) == "a group cannot be filled: group.max.size is 2147483647"


def test_limits_are_measured_if_the_target_does_not_describe_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.conformance.peers.configuration", lambda peer: {})
    with CoordinatorServer(config=FAST | {"group.min.session.timeout.ms": "300"}) as server:
        peers = Peers(ForeignTarget(server.bootstrap))
        peers.start({"default"})
    peer = peers.of("default")
    assert peer is not None
    assert (peer.limits.min_session_timeout, peer.limits.initial_rebalance_delay) == (300, 0)


@pytest.mark.parametrize("describes", [True, False])
def test_limits_from_the_user_replace_those_of_the_target(monkeypatch: pytest.MonkeyPatch, describes: bool) -> None:
    if not describes:
        monkeypatch.setattr("kafka_shim.conformance.peers.configuration", lambda peer: {})
    settings = {"group.min.session.timeout.ms": "700", "group.max.size": "5"}
    with CoordinatorServer(config=FAST | {"group.min.session.timeout.ms": "300"}) as server:
        peers = Peers(ForeignTarget(replace(declared(server.bootstrap), settings=settings)))
        peers.start({"default"})
    peer = peers.of("default")
    assert peer is not None
    assert (peer.limits.min_session_timeout, peer.limits.max_group_size) == (700, 5)


def test_members_have_the_client_id_of_the_user(cluster: CoordinatorServer) -> None:
    def body(t: Trial) -> None:
        t.stable(1)
        t.equal(t.describe().members[0].client_id, "mine-m1", "the client id")

    target = open_target(cluster.bootstrap, client_id="mine")
    runner = Runner(target, jobs=1)
    runner.peers.start({"default"})
    assert runner.run_cell(Cell(own_case(body), 0)).verdict is Verdict.PASS


def test_requests_go_to_the_coordinator(cluster: CoordinatorServer) -> None:
    runner = Runner(open_target(cluster.bootstrap.split(",")[0]), jobs=8)
    cases = Selection(("sync/round/*", "commit/group/*", "delete/*/*", "list/*/*", "txn-commit/pending/*")).cases(
        all_cases()
    )
    results = runner.run(cases, lambda cells: None).results
    assert len(results) > 50
    assert [(each.cell.name, each.reason) for each in results if each.verdict is not Verdict.PASS] == []


def test_a_coordinator_that_moves_is_followed(cluster: CoordinatorServer) -> None:
    attempts = []

    def body(t: Trial) -> None:
        attempts.append(t.group)
        (member,) = t.stable(1)
        if len(attempts) == 1:
            cluster.move(t.group, cluster.coordinator_of(t.group) % 3 + 1)
        t.equal(member.heartbeat(), 0, "the heartbeat")

    runner = Runner(open_target(cluster.bootstrap), jobs=1)
    runner.peers.start({"default"})
    result = runner.run_cell(Cell(own_case(body), 0))
    assert (result.verdict, result.reason) == (Verdict.PASS, "")
    assert len(set(attempts)) == 2


def test_a_failure_without_a_move_is_judged_once(cluster: CoordinatorServer) -> None:
    attempts = []

    def body(t: Trial) -> None:
        attempts.append(t.group)
        (member,) = t.stable(1)
        t.equal(member.heartbeat(generation_id=9), 0, "the heartbeat")

    runner = Runner(open_target(cluster.bootstrap), jobs=1)
    runner.peers.start({"default"})
    assert runner.run_cell(Cell(own_case(body), 0)).verdict is Verdict.FAIL
    assert len(attempts) == 1


def test_the_other_brokers_are_judged_after_one_dies() -> None:
    with CoordinatorServer(brokers=3, config=FAST) as server:
        runner = Runner(open_target(server.bootstrap), jobs=4)
        runner.peers.start({"default"})
        server.kill_broker(1)
        (case,) = Selection(("heartbeat/unknown/2",)).cases(all_cases())
        results = [runner.run_cell(cell) for cell in runner.cells([case])]
    assert [each.verdict for each in results] == [Verdict.PASS] * 5


@pytest.mark.second_stage("several servers on PostgreSQL")
@pytest.mark.skipif(binaries() is None, reason="PostgreSQL's initdb is not installed")
def test_processes_of_one_database_are_one_target() -> None:
    target = open_target("shim:postgresql:x3")
    runner = Runner(target, jobs=1)
    try:
        runner.peers.start({"default"})
        peer = runner.peers.of("default")
        assert peer is not None
        assert len(peer.instance.endpoints) == 3
        assert {peer.routes.coordinator(f"group-{number}") for number in range(20)} == {*peer.instance.endpoints}
        assert peer.instance.process is not None
        peer.instance.process.kill()
        # Each look waits a bounded time for the end of the process.
        until(peer.instance.has_crashed)
        (case,) = Selection(("txn-commit/commit/1",)).cases(all_cases())
        assert {runner.run_cell(cell).verdict for cell in runner.cells([case])} == {Verdict.PASS}
    finally:
        target.stop()
    assert target.violations == []


def test_groups_of_one_request_have_one_coordinator(cluster: CoordinatorServer) -> None:
    peers = Peers(ForeignTarget(cluster.bootstrap))
    peers.start({"default"})
    peer = peers.of("default")
    assert peer is not None
    trial = Trial(peer, "another", "one")
    try:
        names = [trial.another_group(str(number)) for number in range(6)]
    finally:
        trial.end()
    assert len(set(names)) == 6
    assert {cluster.coordinator_of(name) for name in names} == {cluster.coordinator_of(trial.group)}


def test_each_kind_of_target_opens_by_name() -> None:
    with pytest.raises(TargetError, match="number of brokers"):
        open_target("kafka:4.2xmany")
    with pytest.raises(TargetError, match="number of processes"):
        open_target("shim:postgresql:x1")
    assert open_target("kafka:4.2x3").name == "kafka:4.2.2x3"
    assert open_target("kafka:2.8").name == "kafka:2.8.2"
    assert open_target("tansu").profiles == {"default"}
    assert open_target("nisshi").profiles == {"default"}


def test_a_missing_program_and_compiler_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetError, match="neither cargo nor"):
        open_target("nisshi").start("default")


def test_the_first_address_may_be_down(cluster: CoordinatorServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        down = unused.getsockname()[1]
    command = [sys.executable, "-m", "kafka_shim.conformance", "--target", f"127.0.0.1:{down},{cluster.bootstrap}"]
    done = subprocess.run([*command, "--case", "heartbeat/unknown/1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.everything("Java, and Kafka 3.3")
def test_a_kafka_from_before_delegation_tokens_starts_with_users() -> None:
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("needs Java and Maven")
    runner = Runner(open_target("kafka:3.3"), jobs=4)
    cases = Selection(("access/join/1", "tokens/versions/1")).cases(all_cases())
    results = runner.run(cases, lambda cells: None).results
    joins = [each.verdict for each in results if each.cell.case.id == "access/join/1"]
    assert joins
    assert set(joins) == {Verdict.PASS}
    (tokens,) = (each for each in results if each.cell.case.id == "tokens/versions/1")
    assert tokens.verdict is Verdict.FAIL
    assert "not advertised" in tokens.reason
