"""Requests of a hostile client of the control server change nothing and do not delay the coordinator's clients."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from kafka_shim.control.operations.groups import CreateGroup
from kafka_shim.control.operations.waits import AnyWait
from kafka_shim.control.problems import invalid
from kafka_shim.control.server import MAX_CONNECTIONS
from kafka_shim.testing import CoordinatorServer
from tests.waiting import PATIENCE_S

JSON = "Content-Type: application/json\r\nConnection: close\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[CoordinatorServer]:
    with CoordinatorServer(topics={"orders": 4}, control=True) as server:
        puppet = server.puppet("alive", ["orders"], client_id="one")
        server.group("alive").stable(members=1)
        puppet.commit({("orders", 0): 5})
        server.group("alive").committed("orders", 0, at_least=5)
        yield server


@pytest.fixture(autouse=True)
def nothing_changes(server: CoordinatorServer) -> Iterator[None]:
    """Groups, offsets, topics, faults and time are as before, and members noticed nothing."""
    before = state(server)
    yield
    server.group("alive").no_rebalance_for(heartbeats=3)
    assert state(server) == before


def state(server: CoordinatorServer) -> Any:
    with httpx.Client(base_url=server.control_url) as http:
        looked_at = ("groups", "groups/alive", "topics", "faults", "barriers", "puppets", "brokers")
        shown = [http.get(f"/v1/{path}").json() for path in looked_at]
        return shown, http.get("/v1/clock").json()["frozen"]


def connect(server: CoordinatorServer) -> socket.socket:
    found = urlsplit(server.control_url)
    assert found.hostname is not None
    return socket.create_connection((found.hostname, found.port or 0), timeout=20)


def answer_to(server: CoordinatorServer, *pieces: bytes, say_end: bool = False) -> bytes:
    """All that comes back until the server closes, or is silent after it has said something."""
    with connect(server) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
            if say_end:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            # It has closed while it was still being sent to.
            pass
        found = b""
        try:
            while data := connection.recv(65536):
                found += data
                connection.settimeout(0.5)
        except OSError:
            pass
        return found


def post(path: str, body: bytes, headers: str = JSON, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {size}\r\n\r\n".encode() + body


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"group": "\xff"}',
        b'{"group": "\\ud800"}',
        b'{"group": 1}',
        b'{"group": ["a"]}',
        b'{"group": ""}',
        b'{"group": "' + b"x" * 9000 + b'"}',
        b'{"group": "a", "ephemeral": "yes"}',
        b'{"group": "a", "heartbeat_bound_ms": 1e400}',
        b'{"group": "a", "heartbeat_bound_ms": ' + b"9" * 5000 + b"}",
        b'{"group": "a", "heartbeat_bound_ms": NaN}',
        b'{"group": "a", "nobody": "knows this"}',
        b"[" * 100_000,
        b'{"group": ' + b'{"a":' * 100_000,
        b"\0" * 1000,
    ],
    ids=lambda body: repr(body[:40]),
)
def test_an_invalid_body_is_refused(server: CoordinatorServer, body: bytes) -> None:
    answer = answer_to(server, post("/v1/groups", body))
    assert status(answer) == 400
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["message"].endswith(".")


@pytest.mark.parametrize("length", [2**20 + 1, 10**15])
def test_a_huge_body_is_refused_before_it_has_come(server: CoordinatorServer, length: int) -> None:
    assert status(answer_to(server, post("/v1/groups", b"{", length=length), b" " * 2**20)) == 413


def test_a_body_without_end_is_refused(server: CoordinatorServer) -> None:
    head = f"POST /v1/groups HTTP/1.1\r\nHost: localhost\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n".encode()
    assert status(answer_to(server, head, *[b"10000\r\n" + b" " * 65536 + b"\r\n"] * 40)) == 413


@pytest.mark.parametrize(
    ("request_", "statuses"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", (0, 400)),
        (b"GET\r\n\r\n", (0, 400)),
        (b"GET /v1/groups HTTP/9.9\r\nHost: localhost\r\n\r\n", (0, 200, 400, 505)),
        (b"GET /v1/groups/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", (0, 400)),
        (b"GET /v1/groups/%FF HTTP/1.1\r\nHost: localhost\r\n\r\n", (400,)),
        (b"GET /v1/groups/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", (404,)),
        (b"GET /v1/groups/%0d%0aX-Injected:%201 HTTP/1.1\r\nHost: localhost\r\n\r\n", (404,)),
        (b"GET /v1/groups/alive HTTP/1.1\r\nHost: localhost\r\nX: a\r\n\tb\r\n\r\n", (0, 200, 400)),
        (b"GET /v1/groups HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 300_000 + b"\r\n\r\n", (0, 431)),
        (b"DELETE /v1/groups/../../health HTTP/1.1\r\nHost: localhost\r\n\r\n", (404,)),
        (b"DELETE /v1/groups/ HTTP/1.1\r\nHost: localhost\r\n\r\n", (404,)),
        (b"DELETE /v1/faults/9999999999999999999999 HTTP/1.1\r\nHost: localhost\r\n\r\n", (404,)),
        (b"GET /v1/events?seconds=nan HTTP/1.1\r\nHost: localhost\r\n\r\n", (400,)),
        (
            b"GET /v1/groups HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            (0, 400, 200),
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1000, (421,)),
        (b"\0" * 100_000, (0, 400, 431)),
    ],
    ids=lambda each: repr(each[:40]) if isinstance(each, bytes) else "",
)
def test_an_invalid_request_ends_only_its_own_connection(
    server: CoordinatorServer, request_: bytes, statuses: tuple[int, ...]
) -> None:
    answer = answer_to(server, request_, say_end=0 in statuses)
    assert status(answer) in statuses
    assert b"x-injected" not in answer.lower()


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "attacker.example"}, 421),
        ({"Host": "127.0.0.1.attacker.example"}, 421),
        ({"Host": "localhost@attacker.example"}, 421),
        ({"Host": ""}, 421),
        ({"Origin": "http://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ],
)
def test_a_request_of_a_foreign_page_is_refused(server: CoordinatorServer, headers: dict[str, str], code: int) -> None:
    headers = {"Content-Type": "application/json"} | headers
    answer = httpx.post(f"{server.control_url}/v1/groups", content=b'{"group": "of the attacker"}', headers=headers)
    assert answer.status_code == code
    assert answer.json()["message"].endswith(".")
    assert "access-control-allow-origin" not in answer.headers


def test_a_request_of_an_own_page_is_served(server: CoordinatorServer) -> None:
    assert httpx.get(f"{server.control_url}/v1/groups", headers={"Origin": server.control_url}).status_code == 200


def test_a_preflight_is_not_granted(server: CoordinatorServer) -> None:
    headers = {"Origin": "http://attacker.example", "Access-Control-Request-Method": "POST"}
    answer = httpx.request("OPTIONS", f"{server.control_url}/v1/groups", headers=headers)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "authorization",
    [b"Bearer wrong", b"Bearer", b"Bearer s3cre", b"Bearer s3cret2", b"Basic s3cret", b"s3cret", b"\xff" * 9999],
)
def test_without_the_token_nothing_is_done(server: CoordinatorServer, authorization: bytes) -> None:
    url = server.wait(server.kit.serve_control, "127.0.0.1", 0, "s3cret")
    headers = {b"authorization": authorization, b"content-type": b"application/json"}
    with httpx.Client(base_url=url, headers=headers) as http:
        for method, path in (("POST", "/v1/groups"), ("DELETE", "/v1/groups/alive"), ("POST", "/v1/clock")):
            answer = http.request(method, path, content=b'{"group": "x", "frozen": true}')
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"


def test_a_request_refused_before_its_body_is_read_ends_its_connection(server: CoordinatorServer) -> None:
    head = b"POST /v1/groups HTTP/1.1\r\nHost: attacker.example\r\nContent-Length: 16\r\n\r\n"
    with connect(server) as connection:
        connection.sendall(head)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 421 ")
    assert b"\r\nconnection: close\r\n" in answer.lower()


def test_requests_one_behind_the_other_are_answered_in_order(server: CoordinatorServer) -> None:
    one = b"GET /v1/groups/alive/story HTTP/1.1\r\nHost: localhost\r\n\r\n"
    other = b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
    found = answer_to(server, (one + other) * 100)
    assert found.count(b"HTTP/1.1 ") >= 1
    assert found.count(b"HTTP/1.1 500") == 0


def test_connections_that_say_little_are_bounded_and_end(server: CoordinatorServer) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(server)) for _ in range(MAX_CONNECTIONS + 20)]
        refused = 0
        for connection in slow:
            try:
                connection.sendall(b"GET /health HTTP/1.1\r\nHost: local")
            except OSError:
                refused += 1
        server.group("alive").no_rebalance_for(heartbeats=5)
        for connection in slow[MAX_CONNECTIONS:]:
            connection.settimeout(10)
            assert received_nothing(connection)
        # The first ones are closed too, when they have said too little for too long.
        slow[0].settimeout(20)
        assert received_nothing(slow[0])


def received_nothing(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_a_flood_of_requests_leaves_members_alone(server: CoordinatorServer) -> None:
    ends = time.monotonic() + 1.0
    statuses = []

    def ask() -> None:
        with httpx.Client(base_url=server.control_url, timeout=PATIENCE_S) as http:
            statuses.append(http.post("/v1/faults", content=b"[" * 50_000).status_code)
            while time.monotonic() < ends:
                statuses.append(http.post("/v1/faults", content=b"[" * 50_000).status_code)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    server.group("alive").no_rebalance_for(heartbeats=5)
    for thread in threads:
        thread.join()
    assert set(statuses) == {415}


def test_a_client_that_does_not_read_does_not_delay_the_end() -> None:
    with CoordinatorServer(control=True) as server:
        groups = 20_000
        server.call(fill, server, groups)
        found = urlsplit(server.control_url)
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect((found.hostname, found.port))
        stuck.sendall(b"GET /v1/groups HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
        assert stuck.recv(100).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
    assert time.monotonic() - began < 5
    stuck.close()


def fill(server: CoordinatorServer, groups: int) -> None:
    for number in range(groups):
        server.kit.create_group(f"group-{number:06}")


def test_a_field_with_a_long_name_is_refused_without_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_shim.apis.similar.get_close_matches", lambda *_: pytest.fail("compared"))
    long = b"x" * 900_000
    for body, text in ((CreateGroup, b'{"%s": 1}' % long), (AnyWait, b'{"for": "%s"}' % long)):
        with pytest.raises(msgspec.ValidationError) as caught:
            msgspec.json.decode(text, type=body)
        problem = invalid(caught.value, body, msgspec.json.decode(text))
        assert problem.status == 400
        assert len(str(problem)) <= 2000


def test_what_a_body_repeats_is_bounded(server: CoordinatorServer) -> None:
    body = {"values": ["x"] * 1000, "key": "k" * 10_000}
    with httpx.Client(base_url=server.control_url, timeout=PATIENCE_S) as http:
        for more in ({}, {"key": None, "headers": {"h": "v" * 10_000}}):
            answer = http.post("/v1/topics/orders/records", json=body | more)
            assert (answer.status_code, answer.json()["error"]) == (409, "INVALID_RECORD")
        offsets = [{"topic": "orders", "partition": 0, "offset": 1}] * 10_001
        assert http.post("/v1/groups/alive/rewind", json={"offsets": offsets}).status_code == 400
        config = {f"name{number}": 1 for number in range(1001)}
        assert http.post("/v1/config", json={"config": config}).status_code == 400
        assert http.get("/v1/topics/orders/records").json()["records"] == []


def test_few_unknown_settings_are_compared_with_the_known_ones(
    server: CoordinatorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    monkeypatch.setattr("kafka_shim.apis.similar.get_close_matches", lambda name, *_: compared.append(name) or [])
    config = {f"unknown.{number}": 1 for number in range(900)}
    with httpx.Client(base_url=server.control_url, timeout=PATIENCE_S) as http:
        assert http.post("/v1/config", json={"config": config, "topic": "orders"}).status_code == 409
    assert 0 < len(compared) <= 20
