"""The suite against our broker, and against targets with deliberate faults."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.conformance.cells import Selection, all_cases
from kafka_shim.conformance.cli import cli, expectations_of
from kafka_shim.conformance.expect import Expectations
from kafka_shim.conformance.peer import Peer
from kafka_shim.conformance.peers import probe
from kafka_shim.conformance.plain import as_text, as_text_like
from kafka_shim.conformance.processes import end
from kafka_shim.conformance.report.evidence import annotated
from kafka_shim.conformance.runner import Result, Runner
from kafka_shim.conformance.targets import open_target
from kafka_shim.conformance.targets.base import Instance, Limits, LineReader
from kafka_shim.conformance.targets.foreign import ForeignTarget
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.verdict import Level, Verdict


def run(target: str, *patterns: str) -> list[Result]:
    runner = Runner(open_target(target), jobs=8)
    return runner.run(Selection(patterns).cases(all_cases()), lambda cells: None).results


@contextmanager
def answering(answer: Callable[[bytes], bytes | None]) -> Iterator[int]:
    """Run a server on a free port that answers every frame with `answer(frame)`, or closes the connection for None."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(peer: socket.socket) -> None:
        with peer, peer.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                response = answer(stream.read(struct.unpack(">i", size)[0]))
                if response is None:
                    return
                peer.sendall(struct.pack(">i", len(response)) + response)

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(peer,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def one_cell(port: int, case_id: str, version: int, advertised: dict[int, tuple[int, int]]) -> Result:
    """Run a single cell against a port, without the preparations of a run."""
    runner = Runner(ForeignTarget(f"127.0.0.1:{port}"), jobs=1)
    instance = Instance("127.0.0.1", port, "default", Limits(initial_rebalance_delay=0))
    runner.peers._peers["default"] = Peer(instance, advertised)
    (case,) = Selection((case_id,)).cases(all_cases())
    cell = next(each for each in runner.cells([case]) if each.version == version)
    return runner.run_cell(cell)


@pytest.mark.parametrize(("count", "is_busy", "verdict"), [(3, True, "pass"), (3, False, "fail"), (4, True, "fail")])
def test_a_few_failures_are_judged_again(count: int, is_busy: bool, verdict: str) -> None:
    def body_of() -> Callable[[Trial], None]:
        tries = []

        def body(trial: Trial) -> None:
            tries.append(trial.group)
            trial.equal(is_busy and len(tries) > 1, True, "the second try")

        return body

    (case,) = Selection(("join/first/1",)).cases(all_cases())
    cases = [replace(case, id=f"{case.id}{number}", api=None, body=body_of()) for number in range(count)]
    results = Runner(open_target("shim"), jobs=4).run(cases, lambda cells: None).results
    assert [each.verdict.value for each in results] == [verdict] * count
    first = "fail: the second try is False, must be True" if verdict == "pass" else ""
    assert {each.first for each in results} == {first}


def test_our_broker_passes_the_selected_cases() -> None:
    results = run("shim", "join/first/*", "sync/round/*", "static/replace/[1-3]", "wire/frame/[4-6]", "commit/member/1")
    assert len(results) > 50
    assert [(each.cell.name, each.reason) for each in results if each.verdict is not Verdict.PASS] == []


def test_a_wrong_error_code_fails_with_both_codes() -> None:
    heartbeat_ok = struct.pack(">h", 0)
    with answering(lambda frame: frame[4:8] + heartbeat_ok) as port:
        result = one_cell(port, "heartbeat/unknown/1", 0, {12: (0, 0)})
    assert result.verdict is Verdict.FAIL
    assert result.reason == "the heartbeat is NONE (0), must be UNKNOWN_MEMBER_ID (25)"


def test_a_printed_id_selects_its_cell() -> None:
    (case,) = Selection(("heartbeat/unknown/1@0",)).cases(all_cases())
    runner = Runner(ForeignTarget("127.0.0.1:1"), jobs=1, selection=Selection(("heartbeat/unknown/1@0",)))
    instance = Instance("127.0.0.1", 1, "default", Limits())
    runner.peers._peers["default"] = Peer(instance, {12: (0, 4)})
    assert [cell.name for cell in runner.cells([case])] == ["heartbeat/unknown/1@0"]


def test_a_list_in_a_pipe_is_not_cut() -> None:
    command = [sys.executable, "-m", "kafka_shim.conformance", "--list"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "40"})
    lines = output.stdout.splitlines()
    assert len(lines) == len(all_cases()) + 2
    for case, line in zip(all_cases(), lines[1:-1], strict=True):
        assert line.split()[0] == case.id
        assert case.title in line
        assert line.endswith(case.source)


def test_error_codes_are_printed_by_name() -> None:
    assert as_text_like(0, ErrorCode.ILLEGAL_GENERATION) == "NONE (0)"
    assert as_text_like({3: 22}, {3: ErrorCode.NONE}) == "{3: ILLEGAL_GENERATION (22)}"
    assert as_text([("a", ErrorCode.NONE)]) == "[('a', NONE (0))]"


def test_evidence_shows_the_frames() -> None:
    with answering(lambda frame: frame[4:8] + b"\0\0") as port:
        result = one_cell(port, "heartbeat/unknown/1", 0, {12: (0, 0)})
    text = annotated(result)
    assert "HeartbeatRequest v0" in text
    assert "HeartbeatResponse(" in text
    assert "  00 0c                                 api_key  12 Heartbeat" in text


def test_a_connection_closed_instead_of_an_answer_is_a_failure() -> None:
    with answering(lambda frame: None) as port:
        result = one_cell(port, "heartbeat/unknown/1", 0, {12: (0, 0)})
    assert (result.verdict, result.due) == (Verdict.FAIL, (12, 0))


def test_an_answer_with_bytes_too_many_is_a_failure() -> None:
    with answering(lambda frame: frame[4:8] + b"\0\x19\0") as port:
        result = one_cell(port, "heartbeat/unknown/1", 0, {12: (0, 0)})
    assert result.verdict is Verdict.FAIL
    assert "1 bytes of no field" in result.reason


def test_an_answer_to_another_request_is_a_failure() -> None:
    with answering(lambda frame: b"\0\0\0\x63\0\x19") as port:
        result = one_cell(port, "heartbeat/unknown/1", 0, {12: (0, 0)})
    assert result.verdict is Verdict.FAIL
    assert "where 1 was due" in result.reason


def test_a_failure_below_must_is_non_strict() -> None:
    with answering(lambda frame: frame[4:8] + b"\0\0") as port:
        result = one_cell(port, "heartbeat/group-id/1", 0, {12: (0, 0)})
    assert result.cell.case.level is Level.SHOULD
    assert result.verdict is Verdict.NON_STRICT


def test_an_api_that_is_not_advertised_is_unimplemented() -> None:
    with answering(lambda frame: None) as port:
        result = one_cell(port, "heartbeat/unknown/1", -1, {})
    assert result.verdict is Verdict.UNIMPLEMENTED


def test_a_target_without_the_topic_of_offsets_is_not_judged_by_its_records() -> None:
    results = run("rdkafka-mock", "commit/id/1", "txn-commit/id/1")
    assert {each.cell.case.id for each in results} == {"commit/id/1", "txn-commit/id/1"}
    assert {(each.verdict, each.reason) for each in results} == {
        (Verdict.SKIP, "the target has no topic __consumer_offsets")
    }


def test_another_release_has_other_rules() -> None:
    cases = Selection(("consumer/join/1@1",)).cases(all_cases())
    for release, verdict in (("", Verdict.PASS), ("4.2", Verdict.FAIL)):
        runner = Runner(open_target("shim"), jobs=1, release=release, selection=Selection(("consumer/join/1@1",)))
        assert [each.verdict for each in runner.run(cases, lambda cells: None).results] == [verdict]


def test_the_probe_reads_the_advertised_versions() -> None:
    table = struct.pack(">hi", 0, 2) + struct.pack(">hhh", 18, 0, 0) + struct.pack(">hhh", 10, 0, 0)
    found = struct.pack(">hih", 0, 1, 0) + struct.pack(">i", 9092)

    with answering(lambda frame: frame[4:8] + (table if frame[:2] == b"\0\x12" else found)) as port:
        peer = probe(Instance("127.0.0.1", port, "default", Limits()))
    assert peer.versions == {18: (0, 0), 10: (0, 0)}


def test_a_run_from_the_command_line_writes_its_reports(tmp_path: Path) -> None:
    names = ("run.json", "run.xml", "run.html", "badge.json")
    json_path, junit, html, badge = (tmp_path / name for name in names)
    arguments = [
        "--target",
        "shim",
        "--case",
        "heartbeat/unknown/1",
        "--results",
        str(json_path),
        "--junit",
        str(junit),
    ]
    done = CliRunner().invoke(cli, [*arguments, "--junit", str(junit), "--html", str(html), "--badge", str(badge)])
    assert done.exit_code == 0, done.output
    document = json.loads(json_path.read_text())
    assert document["counts"] == {"pass": 5}
    assert [cell["version"] for cell in document["cells"]] == [0, 1, 2, 3, 4]
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    assert "heartbeat/unknown/1" in html.read_text()
    assert json.loads(badge.read_text())["message"] == "1/1"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--target", "nonsense"], "there is no target nonsense; it is shim[:STORE], kafka[:VERSION]"),
        (["--target", "shim:nonsense:"], "ended before it was ready"),
        (["--target", "kafka:new"], "not a Kafka release"),
        (["--case", "nothing/like/this"], "No case matches"),
        (["--client", "nobody"], "there is no client nobody"),
        (["--jobs", "0"], "not in the range"),
        (["--repeat", "-1"], "not in the range"),
        (["--level", "shall"], "is not one of"),
        (["--results", "/dev/null/run.json"], "cannot be written"),
        (["--json", "run.json"], "--results run.json writes the run as JSON; --json takes no file"),
        (["--baseline", __file__], "is not a baseline"),
        (["--write-baseline", "known.txt"], "the name must end with .toml, .json or .json.gz"),
        (["--scripts", "3"], "--scripts has no effect with server cases"),
        (["--against", "shim", "--junit", "run.xml"], "--junit has no effect with --against"),
        (["--against", "shim", "--client", "all"], "has no effect with --client"),
    ],
)
def test_a_usage_error_is_one_sentence_with_exit_code_2(arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert sentence in done.output


def test_a_host_called_like_a_target_is_a_host() -> None:
    chosen = open_target("kafka:9092")
    assert isinstance(chosen, ForeignTarget)
    assert expectations_of(chosen).lines == []
    assert expectations_of(chosen).surprise("join/first/1", 0, Verdict.SKIP) is None


def test_a_refused_connection_is_reported_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    done = CliRunner().invoke(cli, ["--target", f"127.0.0.1:{port}", "--case", "join/first/1"])
    assert done.exit_code == 2
    assert f"127.0.0.1:{port} gives no usable answer" in done.output


def test_a_server_without_groups_is_reported_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                correlation_id = connection.recv(1 << 16)[8:12]
                # Error 0, and ApiVersions alone, as the port of a KRaft controller may say.
                body = correlation_id + struct.pack(">hihhh", 0, 1, 18, 0, 4)
                connection.sendall(struct.pack(">i", len(body)) + body)

        pool.submit(answer)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        done = CliRunner().invoke(cli, ["--target", address, "--case", "join/first/1"])
    assert done.exit_code == 2
    assert f"{address} is no group coordinator: the target does not advertise FindCoordinator" in done.output
    assert "Traceback" not in done.output


def test_a_failure_of_the_suite_itself_is_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("the suite is broken")

    monkeypatch.setattr("kafka_shim.conformance.cli.run_with_progress", broken)
    assert CliRunner().invoke(cli, ["--case", "join/first/1"]).exit_code == 2


def test_a_target_that_skips_everything_does_not_look_fine() -> None:
    assert Expectations.of_target("shim").surprise("join/first/1", 0, Verdict.SKIP)
    assert Expectations.of_target("kafka:4.2.2").surprise("join/first/1", -1, Verdict.UNIMPLEMENTED)
    assert Expectations.of_target("broker.example:9092").surprise("join/first/1", 0, Verdict.SKIP) is None


def test_the_list_names_every_case() -> None:
    done = CliRunner().invoke(cli, ["--list", "--level", "must"])
    assert done.exit_code == 0
    assert "cases" in done.output


CRASHES = """
import os, socket, struct, sys
listener = socket.create_server(("127.0.0.1", 0))
print("ready", listener.getsockname()[1], flush=True)
while True:
    peer, _ = listener.accept()
    if not os.fork():
        listener.close()
        stream = peer.makefile("rb")
        while len(size := stream.read(4)) == 4:
            frame = stream.read(struct.unpack(">i", size)[0])
            key, version = struct.unpack_from(">hh", frame)
            if key == 12:
                peer.close()
                os.kill(os.getppid(), 9)
                os._exit(1)
            told = frame[4:8] + (struct.pack(">hihhhhhh", 0, 2, 12, 0, 1, 18, 0, 0) if key == 18 else b"")
            peer.sendall(struct.pack(">i", len(told)) + told)
        os._exit(0)
    peer.close()
"""


class CrashingTarget:
    """A target that crashes on every Heartbeat, after it has closed the connection."""

    name = "crashing"
    profiles = frozenset({"default"})

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.started: list[subprocess.Popen[str]] = []

    def start(self, profile: str) -> Instance:
        process = subprocess.Popen([sys.executable, "-c", CRASHES], stdout=subprocess.PIPE, text=True)
        self.started.append(process)
        port = int(LineReader(process).wait_for("ready ", 10).split()[1])
        return Instance("127.0.0.1", port, profile, Limits(initial_rebalance_delay=0), process=process)

    def stop(self) -> None:
        for process in self.started:
            end(process)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the target forks")
def test_a_crashed_target_is_restarted_and_the_guilty_cell_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafka_shim.conformance.peers.coordinators_ready", lambda connection, peer: True)
    monkeypatch.setattr("kafka_shim.conformance.peers.find_served", lambda peer: None)
    monkeypatch.setattr("kafka_shim.conformance.peers.make_topics", lambda peer, counts=(): None)
    target = CrashingTarget()
    results = (
        Runner(target, jobs=2).run(Selection(("heartbeat/unknown/1",)).cases(all_cases()), lambda cells: None).results
    )
    assert [result.cell.version for result in results] == [0, 1]
    assert {result.verdict for result in results} == {Verdict.FAIL}
    assert all(result.reason.startswith("the target crashed") for result in results)
    assert len(target.started) >= 3


def test_a_foreign_target_that_stops_leaves_its_cells_unjudged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.conformance.peers.coordinators_ready", lambda connection, peer: True)
    monkeypatch.setattr("kafka_shim.conformance.peers.find_served", lambda peer: None)
    monkeypatch.setattr("kafka_shim.conformance.peers.make_topics", lambda peer, counts=(): None)
    monkeypatch.setattr("kafka_shim.conformance.targets.base._RESTART_SECONDS", 0.0)
    target = CrashingTarget()
    instance = target.start("default")
    try:
        arguments = ["--target", f"{instance.host}:{instance.port}", "--case", "heartbeat/unknown/1", "--jobs", "1"]
        done = CliRunner().invoke(cli, arguments)
    finally:
        target.stop()
    assert done.exit_code == 1
    assert "the target stopped listening: 2 cells were not judged" in done.output
