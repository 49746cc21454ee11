"""The command line, in separate processes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kafka_shim.apis.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from kafka_shim.cli import cli, main
from tests.server.places import confirm_places
from tests.server.wire import Client

SHIM = [sys.executable, "-m", "kafka_shim"]


@contextmanager
def serving(*options: str, folder: Path) -> Iterator[tuple[dict[str, str], subprocess.Popen[str]]]:
    """Yield the addresses of the ready line of a server, and its process."""
    process = subprocess.Popen(
        [*SHIM, "serve", "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )
    assert process.stdout is not None
    try:
        ready = process.stdout.readline().split()
        assert ready[:1] == ["ready"], process.stderr.read() if process.stderr else ""
        yield dict(part.split("=", 1) for part in ready[1:]), process
    finally:
        process.kill()
        process.communicate()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SHIM, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_serve_prints_its_addresses_and_ends_in_good_order(end: signal.Signals, tmp_path: Path) -> None:
    with serving("--store", "memory:", "--brokers", "2", folder=tmp_path) as (ready, process):
        addresses = ready["kafka"].split(",")
        assert len(addresses) == 2
        assert "control" not in ready
        for address in addresses:
            with Client(address) as client:
                assert client.ask(HeartbeatRequest("g", 1, "m"), 4, HeartbeatResponse).error_code in (16, 25)
        process.send_signal(end)
        out, _ = process.communicate(timeout=60)
        assert out == ""
        assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_commits_survive_a_restart(tmp_path: Path) -> None:
    partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=7, committed_metadata="")
    commit = OffsetCommitRequest("billing", topics=[OffsetCommitRequestTopic("orders", partitions=[partition])])
    fetch = OffsetFetchRequest("billing", [OffsetFetchRequestTopic("orders", [1])])
    with serving("--topic", "orders:2", folder=tmp_path) as (ready, process):
        with Client(ready["kafka"]) as client:
            assert client.ask(commit, 2, OffsetCommitResponse).topics[0].partitions[0].error_code == 0
        process.kill()
    assert (tmp_path / "kafka-shim.db").exists()
    with serving("--topic", "orders:2", folder=tmp_path) as (ready, _), Client(ready["kafka"]) as client:
        answer = client.ask(fetch, 1, OffsetFetchResponse)
        assert answer.topics[0].partitions[0].committed_offset == 7


def test_clients_get_the_advertised_host(tmp_path: Path) -> None:
    with serving("--store", "memory:", "--advertise", "localhost", folder=tmp_path) as (ready, _):
        host, _, port = ready["kafka"].rpartition(":")
        assert host == "localhost"
        with Client(f"127.0.0.1:{port}") as client:
            answer = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4, FindCoordinatorResponse)
            assert answer.coordinators[0].host == "localhost"
        confirm_places(f"127.0.0.1:{port}", 1)


def test_commands_show_groups_and_the_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    options = ["--store", "memory:", "--topic", "orders:2", "--control", "127.0.0.1:0", "--trace", str(trace)]
    with serving(*options, folder=tmp_path) as (ready, process):
        partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=7, committed_metadata="")
        topics = [OffsetCommitRequestTopic("orders", partitions=[partition])]
        with Client(ready["kafka"]) as client:
            client.ask(OffsetCommitRequest("team/billing", topics=topics), 2, OffsetCommitResponse)
            client.ask(HeartbeatRequest("team/billing", 1, "gone"), 4, HeartbeatResponse)
        (listed,) = json.loads(run("groups", "list", "--control", ready["control"], "--json").stdout)
        assert (listed["group"], listed["state"]) == ("team/billing", "Empty")
        assert "team/billing" in run("groups", "list", "--control", ready["control"]).stdout
        described = run("groups", "describe", "team/billing", "--control", ready["control"], "--json")
        assert json.loads(described.stdout)["offsets"][0]["offset"] == 7
        output = run("groups", "describe", "team/billing", "--control", ready["control"]).stdout
        assert "team/billing: Empty" in output
        missing = run("groups", "describe", "nobody", "--control", ready["control"])
        assert (missing.returncode, missing.stderr) == (
            3,
            "kafka-shim: There is no group 'nobody'; `kafka-shim groups list` shows all.\n",
        )
        process.terminate()
        process.wait(10)
    result = run("trace", "show", str(trace), "--group", "team/billing")
    assert result.returncode == 0
    assert "Heartbeat of gone is answered UNKNOWN_MEMBER_ID (25)" in result.stdout


def test_serve_refuses_impossible_options_in_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        (tmp_path / "file").write_text("x")
        for wrong, why in [
            (["--listen", address], "Address already in use"),
            (["--listen", "nowhere"], "HOST:PORT"),
            (["--store", "floppy:"], "names no store"),
            (["--store", f"sqlite:{tmp_path}/no/such/folder/db"], "folder"),
            (["--config", "group.max.size=many"], "must be an integer"),
            (["--config", "no.such.setting=1"], "not a setting"),
            (["--config", "nothing"], "NAME=VALUE"),
            (["--config", "group.streams.num.warmup.replicas=50"], "must be less than or equal to"),
            (["--topic", "orders"], "NAME:PARTITIONS"),
            (["--topic", "a/b:3"], "a/b"),
            (["--as-version", "0.7"], "0.7"),
            (["--tls-cert", str(tmp_path / "file")], "--tls-key"),
            (["--tls-cert", str(tmp_path / "file"), "--tls-key", str(tmp_path / "file")], "cannot be used"),
            (["--trace", f"{tmp_path}/no/such/folder/trace.jsonl"], "The trace"),
            (["--no-such-option"], "--no-such-option"),
        ]:
            ended = run("serve", "--listen", "127.0.0.1:0", "--store", "memory:", *wrong)
            assert (ended.returncode, ended.stdout) == (2, ""), wrong
            assert why in ended.stderr, wrong
            assert ended.stderr.startswith("kafka-shim: "), wrong
            assert ended.stderr.count("\n") == 1, wrong


def test_the_environment_sets_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SHIM_SERVE_STORE", "memory:")
    monkeypatch.setenv("KAFKA_SHIM_SERVE_CONTROL", "127.0.0.1:0")
    monkeypatch.setenv("KAFKA_SHIM_SERVE_TOPIC", "orders:6 billing:2")
    monkeypatch.setenv("KAFKA_SHIM_TOPICS_LIST_JSON", "1")
    with serving(folder=tmp_path) as (ready, _):
        result = run("topics", "list", "--control", ready["control"])
    assert [topic["topic"] for topic in json.loads(result.stdout)] == ["billing", "orders"]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("KAFKA_SHIM_SERVE_CONTROL", "0.0.0.0:0")
    refused = run("serve", "--listen", "127.0.0.1:0")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "needs a token" in refused.stderr


def test_each_option_has_the_variable_of_its_flag_and_that_of_its_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    options = [(context, option) for context in contexts() for option in context.command.params]
    variables = []
    for context, option in options:
        if not isinstance(option, click.Option):
            continue
        flag = max(option.opts, key=len).lstrip("-").replace("-", "_")
        names = {f"{context.auto_envvar_prefix}_{name}".upper() for name in (flag, option.name)}
        variables += names
        for name in names:
            with monkeypatch.context() as one:
                one.setenv(name, "value")
                assert option.resolve_envvar_value(context) == "value", name
    assert {"KAFKA_SHIM_SERVE_TOPIC", "KAFKA_SHIM_SERVE_TOPICS", "KAFKA_SHIM_TRACE_FROM_LOG_OUT"} <= set(variables)
    assert len(variables) == len(set(variables)), "two options have one variable"


def contexts(above: click.Context | None = None) -> Iterator[click.Context]:
    """The context of each command, as the command line makes it."""
    above = above or click.Context(cli, info_name="kafka-shim", **cli.context_settings)
    yield above
    if isinstance(above.command, click.Group):
        for name in above.command.list_commands(above):
            command = above.command.get_command(above, name)
            yield from contexts(click.Context(command, above, name))


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text('{"event": "trace"}\nwhat?\n')
    ended = run("trace", "show", str(path))
    sentence = f"Line 2 of {path} is not an event of a trace; without that line, the rest can be read."
    assert (ended.returncode, ended.stderr) == (2, f"kafka-shim: {sentence}\n")


def test_a_missing_control_server_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    ended = run("groups", "list", "--control", f"http://127.0.0.1:{port}")
    assert ended.returncode == 2
    assert "Nothing answers at" in ended.stderr


def test_a_negative_number_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["kafka-shim", "clock", "advance", "-5"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("kafka-shim: A number cannot be negative here. Usage: ")
    assert sentence.endswith("clock [OPTIONS] [freeze|resume|advance] [SECONDS]")


@pytest.mark.parametrize("command", [["conformance"], ["conformance", "matrix"], ["pipeline", "stream"]])
def test_the_help_names_values_in_plain_words(command: list[str]) -> None:
    result = CliRunner().invoke(cli, [*command, "--help"])
    assert result.exit_code == 0
    assert "RANGE" not in result.output


def test_the_help_lists_every_command() -> None:
    result = run("--help")
    assert result.returncode == 0
    for command in ("serve", "demo", "groups", "trace", "conformance"):
        assert command in result.stdout
    assert run().returncode == 2


@pytest.mark.second_stage("real clients")
def test_the_demo_proves_its_claims(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    played = run("demo", "--trace", str(trace))
    assert played.returncode == 0, played.stdout + played.stderr
    for output in ("cause SESSION_EXPIRED", "none lost", "Committed offsets", "billing-3 joins", "slow: billing-1, "):
        assert output in played.stdout
    (command,) = re.findall(r"^ +\S*kafka-shim (why .*)$", played.stdout, re.M)
    explained = run(*command.split())
    assert explained.returncode == 0, explained.stderr
    assert "slow      billing-1 joined after " in explained.stdout
    (page, link) = re.findall(r"^ +file://(\S*)#(billing@\d+)$", played.stdout, re.M)[0]
    assert Path(page) == trace.with_suffix(".html")
    assert f"[seq {link.removeprefix('billing@')}-" in explained.stdout
    assert "window.WHY" in Path(page).read_text()


@pytest.mark.parametrize(
    ("arguments", "missing", "extra"),
    [
        (["pipeline", "run", "trace.jsonl", "--out", "out"], "pyspark", "spark"),
        (["pipeline", "report", "trace.jsonl", "--out", "out"], "pyarrow", "spark"),
        (["pipeline", "stream", "trace.jsonl", "--out", "out"], "pyspark", "spark"),
        (["pipeline", "tables"], "pyspark", "spark"),
        (["serve", "--store", "postgresql://nowhere/none"], "psycopg", "postgres"),
        (["demo"], "kafka", "clients"),
    ],
)
def test_a_missing_optional_part_is_one_sentence(
    arguments: list[str], missing: str, extra: str, tmp_path: Path
) -> None:
    (tmp_path / "trace.jsonl").write_text("")
    program = f"import sys; sys.modules[{missing!r}] = None; from kafka_shim.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.endswith(f"pip install 'kafka-group-shim[{extra}]'\n")
