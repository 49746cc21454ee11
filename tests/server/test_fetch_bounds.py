"""Fetches of many clients that are answered together: the memory of their answers has one bound."""

from __future__ import annotations

import pytest

from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kafka_shim.broker import fetches
from kafka_shim.broker.batches import parse_batch
from kafka_shim.server import parts
from kafka_shim.server.cluster import Cluster
from tests.broker.context import batch
from tests.server.test_failures import once
from tests.server.turns import Turns
from tests.server.wire import Wire, cluster, read, request

BOUND = 1 << 20
BATCH = batch(b"v" * 200_000)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(parts, "MAX_HELD_BYTES", BOUND)
    monkeypatch.setattr(parts, "TURN", 0.0)
    return BOUND


def connections(made: Cluster, count: int) -> tuple[Turns, list[Wire]]:
    """Return clients; their answers have turns and a bound."""
    wires = [Wire(made) for _ in range(count)]
    turns = Turns(*wires)
    turns.bound_fetches(*wires)
    return turns, wires


def append(made: Cluster, index: int = 0) -> None:
    topic = made.topics.named("t")
    assert topic is not None
    topic.partitions[index].log.append(parse_batch(BATCH, max_bytes=BOUND), None, 0.0)


def asked(*indexes: int, size: int = 1 << 30) -> list[FetchTopic]:
    return [FetchTopic("t", partitions=[FetchPartition(each, partition_max_bytes=size) for each in indexes])]


def batches_of(wire: Wire) -> int:
    """Return the number of batches in the answers."""
    answers: list[FetchResponse] = [read(each, FetchResponse, 12)[1] for each in wire.answers()]
    records = [each.records or b"" for answer in answers for topic in answer.responses for each in topic.partitions]
    return sum(map(len, records)) // len(BATCH)


def test_fetches_that_expire_together_share_the_room_for_records(bound: int) -> None:
    made = cluster(topics={"t": 1})
    turns, wires = connections(made, 4)
    for _ in range(4):
        append(made)
    for wire in wires:
        wire.receive(request(FetchRequest(max_wait_ms=500, min_bytes=bound, topics=asked(0)), 12))
    assert not any(wire.sent for wire in wires)
    made.ticks.fire(101.0)
    turns.all()
    # Half of the bound for records, and at least one batch.
    assert [batches_of(wire) for wire in wires] == [2, 1, 1, 1]
    assert not any(wire.is_closed for wire in wires)
    assert turns.answer_bytes == 0


def test_fetches_answered_in_turns_share_the_room_for_records(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "AT_ONCE", 2)
    monkeypatch.setattr(fetches, "IN_A_TURN", 1)
    made = cluster(topics={"t": 4})
    turns, wires = connections(made, 4)
    sessions = []
    for wire in wires:
        wire.receive(request(FetchRequest(max_wait_ms=0, session_epoch=0, topics=asked(*range(4))), 12))
        sessions.append(wire.answer(FetchResponse, 12)[1].session_id)
    for index in range(4):
        append(made, index)
    for wire, session in zip(wires, sessions, strict=True):
        wire.takes_all = False
        wire.receive(request(FetchRequest(max_wait_ms=0, session_id=session, session_epoch=1), 12))
    turns.all()
    assert sum(batches_of(wire) for wire in wires) <= bound // 2 // len(BATCH) + len(wires)
    assert not any(wire.is_closed for wire in wires)


def test_overtaken_fetch_gives_its_room_back(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "AT_ONCE", 2)
    monkeypatch.setattr(fetches, "IN_A_TURN", 2)
    made = cluster(topics={"t": 4})
    turns, wires = connections(made, 2)
    wires[0].receive(request(FetchRequest(max_wait_ms=0, session_epoch=0, topics=asked(*range(4))), 12))
    session = wires[0].answer(FetchResponse, 12)[1].session_id
    for index in range(4):
        append(made, index)
    wires[0].receive(request(FetchRequest(max_wait_ms=0, session_id=session, session_epoch=1), 12))
    turns.turn()
    assert turns.answer_bytes == 2 * len(BATCH)
    wires[1].receive(
        request(FetchRequest(max_wait_ms=0, session_id=session, session_epoch=2, topics=asked(0, size=1)), 12)
    )
    turns.turn()
    assert wires[0].answer(FetchResponse, 12)[1].error_code == 71
    assert wires[0].session not in turns._answers._of


def test_answer_without_its_records_takes_no_room(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "LONG", 1)
    made = cluster(topics={"t": 1})
    turns, (wire, other) = connections(made, 2)
    for _ in range(4):
        append(made)
    fetch = request(FetchRequest(max_wait_ms=0, min_bytes=0, topics=asked(0)), 12)
    endpoint = wire.session.node.table.find(fetch[4:])
    assert endpoint is not None
    monkeypatch.setattr(endpoint, "body", once(endpoint.body))
    wire.receive(fetch)
    assert wire.answer(FetchResponse, 12)[1].error_code == -1
    assert turns.answer_bytes == 0
    made.topics.settings.quotas[(("client-id", "test"),)] = {"consumer_byte_rate": 1.0}
    made.quotas_changed()
    other.receive(fetch)
    assert other.answer(FetchResponse, 12)[1].throttle_time_ms > 0
    assert turns.answer_bytes == 0


def test_connection_that_ends_for_room_amid_its_answer_is_no_error(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "AT_ONCE", 1)
    made = cluster(topics={"t": 2})
    turns, (wire, other) = connections(made, 2)
    wire.receive(request(FetchRequest(max_wait_ms=0, session_epoch=0, topics=asked(0, 1)), 12))
    session = wire.answer(FetchResponse, 12)[1].session_id
    for index in (0, 1):
        append(made, index)
    wire.receive(request(FetchRequest(max_wait_ms=0, session_id=session, session_epoch=1), 12))
    monkeypatch.setattr(parts, "MAX_HELD_BYTES", len(BATCH))
    monkeypatch.setattr(fetches, "LONG", 1)
    turns.hold(other.session, len(BATCH) // 2)
    turns.all()
    assert (wire.is_closed, other.is_closed) == (True, False)
    assert made.failures.by_border == {}
