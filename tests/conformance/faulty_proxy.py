"""A proxy between the suite and a coordinator that puts faults into answers, as a wrong broker would send them."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from kafka_shim.apis.wire import DecodeError
from kafka_shim.apis.wire.headers import decode_request_header
from kafka_shim.conformance.protocol import BY_KEY

Fault = Callable[[Any], None]
"""Changes a decoded answer in place."""


def generation_is_one_too_high(answer: Any) -> None:
    if answer.error_code == 0:
        answer.generation_id += 1


def heartbeats_of_strangers_are_welcome(answer: Any) -> None:
    if answer.error_code == 25:
        answer.error_code = 0


def metadata_of_offsets_is_lost(answer: Any) -> None:
    for holder in [answer, *answer.groups]:
        for topic in holder.topics:
            for partition in topic.partitions:
                partition.metadata = ""


def everybody_may_leave(answer: Any) -> None:
    for member in answer.members:
        if member.error_code == 25:
            member.error_code = 0


def unknown_topics_are_committed(answer: Any) -> None:
    for topic in answer.topics:
        for partition in topic.partitions:
            if partition.error_code == 3:
                partition.error_code = 0


FIVE: Mapping[str, Fault] = {
    "JoinGroup": generation_is_one_too_high,
    "Heartbeat": heartbeats_of_strangers_are_welcome,
    "OffsetFetch": metadata_of_offsets_is_lost,
    "LeaveGroup": everybody_may_leave,
    "OffsetCommit": unknown_topics_are_committed,
}


class FaultyProxy:
    """Forwards every frame, and changes the answers of the APIs that have a fault."""

    def __init__(self, upstream: tuple[str, int], faults: Mapping[str, Fault]) -> None:
        self._upstream = upstream
        self._faults = faults
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def start(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                server = socket.create_connection(self._upstream)
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sent: dict[int, tuple[int, int]] = {}
                for source, sink, change in ((client, server, self._note), (server, client, self._change)):
                    threading.Thread(target=self._forward, args=(source, sink, change, sent), daemon=True).start()

    def _forward(
        self, source: socket.socket, sink: socket.socket, change: Any, sent: dict[int, tuple[int, int]]
    ) -> None:
        """Forward bytes frame by frame; malformed bytes are forwarded, and then end both connections."""
        data = bytearray()
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                data += chunk
                while len(data) >= 4 and 0 <= (size := struct.unpack_from(">i", data)[0]) <= len(data) - 4:
                    frame = change(bytes(data[4 : 4 + size]), sent)
                    del data[: 4 + size]
                    sink.sendall(struct.pack(">i", len(frame)) + frame)
                if len(data) >= 4 and not 0 <= struct.unpack_from(">i", data)[0] <= 1 << 22:
                    sink.sendall(data)
                    data.clear()
            if data:
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _note(self, frame: bytes, sent: dict[int, tuple[int, int]]) -> bytes:
        with suppress(DecodeError):
            key, version, correlation_id, _, _ = decode_request_header(frame)
            sent[correlation_id] = (key, version)
        return frame

    def _change(self, frame: bytes, sent: dict[int, tuple[int, int]]) -> bytes:
        key, version = sent.get(struct.unpack_from(">i", frame)[0], (-1, -1))
        api = BY_KEY.get(key)
        fault = self._faults.get(api.name) if api else None
        if api is None or fault is None or version not in api.response.versions:
            return frame
        offset = 5 if version in api.response.flexible else 4
        answer, _ = api.response.decoder(version)(frame, offset)
        fault(answer)
        return frame[:offset] + answer.encode(version)


@contextmanager
def faulty(upstream: tuple[str, int], faults: Mapping[str, Fault] = FIVE) -> Iterator[str]:
    """Run a proxy before a coordinator; yield its address."""
    proxy = FaultyProxy(upstream, faults)
    proxy.start()
    try:
        yield proxy.address
    finally:
        proxy.stop()
