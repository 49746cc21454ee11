"""Readers of `/v1/events`: their cost, and the end of readers that do not read."""

import logging
import socket
from collections.abc import Iterable, Iterator

import httpx
import pytest
from click.testing import CliRunner

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.cli import cli
from kafka_shim.testing import CoordinatorServer
from tests.control.test_connections import connect
from tests.hostile.serving import Peer
from tests.waiting import until

KEPT = 2_000_000


@pytest.fixture
def small() -> Iterator[CoordinatorServer]:
    """A server with a small history."""
    server = CoordinatorServer(topics={"orders": 4}, control=True)
    server.start()
    server.kit.history.limit(KEPT, KEPT // 2)
    yield server
    server.stop()


def overflow(server: CoordinatorServer) -> None:
    """Let more happen than the history keeps and sockets buffer."""
    host, _, port = server.bootstrap.partition(":")
    with Peer(socket.create_connection((host, int(port)))) as peer:
        for _ in range(1200):
            peer.ask(HeartbeatRequest("g", 1, "m" * 20_000), 4)
    assert server.kit.history.forgotten_request > 0


def test_a_reader_that_does_not_read_is_cut_off_with_a_line(
    small: CoordinatorServer, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(small.control_url) as reader, caplog.at_level(logging.WARNING, "kafka_shim.control"):
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: small.kit.history.on_change[1:])
        for _ in range(5):
            overflow(small)
        end = b""
        while b"cut off, too far behind" not in end:
            end = end[-100:] + reader.recv(65536)
        until(lambda: "a reader of /v1/events is cut off" in caplog.text)


def test_the_stream_counts_forgotten_events(small: CoordinatorServer) -> None:
    small.kit.history.limit(3000, KEPT // 2)
    for number in range(3):
        small.puppet("billing", ["orders"], client_id=f"m{number}")
        small.group("billing").stable(members=number + 1)
    with small.kit.history.listening():
        overflow(small)
        # An answer leaves before its event is heard of.
        until(lambda: small.kit.history.seen >= 1200)
    # Members go on with their heartbeats, so that requests would be forgotten between two looks.
    small.clock.freeze()
    of_groups, of_requests = small.kit.history.dropped
    assert of_groups > 0
    assert of_requests > 0
    stream = httpx.get(f"{small.control_url}/v1/events?since=0&seconds=0").text
    assert f"\n: forgotten {of_groups}\n" in stream
    assert f"\n: forgotten requests {of_requests}\n" in stream
    assert f"(the oldest {of_groups:,} events are forgotten)" in small.kit.story()
    found = CliRunner().invoke(cli, ["trace", "summary", "--control", small.control_url])
    assert f"has forgotten its oldest {of_groups:,} events." in found.stderr
    assert f"has forgotten its oldest {of_requests:,} requests." in found.stderr


def test_a_stream_of_many_requests_keeps_the_reason_of_a_rebalance(small: CoordinatorServer) -> None:
    small.puppet("billing", ["orders"], client_id="one")
    small.group("billing").stable(members=1)
    with small.kit.history.listening():
        overflow(small)
        until(lambda: small.kit.history.seen >= 1200)
    why = httpx.get(f"{small.control_url}/v1/groups/billing/why").json()
    assert why["verdict"].startswith("Rebalanced once")
    (rebalance,) = why["rebalances"]
    assert (rebalance["generation"], rebalance["cause"]) == (1, "NEW_MEMBER")


def test_a_stream_of_one_group_has_every_event_of_it_in_order(small: CoordinatorServer) -> None:
    with httpx.stream("GET", f"{small.control_url}/v1/events?group=billing&form=story") as stream:
        lines = stream.iter_lines()
        assert next(lines) == ": events of the coordinator"
        small.puppet("billing", ["orders"], client_id="one")
        small.puppet("other", ["orders"], client_id="two")
        told = [line for line in (next(lines) for _ in range(22)) if line.startswith("data: ")]
    assert all("billing" in line for line in told)
    beginnings = [line.partition("billing  ")[2][:20] for line in told[:2]]
    assert beginnings == ["the group is created", "one joins from 127.0"]


def test_batches_have_the_same_events_in_fewer_messages(small: CoordinatorServer) -> None:
    small.puppet("billing", ["orders"])
    small.group("billing").stable(members=1)
    # Its heartbeats stop.
    small.clock.freeze()

    def lines_and_messages(form: str) -> tuple[list[str], int]:
        url = f"{small.control_url}/v1/events?since=0&seconds=0&group=billing&form={form}"
        text = httpx.get(url).text
        return [line for line in text.splitlines() if line.startswith("data: ")], text.count("\nid: ")

    events, messages = lines_and_messages("events")
    batched, batches = lines_and_messages("batches")
    assert batched[: len(events)] == events
    assert len(events) == messages > batches


def created(server: CoordinatorServer, groups: Iterable[int]) -> None:
    def create() -> None:
        for number in groups:
            server.kit.create_group(f"g{number}")

    server.call(create)


def test_a_story_is_told_in_pieces_that_clients_may_be_served_between(small: CoordinatorServer) -> None:
    created(small, range(3000))
    pieces = small.call(lambda: list(small.kit.story_pieces()))
    assert len(pieces) > 10
    assert max(map(len, pieces)) < 300
    lines = [line for piece in pieces for line in piece]
    assert len(lines) == 3000
    assert httpx.get(f"{small.control_url}/v1/story").json() == {"story": lines}
    one = httpx.get(f"{small.control_url}/v1/groups/g2900/story").json()
    assert [line[8:] for line in one["story"]] == ["  g2900  the group is created"]


def test_a_story_names_what_is_forgotten_while_it_is_told_and_ends_where_it_began(small: CoordinatorServer) -> None:
    created(small, range(1000))
    rest = small.call(small.kit.story_pieces)
    first = small.call(lambda: next(rest))
    small.kit.history.limit(100_000, KEPT)
    created(small, range(1000, 1100))
    gap, *lines = small.call(lambda: [line for piece in rest for line in piece])
    assert "  g0  the group is created" in first[0]
    assert gap == f"(the oldest {small.kit.history.dropped[0]:,} events are forgotten)"
    assert "  g999  the group is created" in lines[-1]
    assert len(first) + len(lines) < 1000
