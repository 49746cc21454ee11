"""Turns of long requests, pipelined requests and long frames: others are served in between."""

from __future__ import annotations

import select
import threading
from pathlib import Path
from typing import Any

import pytest

from kafka_shim.apis.describe_groups import DescribeGroupsRequest
from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.broker.fetches import IN_A_TURN
from kafka_shim.server import exchange, parts, session
from kafka_shim.server.table import Endpoint
from tests.hostile.serving import request_bytes, serving
from tests.server.test_failures import once
from tests.server.turns import Turns
from tests.server.wire import Wire, cluster, request

LONG_REQUEST = request(DescribeGroupsRequest(["x" * 30_000] * 3), 5)


def test_long_frame_is_served_at_once_where_none_was_before_it() -> None:
    wire = Wire(cluster())
    waiting = Turns(wire)
    for _ in range(2):
        wire.receive(LONG_REQUEST)
        assert len(wire.answers()) == 1
        waiting.turn()


def test_long_frame_waits_for_its_turn_undecoded() -> None:
    wire = Wire(cluster())
    waiting = Turns(wire)
    assert waiting.begin()
    heartbeat = request(HeartbeatRequest("g", 1, "m"), 3, 2)
    wire.receive(LONG_REQUEST + heartbeat)
    waiting.turn()
    assert not wire.sent
    waiting.turn()
    assert [answer[:4] for answer in wire.answers()] == [(number).to_bytes(4) for number in (1, 2)]
    wire.receive(heartbeat)
    assert [answer[:4] for answer in wire.answers()] == [(2).to_bytes(4)]


def test_client_with_the_longest_request_on_its_way_loses_its_connection_beyond_the_bound(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = Wire(cluster())
    longer, later = Wire(first.cluster), Wire(first.cluster)
    waiting = Turns(first, longer, later)
    monkeypatch.setattr(parts, "MAX_COMING_BYTES", len(LONG_REQUEST) * 3)
    first.receive(LONG_REQUEST[:-1])
    longer.receive(frame(bytes(len(LONG_REQUEST) * 2 - 1000))[:-1])
    assert waiting.request_bytes == len(LONG_REQUEST) * 3 - 998
    later.receive(LONG_REQUEST[:-1])
    assert [each.is_closed for each in (first, longer, later)] == [False, True, False]
    assert waiting.request_bytes == 2 * (len(LONG_REQUEST) - 1)
    assert "the longest while all that are not served yet take more than" in caplog.text
    # Those that wait for their turn count until it comes.
    assert waiting.begin()
    for each in (first, later):
        each.receive(LONG_REQUEST[-1:])
    assert waiting.request_bytes == 2 * (len(LONG_REQUEST) - 4)
    waiting.all()
    assert waiting.request_bytes == 0
    assert len(first.answers()) == len(later.answers()) == 1


def test_long_request_of_a_client_that_goes_is_counted_no_longer() -> None:
    wire = Wire(cluster())
    waiting = Turns(wire)
    wire.receive(LONG_REQUEST[:-1])
    assert waiting.request_bytes == len(LONG_REQUEST) - 1
    wire.close()
    assert waiting.request_bytes == 0


def test_long_request_that_comes_as_a_whole_counts_while_it_waits() -> None:
    wire = Wire(cluster())
    waiting = Turns(wire)
    assert waiting.begin()
    wire.receive(LONG_REQUEST)
    assert waiting.request_bytes == len(LONG_REQUEST) - 4
    waiting.all()
    assert waiting.request_bytes == 0


def test_request_at_the_limit_is_not_counted() -> None:
    wire = Wire(cluster())
    waiting = Turns(wire)
    heartbeat = request(HeartbeatRequest("g", 1, "m"), 3)[4:]
    limit = frame(heartbeat + bytes(session.LONG_FRAME - len(heartbeat)))
    wire.receive(limit[:-1])
    assert waiting.request_bytes == 0


def test_short_request_on_its_way_is_not_counted() -> None:
    wire = Wire(cluster())
    waiting = Turns(wire)
    wire.receive(LONG_REQUEST[: session.LONG_FRAME])
    assert waiting.request_bytes == 0


def test_pipelined_requests_take_turns_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PIPELINED", -1.0)
    wire = Wire(cluster())
    waiting = Turns(wire)
    heartbeats = [request(HeartbeatRequest("g", 1, "m"), 3, number) for number in range(1, 6)]
    wire.receive(b"".join(heartbeats[:4]))
    assert len(wire.answers()) == 1
    waiting.turn()
    wire.receive(heartbeats[4])
    sent = wire.answers()
    while waiting._exchanges:
        waiting.turn()
        sent += wire.answers()
        assert len(sent) <= 4
    assert [int.from_bytes(answer[:4]) for answer in sent] == [2, 3, 4, 5]
    wire.receive(heartbeats[0])
    assert len(wire.answers()) == 1


def test_client_that_goes_between_its_pipelined_requests_is_not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PIPELINED", -1.0)
    wire = Wire(cluster())
    waiting = Turns(wire)
    wire.receive(request(HeartbeatRequest("g", 1, "m"), 3) * 3)
    wire.close()
    waiting.turn()
    assert not waiting._exchanges
    assert len(wire.answers()) == 1


HUGE_REQUEST = request(
    OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup("g", topics=[OffsetFetchRequestTopics("t" * 100, [0, 1]) for _ in range(6000)])]
    ),
    8,
)


def test_huge_request_is_decoded_served_and_answered_in_three_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "TURN", 0.0)
    heartbeat = request(HeartbeatRequest("g", 1, "m"), 3, 2)
    at_once, wire = Wire(cluster()), Wire(cluster())
    waiting = Turns(wire)
    for each in (at_once, wire):
        each.receive(HUGE_REQUEST + heartbeat)
    endpoint = wire.session.node.table.find(HUGE_REQUEST[4:])
    assert endpoint is not None
    for calls in (0, 1):
        assert not wire.sent
        waiting.turn()
        assert endpoint.calls == calls
    assert not wire.sent
    waiting.turn()
    while waiting._exchanges:
        # It is long, so it is sent as the client reads.
        waiting.turn()
    assert wire.sent == at_once.sent


def test_answer_that_is_too_long_for_its_texts_is_not_encoded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exchange, "MAX_ANSWER_BYTES", len(HUGE_REQUEST) - 100_000)
    monkeypatch.setattr(exchange, "_VAST", 512 * 1024)
    wire = Wire(cluster())
    waiting = Turns(wire)
    wire.receive(HUGE_REQUEST)
    endpoint = wire.session.node.table.find(HUGE_REQUEST[4:])
    assert endpoint is not None

    def body(response: Message) -> bytes:
        raise AssertionError

    endpoint.body = body
    while waiting._exchanges:
        waiting.turn()
    assert wire.is_closed
    assert "the answer to OffsetFetch, version 8, is longer than" in caplog.text


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_connection_that_ends_between_the_turns_of_its_huge_request_is_not_served(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(parts, "TURN", 0.0)
    wire = Wire(cluster())
    waiting = Turns(wire)
    wire.receive(HUGE_REQUEST)
    for _ in range(turns):
        waiting.turn()
    wire.close()
    for _ in range(3 - turns):
        if waiting._exchanges:
            waiting.turn()
    assert not waiting._exchanges
    assert not wire.sent


HUGE_IN_PARTS = request(DescribeGroupsRequest([f"{number:040}" for number in range(15_000)]), 5)


@pytest.mark.parametrize("data", [HUGE_REQUEST, HUGE_IN_PARTS], ids=["answered at once", "answered in parts"])
def test_huge_request_is_answered_before_the_next_one_is_decoded(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(parts, "TURN", 0.0)
    made = cluster()
    wires = [Wire(made) for _ in range(4)]
    waiting = Turns(wires[0])
    decoded = 0
    decode = Endpoint.decode

    def counted(endpoint: Endpoint, frame: bytes, body: int, broker: Any) -> Message:
        nonlocal decoded
        decoded += 1
        return decode(endpoint, frame, body, broker)

    monkeypatch.setattr(Endpoint, "decode", counted)
    for wire in wires:
        wire.receive(data)
    wires[2].close()
    while waiting._exchanges:
        waiting.turn()
        # A long answer is sent in turns of its own.
        answered = [wire for wire in wires if wire.sent or wire.session._sending is not None]
        assert decoded <= len(answered) + 1
    assert [bool(wire.sent) for wire in wires] == [True, True, False, True]
    assert decoded == 3


@pytest.mark.parametrize("turns", [1, 2])
def test_huge_request_is_decoded_when_the_connection_of_the_one_before_has_ended(
    monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    monkeypatch.setattr(parts, "TURN", 0.0)
    made = cluster()
    ending, other = Wire(made), Wire(made)
    waiting = Turns(ending)
    for wire in (ending, other):
        wire.receive(HUGE_REQUEST)
    for _ in range(turns):
        waiting.turn()
    ending.close()
    while waiting._exchanges:
        waiting.turn()
    assert other.sent


def test_huge_request_is_decoded_while_the_one_before_is_parked() -> None:
    made = cluster(topics={"t": 1})
    parked, other = Wire(made), Wire(made)
    waiting = Turns(parked)
    asked = [FetchPartition(number, partition_max_bytes=1) for number in range(20_000)]
    parked.receive(
        request(FetchRequest(max_wait_ms=10_000, min_bytes=1, topics=[FetchTopic("t", partitions=asked)]), 11)
    )
    other.receive(HUGE_REQUEST)
    while waiting._exchanges:
        waiting.turn()
    assert not parked.sent
    assert other.sent


def test_huge_request_without_an_encoding_is_answered_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(cluster())
    waiting = Turns(wire)
    wire.receive(HUGE_REQUEST)
    endpoint = wire.session.node.table.find(HUGE_REQUEST[4:])
    monkeypatch.setattr(endpoint, "body", once(endpoint.body))
    while waiting._exchanges:
        waiting.turn()
    assert len(wire.answers()) == 1
    assert wire.cluster.failures.by_border == {"answer": 1}


def test_malformed_long_frame_ends_its_connection_in_its_turn() -> None:
    wire = Wire(cluster())
    waiting = Turns(wire)
    assert waiting.begin()
    size = 12 + 90_000
    wire.receive(size.to_bytes(4) + request(DescribeGroupsRequest(["x"]), 5)[4:16] + b"\xff" * 90_000)
    waiting.turn()
    assert not wire.is_closed
    waiting.turn()
    assert wire.is_closed


def test_connection_that_ends_before_the_turn_of_its_long_frame_is_not_served() -> None:
    wire = Wire(cluster())
    waiting = Turns(wire)
    assert waiting.begin()
    wire.receive(LONG_REQUEST)
    wire.close()
    waiting.turn()
    waiting.turn()
    assert not wire.sent


def test_long_frames_of_many_connections_take_turns_with_others(tmp_path: Path) -> None:
    many = frame(request_bytes(DescribeGroupsRequest([f"n{number}" for number in range(12_000)]), 5))
    with serving(tmp_path) as server, server.connect() as bystander:
        peers = [server.connect() for _ in range(8)]
        senders = [threading.Thread(target=peer.sock.sendall, args=(many,)) for peer in peers]
        for sender in senders:
            sender.start()
        waiting = {peer.sock for peer in peers}
        answers = 0
        while waiting:
            assert bystander.ask(HeartbeatRequest("g", 1, "m"), 3).error_code == 25
            answers += 1
            for sock in select.select(list(waiting), [], [], 0)[0]:
                waiting.discard(sock)
        assert answers > 8
        for sender, peer in zip(senders, peers, strict=True):
            sender.join()
            peer.sock.close()


def test_fetch_of_a_session_of_many_unknown_partitions_takes_turns_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "TURN", 0.0)
    made = cluster()
    wire, other = Wire(made), Wire(made)
    waiting = Turns(wire)
    unknown = [FetchPartition(number, partition_max_bytes=1) for number in range(1000)]
    full = FetchRequest(max_wait_ms=0, session_epoch=0, topics=[FetchTopic("nope", partitions=unknown)])
    wire.receive(request(full, 12))
    waiting.all()
    (first,) = wire.answers()
    answer, _ = FetchResponse.decoder(12)(first, 5)
    fetch = request(FetchRequest(max_wait_ms=0, session_id=answer.session_id, session_epoch=1), 12)
    wire.receive(fetch)
    heartbeats = 0
    while not wire.sent:
        other.receive(request(HeartbeatRequest("g", 1, "m"), 3))
        heartbeats += len(other.answers())
        waiting.turn()
    assert heartbeats >= 1000 // IN_A_TURN
    (second,) = wire.answers()
    answer, _ = FetchResponse.decoder(12)(second, 5)
    assert [each.error_code for each in answer.responses[0].partitions] == [3] * 1000
