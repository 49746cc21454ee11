"""State of a server for the form `existing` of `bench/limits.py`: the worst request names things that exist.

Each API that describes something gets a group, a transaction, producers or users of the name `NAME` before it is
measured.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.apis.init_producer_id import InitProducerIdRequest
from kafka_shim.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_shim.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.scram.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.apis.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from kafka_shim.apis.wire import Message
from kafka_shim.apis.wire.frames import frame
from kafka_shim.apis.wire.headers import decode_response_header, encode_request_header
from kafka_shim.conformance.record_batch import record_batch

NAME: Final = "t"
"""The name of the topic and of all that exists."""
GROUPS: Final = 10_000
"""The groups of ListGroups."""
_METADATA: Final = 2900
"""Characters of metadata of a commit: 33,000 of them are an answer that may just be sent."""
_MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_MANY_NAMES: Final = [f"n{number}" for number in range(1000)]
_PRODUCERS: Final = 200

VALUES: Final[dict[str, dict[str, Any]]] = {
    "DescribeConfigs": {
        "resource_type": 4,
        "resource_name": "1",
        "configuration_keys": None,
        "include_synonyms": True,
        "include_documentation": True,
    },
    "DescribeGroups": {"include_authorized_operations": True},
    "ConsumerGroupDescribe": {"include_authorized_operations": True},
    "ShareGroupDescribe": {"include_authorized_operations": True},
    "StreamsGroupDescribe": {"include_authorized_operations": True, "include_topology_description": True},
    "Metadata": {"include_topic_authorized_operations": True},
    "ListGroups": {"states_filter": [], "types_filter": []},
}
"""By API, values of fields with which the answer is longest."""


def make(address: tuple[str, int], api: str) -> bytes:
    """Make the things that the worst request of an API names. Return the id of the topic."""
    with socket.create_connection(address, timeout=30) as sock:
        for version, request in _requests(api):
            _ask(sock, version, request)
        answer = _ask(sock, 12, MetadataRequest([MetadataRequestTopic(name=NAME)]))
        return MetadataResponse.decode(answer, 12).topics[0].topic_id


def _requests(api: str) -> Iterator[tuple[int, Message]]:
    member: dict[str, Any] = {"member_id": _MEMBER, "member_epoch": 0, "rebalance_timeout_ms": 30_000}
    match api:
        case "OffsetFetch" | "OffsetDelete":
            yield 9, _commit(NAME)
        case "ListGroups":
            for number in range(GROUPS):
                yield 9, _commit(f"{number:0200}")
        case "DescribeGroups" | "DeleteGroups":
            protocols = [JoinGroupRequestProtocol("range", b"x" * 60_000)]
            yield 3, JoinGroupRequest(NAME, 30_000, 30_000, protocol_type="consumer", protocols=protocols)
        case "ConsumerGroupDescribe":
            yield (
                1,
                ConsumerGroupHeartbeatRequest(NAME, subscribed_topic_names=_MANY_NAMES, topic_partitions=[], **member),
            )
        case "ShareGroupDescribe" | "DescribeShareGroupOffsets":
            yield 1, ShareGroupHeartbeatRequest(NAME, _MEMBER, 0, subscribed_topic_names=[NAME, *_MANY_NAMES])
        case "StreamsGroupDescribe":
            subtopologies = [Subtopology(str(number), source_topics=[NAME]) for number in range(200)]
            topology = Topology(1, subtopologies)
            tasks: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
            more: dict[str, Any] = {"topology": topology, "process_id": "p", "client_tags": [], **tasks}
            yield 0, StreamsGroupHeartbeatRequest(NAME, **more, **member)
        case "DescribeProducers":
            for number in range(_PRODUCERS):
                yield 9, _produced(number)
        case "DescribeTransactions":
            yield 4, InitProducerIdRequest(NAME, 60_000)
        case "DescribeUserScramCredentials":
            yield (
                0,
                AlterUserScramCredentialsRequest(
                    upsertions=[ScramCredentialUpsertion(NAME, kind, 4096, b"salt", b"k" * 32) for kind in (1, 2)]
                ),
            )


def _commit(group: str) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(index, 5, committed_metadata="m" * _METADATA) for index in (0, 1)]
    return OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(NAME, partitions=partitions)])


def _produced(producer_id: int) -> ProduceRequest:
    data = PartitionProduceData(0, record_batch([b"v"], 0, (producer_id, 0, 0)))
    return ProduceRequest(acks=1, topic_data=[TopicProduceData(NAME, partition_data=[data])])


def _ask(sock: socket.socket, version: int, request: Message) -> bytes:
    assert request.api_key is not None
    sock.sendall(frame(encode_request_header(request.api_key, version, 1, "bench") + request.encode(version)))
    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
    answer = sock.recv(size, socket.MSG_WAITALL)
    _, offset = decode_response_header(answer, request.api_key, version)
    return answer[offset:]
