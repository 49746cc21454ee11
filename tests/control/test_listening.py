"""The warnings about the addresses of a server."""

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE_S


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
    command = [sys.executable, "-m", "kafka_shim", "serve", "--store", "memory:", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=PATIENCE_S)
    lines = [line for line in errors.splitlines() if " WARNING other machines " in line]
    assert len(lines) == len(warnings), errors
    for line, guard in zip(lines, warnings, strict=True):
        assert "can reach 0.0.0.0:0" in line
        assert guard in line


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
