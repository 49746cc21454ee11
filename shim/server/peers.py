"""Requests to the other processes of the cluster, over Kafka's protocol as any client would send them.

There is one connection to a node for each kind of request, opened at the first. Requests of one kind go one after
another, so that none overtakes another. If the other side has closed an idle connection, it is opened again and the
request is sent once more. Any other failure, or a late answer, closes the connection, and the sender of the request
gets None.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import count
from math import inf
from typing import Any, Final

import trio

from kafka_shim.apis.registry import APIS
from kafka_shim.apis.wire import DecodeError, Message
from kafka_shim.apis.wire.frames import FrameSplitter, frame
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.broker.topics import OFFSETS_TOPIC, Topics
from kafka_shim.persistence.store import SharedStore
from kafka_shim.security.tls import Tls
from kafka_shim.server.failures import Border, Failures

log: Final = logging.getLogger("kafka_shim.server")

PATIENCE: Final = 5.0
"""Seconds to wait for an answer."""

RECEIVE_BYTES: Final = 16 * 1024

Question = tuple[int, Message, object]
"""The version, the request, and the purpose of the answer."""


class Peers:
    """The other processes, as the node `node_id` of this one reaches them; implements `RemoteNodes`.

    `owner(partition)` is the owner of a partition of `__consumer_offsets`. `answered(purpose, answer, now)` gets each
    answer, or None; `check(now)` is called before it, `settle(now)` after. `tls` is for connections to nodes where all
    use TLS.
    """

    def __init__(
        self,
        node_id: int,
        store: SharedStore,
        topics: Topics,
        owner: Callable[[int], int | None],
        clock: Callable[[], float],
        check: Callable[[float], None],
        settle: Callable[[float], None],
        answered: Callable[[object, Message | None, float], None],
        tls: Tls | None,
        failures: Failures,
    ) -> None:
        self._node_id = node_id
        self._store = store
        self._topics = topics
        self._owner = owner
        self._clock = clock
        self._check = check
        self._settle = settle
        self._answered = answered
        self._tls = tls
        self._failures = failures
        self._lines: dict[tuple[int, int], trio.MemorySendChannel[Question]] = {}
        self._new, self._begun = trio.open_memory_channel[tuple[int, int, trio.MemoryReceiveChannel[Question]]](inf)

    def holder(self, topic: str, index: int) -> int | None:
        """See `Elsewhere.holder`."""
        if topic == OFFSETS_TOPIC:
            node_id = self._owner(index)
        else:
            entry = self._topics.named(topic)
            partition = entry.partition(index) if entry is not None else None
            node_id = partition.leader if partition is not None else None
        return node_id if node_id != self._node_id and node_id in self._topics.nodes else None

    def epoch(self, partition: int) -> int:
        """See `Elsewhere.epoch`."""
        return self._store.epochs.get(partition, 0)

    def ask(self, node_id: int, version: int, request: Message, purpose: object) -> None:
        """See `Elsewhere.ask`."""
        assert request.api_key is not None
        line = self._lines.get((node_id, request.api_key))
        if line is None:
            line, questions = trio.open_memory_channel[Question](inf)
            self._lines[node_id, request.api_key] = line
            self._new.send_nowait((node_id, request.api_key, questions))
        line.send_nowait((version, request, purpose))

    async def run(self) -> None:
        """Send the requests in the queue, until cancelled."""
        async with trio.open_nursery() as nursery:
            async for node_id, key, questions in self._begun:
                nursery.start_soon(self._serve, node_id, key, questions)

    async def _serve(self, node_id: int, key: int, questions: trio.MemoryReceiveChannel[Question]) -> None:
        connection: _Connection | None = None
        async for version, request, purpose in questions:
            answer: Message | None = None
            try:
                with trio.fail_after(PATIENCE):
                    if connection is not None:
                        try:
                            answer = await connection.ask(key, version, request)
                        except (OSError, trio.BrokenResourceError):
                            await trio.aclose_forcefully(connection.stream)
                            connection = None
                    if connection is None:
                        connection = await self._connect(node_id)
                        answer = await connection.ask(key, version, request)
            except (OSError, trio.TooSlowError, trio.BrokenResourceError, DecodeError) as error:
                log.warning("node %d did not answer %s: %s", node_id, APIS[key].name, error or type(error).__name__)
            except Exception as error:
                self._failures.note(Border.PEER, f"{APIS[key].name} to node {node_id}", error)
            if answer is None and connection is not None:
                await trio.aclose_forcefully(connection.stream)
                connection = None
            self._hand_on(purpose, answer)

    async def _connect(self, node_id: int) -> _Connection:
        address = self._topics.nodes.get(node_id)
        if address is None:
            raise ConnectionError("it is gone")
        stream: trio.abc.Stream = await trio.open_tcp_stream(address.host, address.port)
        if self._tls is not None:
            stream = trio.SSLStream(stream, self._tls.context, server_hostname=address.host)
        return _Connection(stream, f"node {self._node_id}")

    def _hand_on(self, purpose: object, answer: Message | None) -> None:
        now = self._clock()
        self._check(now)
        try:
            self._answered(purpose, answer, now)
        except Exception as error:
            self._failures.note(Border.PEER, "an answer of another node", error)
            if answer is not None:
                self._hand_on(purpose, None)
        self._settle(now)


class _Connection:
    """A connection to another node; one request at a time."""

    def __init__(self, stream: trio.abc.Stream, client_id: str) -> None:
        self.stream = stream
        self._client_id = client_id
        self._correlation_ids = count(1)
        self._splitter = FrameSplitter()

    async def ask(self, key: int, version: int, request: Message) -> Message:
        """Return the answer. Raises ConnectionError when the connection ends, and trio's errors of streams."""
        header = encode_request_header(key, version, next(self._correlation_ids), self._client_id)
        await self.stream.send_all(frame(header + request.encode(version)))
        frames: list[bytes] = []
        while not frames:
            data = await self.stream.receive_some(RECEIVE_BYTES)
            if not data:
                raise ConnectionError("it closed the connection")
            frames = self._splitter.feed(bytes(data))
        _, offset = decode_response_header(frames[0], key, version)
        response: type[Any] = APIS[key].response
        answer: Message = response.decode(frames[0][offset:], version)
        return answer
