"""The control server with TLS: HTTPS with a token, and the commands that ask it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from kafka_shim.cli import cli
from kafka_shim.commands.asking import CA, TOKEN
from kafka_shim.security.certificate_files import write_server
from kafka_shim.security.certificates import TestAuthority
from tests.waiting import PATIENCE_S


class Secret(NamedTuple):
    """The URL of a control server, and the file with its authority."""

    url: str
    ca: str


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secret]:
    folder = tmp_path_factory.mktemp("control")
    authority = TestAuthority()
    write_server(folder, authority, authority.server())
    command = [sys.executable, "-m", "kafka_shim", "serve", "--store", "memory:", "--listen", "127.0.0.1:0"]
    command += ["--control", "127.0.0.1:0", "--control-token", "hidden", "--control-tls", str(folder / "server.pem")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        ready = dict(word.split("=", 1) for word in process.stdout.readline().split()[1:])
        yield Secret(ready["control"], str(folder / "ca.pem"))
    finally:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0


def ask(control: Secret, **environment: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["topics", "list", "--control", control.url], env=environment)
    return done.exit_code, done.output


def test_a_command_asks_with_the_token_and_the_authority(control: Secret) -> None:
    assert control.url.startswith("https://127.0.0.1:")
    code, output = ask(control, **{TOKEN: "hidden", CA: control.ca})
    assert code == 0, output


def test_what_is_missing_is_one_sentence(control: Secret, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for environment, sentence in (
        ({TOKEN: "hidden"}, f"into {CA}."),
        ({CA: control.ca}, f"put it into {TOKEN}."),
        ({CA: control.ca, TOKEN: "wrong"}, f"refuses the token in {TOKEN}."),
        ({CA: str(tmp_path / "empty.pem"), TOKEN: "hidden"}, "no PEM file"),
        ({CA: str(tmp_path / "none.pem"), TOKEN: "hidden"}, "no PEM file"),
    ):
        code, output = ask(control, **environment)
        assert code == 1
        assert sentence in output
        assert output.count("\n") == 1


def test_clients_without_tls_disturb_nobody(control: Secret) -> None:
    host, _, port = control.url.removeprefix("https://").rpartition(":")
    for data in (b"GET /v1/groups HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(100), b""):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as plain:
            plain.sendall(data)
            plain.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while part := plain.recv(4096):
                    answer += part
            except ConnectionResetError:
                pass
            assert b"HTTP" not in answer
    assert ask(control, **{TOKEN: "hidden", CA: control.ca})[0] == 0
