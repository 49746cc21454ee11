"""Invalid bytes: closed or answered as Kafka does, one log line says why, other clients notice nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_shim.apis.api_versions import ApiVersionsRequest
from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.metadata import MetadataRequest
from kafka_shim.apis.offset_fetch import OffsetFetchRequest
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.sync_group import SyncGroupRequest
from kafka_shim.apis.wire.frames import frame
from tests.examples import examples
from tests.hostile.serving import Peer, Serving, request_bytes, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("hostile"), "--topic", "orders:4") as running:
        yield running


@pytest.fixture(scope="module")
def witness(server: Serving) -> Iterator[Peer]:
    """Another client of the same server. The server must always answer it."""
    with server.connect() as peer:
        yield peer


def still_served(server: Serving, witness: Peer) -> bool:
    return server.alive and witness.ask(HeartbeatRequest("nobody", 1, "m"), 4).error_code == 25


HEADER = struct.pack(">hhih", 12, 3, 7, -1)

CLOSED = {
    "negative size": struct.pack(">i", -1),
    "most negative size": struct.pack(">i", -(2**31)),
    "a size above the limit": struct.pack(">i", 104_857_601),
    "size 0": frame(b""),
    "less than a header": frame(b"\x00\x0c\x00"),
    "unknown key": frame(struct.pack(">hhih", 999, 0, 1, -1)),
    "negative key": frame(struct.pack(">hhih", -1, 0, 1, -1)),
    "a version that is not": frame(struct.pack(">hhih", 12, 99, 1, -1)),
    "a negative version": frame(struct.pack(">hhih", 12, -1, 1, -1)),
    "a body cut short": frame(HEADER + b"\x00\x05ab"),
    "no body": frame(HEADER),
    "null for what may not be null": frame(HEADER + b"\xff\xff" + bytes(20)),
    "a client id past the end": frame(struct.pack(">hhih", 12, 3, 7, 30_000) + b"x"),
    "an array longer than the frame": frame(struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", 2**31 - 1)),
    "too many elements": frame(struct.pack(">hhih", 3, 1, 7, -1) + struct.pack(">i", 100_001) + bytes(2 * 100_001)),
    "too many tagged fields": frame(
        struct.pack(">hhih", 12, 4, 7, -1) + b"\x00\x02g" + bytes(4) + b"\x02m\x00\x91\x4e" + bytes(2 * 10_001)
    ),
    "a compact length past the end": frame(struct.pack(">hhih", 12, 4, 7, -1) + b"\x00\xff\xff\xff\xff\x0f"),
    "a varint that does not end": frame(struct.pack(">hhih", 12, 4, 7, -1) + b"\x00" + b"\xff" * 12),
    "tagged fields past the end": frame(struct.pack(">hhih", 12, 4, 7, -1) + b"\x05\x00\xff\x01"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
}


@pytest.mark.parametrize("name", CLOSED)
def test_the_connection_is_closed_and_the_log_says_why(server: Serving, witness: Peer, name: str) -> None:
    before = len(server.log_lines())
    with server.connect() as peer:
        peer.sock.sendall(CLOSED[name])
        # The client leaves its side open: the end of a connection overtakes a long request that waits for its turn.
        assert peer.read_frame() is None
    assert still_served(server, witness)
    lines = server.log_lines()[before:]
    assert len(lines) == 1
    assert "closed the connection of 127.0.0.1:" in lines[0]


def test_an_unknown_version_of_api_versions_gets_the_oldest_answer(server: Serving) -> None:
    with server.connect() as peer:
        peer.sock.sendall(frame(struct.pack(">hhih", 18, 99, 5, -1) + b"\x00"))
        assert peer.read_frame() == bytes.fromhex("00000005 0023 00000001 0012 0000 0005")
        assert peer.ask(ApiVersionsRequest(), 0).error_code == 0


def test_bytes_after_a_whole_body_are_ignored(server: Serving) -> None:
    with server.connect() as peer:
        peer.sock.sendall(frame(request_bytes(HeartbeatRequest("g", 1, "m"), 4, 9) + b"and more"))
        answer = peer.read_frame()
        assert answer is not None
        assert answer[:4] == struct.pack(">i", 9)


def test_a_request_in_single_bytes_is_answered(server: Serving) -> None:
    with server.connect() as peer:
        for byte in frame(request_bytes(MetadataRequest(topics=None), 13, 3)):
            peer.sock.sendall(bytes((byte,)))
        answer = peer.read_frame()
        assert answer is not None
        assert b"orders" in answer


SAMPLES = [
    request_bytes(ApiVersionsRequest("hypothesis", "1"), 4),
    request_bytes(MetadataRequest(topics=None), 13),
    request_bytes(HeartbeatRequest("g", 1, "m"), 4),
    request_bytes(JoinGroupRequest("", 10_000, protocols=[JoinGroupRequestProtocol("range", b"\0\1")]), 9),
    request_bytes(SyncGroupRequest("g", 1, "m"), 3),
    request_bytes(OffsetFetchRequest(), 8),
]
KEYS = sorted((key, version) for key, api in APIS.items() for version in api.request.versions)

damaged = st.builds(
    lambda sample, place, piece, cut: frame((sample[:place] + piece + sample[place + len(piece) :])[:cut]),
    st.sampled_from(SAMPLES),
    st.integers(0, 60),
    st.binary(max_size=8),
    st.integers(8, 200),
)
random_bodies = st.builds(
    lambda key, body: frame(struct.pack(">hhih", *key, 1, -1) + body), st.sampled_from(KEYS), st.binary(max_size=120)
)


@given(data=st.one_of(st.binary(max_size=200), damaged, random_bodies))
@settings(max_examples=examples(300))
def test_invalid_bytes_disturb_no_other_client(server: Serving, witness: Peer, data: bytes) -> None:
    with server.connect() as peer:
        peer.sock.sendall(data)
        assert peer.outcome() in {"closed", "answered"}
    assert still_served(server, witness)
