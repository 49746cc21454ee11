"""Frames by hand, a transport that keeps the sent bytes, and a socket that speaks the protocol."""

import socket
import struct
from typing import Any

from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import FrameSplitter, frame
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.broker.topics import Node as Address
from kafka_shim.server.cluster import Cluster, ClusterConfig
from kafka_shim.server.compose import make_cluster
from kafka_shim.server.session import Session
from tests.waiting import PATIENCE_S


def request(message: Message, version: int, correlation_id: int = 1, client_id: str | None = "test") -> bytes:
    """Return a whole request with size and header."""
    assert message.api_key is not None
    return frame(encode_request_header(message.api_key, version, correlation_id, client_id) + message.encode(version))


def cluster(
    store: Any = None, topics: dict[str, int] | None = None, release: str = DEFAULT_RELEASE, **settings: str
) -> Cluster:
    """Start one broker without sockets, with loaded partitions. Settings have underscores for dots.

    Assignments do not wait for an interval, unless the settings say so.
    """
    at_once = {f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")}
    named = {"group.initial.rebalance.delay.ms": "0"} | at_once | {k.replace("_", "."): v for k, v in settings.items()}
    made = make_cluster(
        [Address(1, "localhost", 9092)], ClusterConfig(settings=named, topics=topics or {}, release=release), store
    )
    made.load_at_once()
    return made


class Wire:
    """A connection to a node without a socket: a `Transport` that keeps the sent bytes."""

    def __init__(self, to: Cluster) -> None:
        self.peer = "127.0.0.1:1"
        self.cluster = to
        self.takes_all = True
        self.is_paused = False
        self.is_closed = False
        self.sent = b""
        self.session = Session(next(iter(to.nodes.values())), self, "/127.0.0.1", 1)
        self.session.node.sessions.add(self.session)
        self._splitter = FrameSplitter()

    @property
    def paused(self) -> bool:
        return self.is_paused

    def send(self, data: bytes) -> bool:
        self.sent += data
        return self.takes_all

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True
        self.session.lost()

    def receive(self, data: bytes, now: float = 100.0) -> None:
        """Receive bytes of the client, and end the tick."""
        self.session.receive(data, now)
        self.cluster.settle(now)

    def calls(self, data: bytes) -> list[Any]:
        """Receive a request; return the requests with which its rule is called: one for each part."""
        endpoint = self.session.node.table.find(data[4:])
        assert endpoint is not None
        rule, calls = endpoint.rule, []

        def noted(message: Any, call: Any) -> Any:
            calls.append(message)
            return rule(message, call)

        endpoint.rule = noted
        self.receive(data)
        endpoint.rule = rule
        return calls

    def drained(self, now: float = 100.0) -> None:
        """Note that the client has read all bytes."""
        self.takes_all = True
        self.session.drained(now)
        self.cluster.settle(now)

    @property
    def has_answer(self) -> bool:
        """True if a whole answer was sent since the last call of `answers`; a long one is sent in pieces."""
        return len(self.sent) >= 4 and len(self.sent) - 4 >= int.from_bytes(self.sent[:4])

    def answers(self) -> list[bytes]:
        """Return the frames sent since the last call, without their sizes."""
        sent, self.sent = self.sent, b""
        return self._splitter.feed(sent)

    def answer(self, kind: type[Any], version: int) -> tuple[int, Any]:
        """Return the one answer sent since the last call: correlation id and response."""
        (only,) = self.answers()
        return read(only, kind, version)


def read(payload: bytes, kind: type[Any], version: int) -> tuple[int, Any]:
    """Return correlation id and response of a frame's payload."""
    correlation_id, offset = decode_response_header(payload, kind.api_key, version)
    return correlation_id, kind.decode(payload[offset:], version)


def reset_at_close(sock: socket.socket) -> None:
    """Let the close of this socket reset its connection, without an end of its bytes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def fetch_that_waits(max_wait_ms: int) -> bytes:
    """Return a Fetch, version 4, that waits so long for records of partition 0 of `orders`."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    topics = [FetchTopic("orders", partitions=[partition])]
    return request(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics), 4)


class Client:
    """A blocking socket to a running server. Reading fails after half a minute."""

    def __init__(self, address: str, wrap: Any = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        if wrap is not None:
            self.socket = wrap(self.socket)
        self._buffer = b""

    def ask(self, message: Message, version: int, kind: type[Any], correlation_id: int = 1) -> Any:
        self.socket.sendall(request(message, version, correlation_id))
        return self.read(kind, version)[1]

    def read(self, kind: type[Any], version: int) -> tuple[int, Any]:
        return read(self.read_frame(), kind, version)

    def read_frame(self) -> bytes:
        while len(self._buffer) < 4 or len(self._buffer) < 4 + struct.unpack(">i", self._buffer[:4])[0]:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError(f"closed after {len(self._buffer)} bytes of an answer")
            self._buffer += data
        end = 4 + struct.unpack(">i", self._buffer[:4])[0]
        whole, self._buffer = self._buffer[4:end], self._buffer[end:]
        return whole

    def is_closed_by_server(self) -> bool:
        """Wait until the server closes the connection; any bytes before are an error."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
