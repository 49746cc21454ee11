"""When a connection of the control server ends, and which protocol it speaks."""

import errno
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kafka_shim.testing import CoordinatorServer
from tests.waiting import PATIENCE_S, until

STREAMED = ("/v1/groups", "/v1/events?since=0&seconds=0")
WHOLE = ("/health", "/v1/topics")


def connect(url: str) -> socket.socket:
    found = urlsplit(url)
    assert found.hostname is not None
    return socket.create_connection((found.hostname, found.port or 0), timeout=PATIENCE_S)


def everything(connection: socket.socket) -> bytes:
    """All that comes until the other end closes."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("path", [*STREAMED, *WHOLE])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_answer_ends_a_connection_that_is_to_be_closed(server: CoordinatorServer, path: str, version: str) -> None:
    with connect(server.control_url) as connection:
        head = f"GET {path} HTTP/{version}\r\nHost: localhost\r\n"
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", [*STREAMED, *WHOLE])
def test_an_http_1_0_client_sees_the_end_of_an_answer(server: CoordinatorServer, path: str) -> None:
    with connect(server.control_url) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        assert everything(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", STREAMED)
def test_a_connection_goes_on_after_a_streamed_answer_and_ends_when_idle(server: CoordinatorServer, path: str) -> None:
    with connect(server.control_url) as connection:
        for _ in range(2):
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            answer = b""
            while not answer.endswith(b"0\r\n\r\n"):
                answer += connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 ")
        assert connection.recv(1) == b""


def test_an_upgrade_to_http_2_is_ignored(server: CoordinatorServer) -> None:
    with connect(server.control_url) as connection:
        connection.sendall(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
            b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"
        )
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b'{"status":"ok"}')


def test_http_2_without_an_upgrade_is_refused(server: CoordinatorServer) -> None:
    with connect(server.control_url) as connection:
        # The preface of HTTP/2 and an empty SETTINGS frame.
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        assert everything(connection).startswith(b"HTTP/1.1 4")


@pytest.fixture
def few_descriptors(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server that may open few files: the URL of its control server, and its log."""
    log = tmp_path / "server.log"
    command = [sys.executable, "-m", "kafka_shim", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, "--store", "memory:"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert "control=" in ready, log.read_text()
        yield ready.strip().rpartition("control=")[2], log
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the number of descriptors is limited as on Linux")
def test_running_out_of_descriptors_is_one_line_of_the_log(few_descriptors: tuple[str, Path]) -> None:
    url, log = few_descriptors
    with ExitStack() as stack:
        for _ in range(80):
            stack.enter_context(connect(url))
        until(lambda: "accepts no connection" in log.read_text())
    # All of them were let go: it accepts again.
    with connect(url) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert everything(connection).endswith(b'{"status":"ok"}')
    text = log.read_text()
    assert text.count("accepts no connection") == 1
    assert errno.errorcode[errno.EMFILE] not in text
    assert "Traceback" not in text
