"""A client of one broker of a cluster, without sockets: requests in, answers out, by the sessions of the server."""

from __future__ import annotations

from typing import Any

from kafka_shim.apis.heartbeat import HeartbeatRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kafka_shim.apis.registry import APIS
from kafka_shim.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import FrameSplitter, frame
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.server.cluster import Cluster
from kafka_shim.server.node import Node
from kafka_shim.server.session import Session


class Client:
    """A client's connection to `node`, and its transport, which keeps the answers. `closed` is set when the server
    ended it."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self.peer = "test"
        self.closed = False
        self.paused = False
        self.cluster = cluster
        self.node = node
        self.session = Session(node, self, "/127.0.0.1", next(cluster.connections))
        node.sessions.add(self.session)
        self._receive = cluster.receiver(self.session)
        self._in_flight: list[tuple[int, int]] = []
        self._answers: list[Any] = []
        self._splitter = FrameSplitter()

    # Transport

    def send(self, data: bytes) -> bool:
        for answer in self._splitter.feed(data):
            key, version = self._in_flight.pop(0)
            _, offset = decode_response_header(answer, key, version)
            self._answers.append(APIS[key].response.decode(answer[offset:], version))
        return True

    def pause(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
        self.session.lost()

    # Client

    def say(self, version: int, request: Message) -> None:
        """Send a request."""
        key = next(key for key, api in APIS.items() if api.request is type(request))
        self._in_flight.append((key, version))
        header = encode_request_header(key, version, len(self._in_flight), "test")
        self._receive(frame(header + request.encode(version)), self.cluster.clock())
        # The clock includes this moment: a round without initial delay is due at once.
        self.cluster.ticks.fire(self.cluster.clock())

    @property
    def heard(self) -> list[Any]:
        """Return the answers since the last call."""
        answers, self._answers = self._answers, []
        return answers

    def ask(self, version: int, request: Message) -> Any:
        """Send a request and return its immediate answer."""
        self.say(version, request)
        (answer,) = self.heard
        return answer


# Requests of one group "g" and topic "t"


def join(group: str = "g", member_id: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff")],
        **fields,
    )


def sync(generation: int, member_id: str, *assigned: str, group: str = "g", **fields: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        assignments=[SyncGroupRequestAssignment(each, each.encode()) for each in assigned],
        **fields,
    )


def heartbeat(generation: int, member_id: str, group: str = "g", **fields: Any) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, **fields)


def commit(offset: int, group: str = "g", topic: str = "t", **fields: Any) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(0, offset, committed_metadata="")]
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)], **fields
    )


def fetch(group: str = "g", topic: str = "t") -> OffsetFetchRequest:
    return OffsetFetchRequest(group_id=group, topics=[OffsetFetchRequestTopic(topic, [0])])


def committed(client: Client, group: str = "g", topic: str = "t") -> int | str:
    """Return the committed offset at this client's node, or `error N`."""
    answer = client.ask(5, fetch(group, topic))
    if answer.error_code:
        return f"error {answer.error_code}"
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def error_of_commit(answer: Any) -> int:
    code: int = answer.topics[0].partitions[0].error_code
    return code
