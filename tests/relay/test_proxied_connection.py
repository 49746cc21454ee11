"""Bytes of one connection through a relay: all pass, few are read, and few of these change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.fetch import FetchResponse
from kafka_shim.apis.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kafka_shim.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_shim.apis.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kafka_shim.apis.produce import (
    NodeEndpoint,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kafka_shim.apis.wire import DecodeError, Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import encode_request_header, encode_response_header
from kafka_shim.relay.frames import Frames, ReadPlan
from kafka_shim.relay.proxied_connection import (
    MAX_IN_FLIGHT,
    READ_BYTES,
    BrokersAnswer,
    PendingRequest,
    ProxiedConnection,
)
from tests.examples import examples


def asks(request: Message, version: int, correlation_id: int = 7) -> bytes:
    assert request.api_key is not None
    return frame(encode_request_header(request.api_key, version, correlation_id, "me") + request.encode(version))


def answers(key: int, response: Message, version: int, correlation_id: int = 7) -> bytes:
    return frame(encode_response_header(key, version, correlation_id) + response.encode(version))


class Seen:
    """A connection and its bytes."""

    def __init__(self) -> None:
        self.pending: list[PendingRequest] = []
        self.answered: list[tuple[PendingRequest, Any]] = []
        self.notes: list[str] = []
        self.now = 0.0
        self.connection = ProxiedConnection(
            1, 5, "/127.0.0.1",
            clock=lambda: self.now,
            on_request=self.pending.append,
            on_answer=lambda pending, answer: self.answered.append((pending, answer)),
            note=self.notes.append,
        )  # fmt: skip

    def back(self, data: bytes, chunk: int = 1 << 20) -> bytes:
        """Return the bytes for the client, with 1 added to every broker's port."""
        out = b""
        for start in range(0, len(data), chunk):
            for part in self.connection.from_broker(data[start : start + chunk]):
                if isinstance(part, BrokersAnswer):
                    for broker in part.brokers:
                        broker.place.port = broker.port + 1
                    part = part.changed()
                out += part
        return out


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.binary(min_size=8, max_size=60), st.sampled_from(["pass", "read", "hold"]))), st.data())
def test_every_byte_passes_once_and_in_order(frames: list[tuple[bytes, str]], data: st.DataObject) -> None:
    read: list[bytes] = []
    plan = iter([each for _, each in frames])

    def begin(size: int, head: bytes) -> ReadPlan:
        step = next(plan)
        return ReadPlan(size if step != "pass" else 8, hold=step == "hold")

    def end(size: int, part: bytes) -> bytes | None:
        read.append(part)
        return b"<" + part + b">"

    cut = Frames(8, begin, end)
    whole = b"".join(frame(each) for each, _ in frames)
    out = b""
    most = 0
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        out += b"".join(cut.feed(whole[:size]))
        most = max(most, cut.buffered)
        whole = whole[size:]
    assert out == b"".join(b"<" + each + b">" if how == "hold" else frame(each) for each, how in frames)
    assert read == [each if how != "pass" else each[:8] for each, how in frames]
    assert most <= 64


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=200), st.integers(1, 50))
def test_garbage_passes_as_it_came(garbage: bytes, chunk: int) -> None:
    seen = Seen()
    good = asks(HeartbeatRequest("g", 1, "m"), 4)
    there = b"".join(seen.connection.from_client(part) for part in cut(good + garbage, chunk))
    assert (good + garbage).startswith(there)
    assert len(good + garbage) - len(there) < 12
    back = answers(12, HeartbeatResponse(), 4) + garbage
    got = seen.back(back, chunk)
    assert back.startswith(got)
    assert len(back) - len(got) < 12


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def test_an_exchange_is_read_and_passes_untouched() -> None:
    seen = Seen()
    seen.now = 3.0
    request = asks(HeartbeatRequest("g", 1, "m"), 4)
    assert b"".join(map(seen.connection.from_client, cut(request, 5))) == request
    answer = answers(12, HeartbeatResponse(error_code=27), 4)
    assert seen.back(answer, 3) == answer
    ((pending, answered),) = seen.answered
    assert seen.pending == [pending]
    assert (pending.request.group_id, pending.arrived, pending.client_id, answered.error_code) == ("g", 3.0, "me", 27)
    assert seen.connection.buffered == 0
    assert not seen.connection.waiting


def test_a_request_is_taken_up_when_the_one_before_it_is_answered() -> None:
    seen = Seen()
    seen.connection.from_client(asks(HeartbeatRequest("g", 1, "m"), 4, 1) + asks(HeartbeatRequest("h", 1, "m"), 4, 2))
    assert [pending.request.group_id for pending in seen.pending] == ["g"]
    seen.now = 9.0
    seen.back(answers(12, HeartbeatResponse(), 4, 1))
    assert [(pending.request.group_id, pending.arrived) for pending in seen.pending] == [("g", 0.0), ("h", 9.0)]


@pytest.mark.parametrize("version", range(14))
def test_metadata_changes_only_in_its_brokers(version: int) -> None:
    seen = Seen()
    seen.connection.from_client(asks(MetadataRequest(topics=[]), version))
    brokers = [MetadataResponseBroker(node, f"b{node}", 9000 + node) for node in (1, 2)]
    changed = [MetadataResponseBroker(node, f"b{node}", 9001 + node) for node in (1, 2)]
    assert seen.back(answers(3, MetadataResponse(brokers=brokers), version), 11) == answers(
        3, MetadataResponse(brokers=changed), version
    )


@pytest.mark.parametrize("version", range(7))
def test_coordinators_are_changed_unless_there_is_none(version: int) -> None:
    seen = Seen()
    request = FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g"])
    for host, port, expected in (("b", 9000, 9001), ("", -1, -1)):
        seen.connection.from_client(asks(request, version))

        def coordinator_at(port: int, host: str = host) -> FindCoordinatorResponse:
            if version < 4:
                return FindCoordinatorResponse(node_id=1, host=host, port=port)
            each = Coordinator(key="g", node_id=1, host=host, port=port, error_code=0, error_message="")
            return FindCoordinatorResponse(coordinators=[each])

        assert seen.back(answers(10, coordinator_at(port), version)) == answers(10, coordinator_at(expected), version)


def test_new_leaders_in_a_produce_answer_are_changed() -> None:
    seen = Seen()
    seen.connection.from_client(asks(ProduceRequest(acks=-1, timeout_ms=1), 10))
    answer = ProduceResponse(node_endpoints=[NodeEndpoint(1, "b", 9000)])
    assert seen.back(answers(0, answer, 10)) == answers(
        0, ProduceResponse(node_endpoints=[NodeEndpoint(1, "b", 9001)]), 10
    )


@pytest.mark.parametrize("version", [2, 3, 8, 9, 13])
def test_a_produce_without_acknowledgement_is_not_waited_for(version: int) -> None:
    seen = Seen()
    records = [TopicProduceData("t", partition_data=[PartitionProduceData(0, b"x" * 200_000)])]
    names: list[str | None] = [None, "t" * 300] if version >= 3 else [None]
    for name in names:
        for acks in (0, 1):
            for data in cut(asks(ProduceRequest(name, acks, 1, records), version, acks), 5000):
                seen.connection.from_client(data)
    assert [pending.correlation_id for pending in seen.connection.waiting] == [1] * len(names)
    seen.back(answers(0, ProduceResponse(), version, 1))
    assert seen.notes == []


def test_unknown_versions_and_apis_pass_and_are_noted_once() -> None:
    seen = Seen()
    for number in range(3):
        future = frame(encode_request_header(12, 99, number, "me") + b"whatever")
        assert seen.connection.from_client(future) == future
        unknown = frame(encode_request_header(777, 3, number, "me") + b"whatever")
        assert seen.connection.from_client(unknown) == unknown
        back = frame(number.to_bytes(4, "big") + b"so")
        assert seen.back(back + back) == back + back
    assert set(seen.notes) == {"Heartbeat of version 99 cannot be read"}
    assert seen.answered == []


def test_a_request_that_cannot_be_read_passes_with_its_answer() -> None:
    seen = Seen()
    broken = frame(encode_request_header(12, 4, 7, "me") + b"\xff\xff")
    assert seen.connection.from_client(broken) == broken
    answer = answers(12, HeartbeatResponse(error_code=42), 4)
    assert seen.back(answer) == answer
    assert "cannot be read" in seen.notes[0]


def test_large_frames_pass_unbuffered() -> None:
    seen = Seen()
    seen.connection.from_client(frame(encode_request_header(1, 17, 7, "me") + b"fetch"))
    size = READ_BYTES * 5
    answer = frame((7).to_bytes(4, "big") + bytes(size))
    for data in cut(answer, 65536):
        assert seen.connection.from_broker(data) == [data] or seen.connection.buffered == 0
        assert seen.connection.buffered < 100_000
    assert not seen.connection.waiting
    fetched = answers(1, FetchResponse(), 17)
    seen.connection.from_client(frame(encode_request_header(1, 17, 7, "me") + b"fetch"))
    assert seen.back(fetched) == fetched


def test_bytes_after_an_old_sasl_handshake_pass_unread() -> None:
    seen = Seen()
    handshake = frame(encode_request_header(17, 0, 7, "me") + b"\x00\x05PLAIN")
    assert seen.connection.from_client(handshake) == handshake
    token = frame(b"\x00me\x00secret")
    assert seen.connection.from_client(token) == token
    assert seen.back(b"\x00\x00") == b"\x00\x00"
    assert len(seen.notes) == 1


def test_an_answer_to_another_request_ends_the_reading_not_the_passing() -> None:
    seen = Seen()
    seen.connection.from_client(asks(HeartbeatRequest("g", 1, "m"), 4))
    stray = answers(12, HeartbeatResponse(), 4, 8)
    assert seen.back(stray) == stray
    assert seen.answered == []
    more = asks(HeartbeatRequest("g", 1, "m"), 4) * (MAX_IN_FLIGHT + 10)
    assert seen.connection.from_client(more) == more
    assert not seen.connection.waiting


def test_a_frame_of_no_size_breaks_the_stream() -> None:
    def never(size: int, head: bytes) -> ReadPlan:
        raise DecodeError("no", 0, "x")

    cut_ = Frames(4, never, lambda size, part: None)
    assert b"".join([*cut_.feed(b"\xff\xff\xff\xff"), *cut_.feed(b"abcdefgh")]) == b"\xff\xff\xff\xffabcdefgh"
    assert cut_.broken is not None


@pytest.mark.parametrize(("version", "software"), [(5, "sarama 1.31.0"), (3, "sarama 1.31.0"), (2, "")])
def test_the_software_of_a_client_is_noted_and_its_request_passes(version: int, software: str) -> None:
    seen = Seen()
    request = ApiVersionsRequest(
        client_software_name="sarama", client_software_version="1.31.0", cluster_id="shop", node_id=5
    )
    data = asks(request, version)
    assert (b"shop" in data) is (version == 5)
    assert seen.connection.from_client(data[:9]) + seen.connection.from_client(data[9:]) == data
    assert (seen.connection.software, seen.pending, len(seen.connection.waiting)) == (software, [], 1)
    cut = Seen()
    broken = asks(request, 3)[:-6]
    broken = (len(broken) - 4).to_bytes(4) + broken[4:]
    assert (cut.connection.from_client(broken), cut.connection.software, cut.notes) == (broken, "", [])
