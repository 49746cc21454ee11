"""The warnings about the addresses of a server."""

import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from kafka_shim.testing import CoordinatorServer
from tests.lab.test_replay import record
from tests.waiting import PATIENCE_S


def lines_of(*words: str) -> list[str]:
    """The lines about other machines of a command that is ended when it is ready."""
    command = [sys.executable, "-m", "kafka_shim", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        output = list(takewhile(lambda line: not line.startswith("ready "), process.stdout))
    finally:
        process.terminate()
        rest, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, rest + errors
    return [line for line in ("".join(output) + errors).splitlines() if "other machines " in line]


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        (["--listen", "127.0.0.1:0"], []),
        (["--listen", "[::1]:0"], []),
        (["--listen", "0.0.0.0:0"], ["no authentication"]),
        (
            ["--listen", "0.0.0.0:0", "--advertise", "localhost", "--control", "0.0.0.0:0", "--control-token", "s"],
            ["no authentication", "its token alone"],
        ),
        (
            [
                *("--config", "listeners=SASL_PLAINTEXT://:0,INSIDE://127.0.0.1:0"),
                *("--config", "listener.security.protocol.map=INSIDE:PLAINTEXT"),
                *("--config", "sasl.enabled.mechanisms=PLAIN"),
            ],
            ["SASL but no ACLs"],
        ),
    ],
)
def test_a_server_that_others_can_reach_says_so(options: list[str], warnings: list[str]) -> None:
    lines = lines_of("serve", "--store", "memory:", *options)
    assert len(lines) == len(warnings), lines
    for line, guard in zip(lines, warnings, strict=True):
        assert " WARNING other machines can reach 0.0.0.0:0" in line
        assert guard in line


@pytest.mark.parametrize(("host", "warnings"), [("127.0.0.1", 0), ("0.0.0.0", 1)])
def test_a_relay_that_others_can_reach_says_so(host: str, warnings: int, tmp_path: Path) -> None:
    with CoordinatorServer() as server:
        options = ["--listen", f"{host}:0", "--advertise", "localhost", "--trace", str(tmp_path / "trace.jsonl")]
        lines = lines_of("trace", "record", "--upstream", server.bootstrap, *options)
    assert len(lines) == warnings
    assert all("can reach 0.0.0.0:" in line and "no authentication of its own" in line for line in lines)


@pytest.mark.parametrize(("host", "guards"), [("127.0.0.1", []), ("0.0.0.0", ["no authentication", "its token alone"])])
def test_a_served_replay_that_others_can_reach_says_so(host: str, guards: list[str], tmp_path: Path) -> None:
    record(4, tmp_path)
    options = ["--serve", f"{host}:0", "--control", f"{host}:0", "--control-token", "s"]
    assert lines_of("replay", str(tmp_path / "journal.jsonl"), *options) == [
        f"warning: other machines can reach 0.0.0.0:0, which has {guard}: they may change everything"
        for guard in guards
    ]


def test_a_host_that_cannot_be_resolved_is_in_the_log() -> None:
    command = [sys.executable, "-m", "kafka_shim", "serve", "--store", "memory:", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--advertise", "broker.invalid"], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        warning = next(line for line in process.stderr if " WARNING " in line)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    assert "clients are sent to broker.invalid, which this machine cannot resolve" in warning


def test_an_address_that_cannot_be_used_is_not_warned_of() -> None:
    command = [sys.executable, "-m", "kafka_shim", "serve", "--store", "memory:", "--listen", "broker.invalid:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("kafka-shim: broker.invalid:0 cannot be listened on: ")
