"""`Cluster`: `__consumer_offsets` of a running cluster, read without a group, and without writing anything.

It asks for the leaders of the partitions and fetches from each; it follows a leader that moves. Source: semantics 5.1
for the partition of a group; KIP-98 for reading uncommitted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from kafka_shim.apis.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kafka_shim.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic
from kafka_shim.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafka_shim.apis.wire.errors import ErrorCode, error_name
from kafka_shim.persistence.batch import Batch, CorruptBatch, read_batch
from kafka_shim.persistence.interchange import TOPIC
from kafka_shim.persistence.partition import partition_for
from kafka_shim.sources.offsets_topic.connection import Connection, Disconnected, Unreadable
from kafka_shim.sources.offsets_topic.settings import Security

R = TypeVar("R")

_FETCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes that are in memory of all partitions that are read at a time."""
_LEAST_BYTES: Final = 64 * 1024
_WAIT_MS: Final = 500
_TRIES: Final = 10
_PAUSE_S: Final = 0.5
_EARLIEST: Final = -2
_LATEST: Final = -1
_UNCOMMITTED: Final = 0
# Later versions of Fetch name a topic by its id.
_METADATA, _LIST_OFFSETS, _FETCH = 12, 7, 12
_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class NoRight(Unreadable):
    """The user may not read the topic."""


class Cluster:
    """A cluster with a broker at one of these addresses. Raises Unreadable."""

    def __init__(self, addresses: Sequence[tuple[str, int]], security: Security) -> None:
        self._security = security
        self._addresses = list(addresses)
        self._connections: dict[tuple[str, int], Connection] = {}
        self._nodes: dict[int, tuple[str, int]] = {}
        self._leaders: dict[int, int] = {}
        self._refresh()

    def close(self) -> None:
        """Close all connections."""
        for each in self._connections.values():
            each.close()
        self._connections.clear()

    @property
    def partitions(self) -> list[int]:
        """The numbers of the partitions of the topic."""
        return sorted(self._leaders)

    def partition_of(self, group: str) -> int:
        """Return the partition of a group."""
        return partition_for(group, len(self._leaders))

    def topic_names(self) -> dict[bytes, str]:
        """Return the names of the topics that the user may see, by id; brokers have ids since Kafka 2.8."""
        answer = self._any().ask(MetadataRequest(None, allow_auto_topic_creation=False), MetadataResponse, _METADATA)
        return {each.topic_id: each.name for each in answer.topics if each.name and any(each.topic_id)}

    def bounds(self, partition: int) -> tuple[int, int]:
        """Return the first offset of a partition, and the one after the last."""
        return self._offset(partition, _EARLIEST), self._offset(partition, _LATEST)

    def batches(self, partition: int, first: int, end: int | None, *, beside: int = 1) -> Iterator[Batch]:
        """Yield the batches of a partition from an offset on, up to the offset `end`; without it, wait for more.

        `beside` is the number of partitions that are read at a time.
        """
        size = max(_FETCH_BYTES // beside, _LEAST_BYTES)
        offset = first
        idle = 0
        while end is None or offset < end:
            data = self._fetch(partition, offset, size)
            position = 0
            begin = offset
            while (batch_and_end := _next(data, position)) is not None:
                batch, position = batch_and_end
                if batch.last_offset >= offset:
                    yield batch
                    offset = batch.last_offset + 1
                    if end is not None and offset >= end:
                        return
            idle = idle + 1 if offset == begin else 0
            if end is not None and idle >= _TRIES:
                raise Unreadable(f"{self._where(partition)} gives no record from offset {offset} on.")

    def _fetch(self, partition: int, offset: int, size: int) -> bytes:
        request = FetchRequest(
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=size,
            isolation_level=_UNCOMMITTED,
            topics=[
                FetchTopic(
                    topic=TOPIC,
                    partitions=[FetchPartition(partition, fetch_offset=offset, partition_max_bytes=size)],
                )
            ],
        )

        def ask(leader: Connection) -> tuple[int, PartitionData | None]:
            answer = leader.ask(request, FetchResponse, _FETCH)
            if answer.error_code:
                return answer.error_code, None
            data = answer.responses[0].partitions[0]
            return data.error_code, data

        data = self._of_leader(partition, ask)
        return (data.records if data is not None else None) or b""

    def _offset(self, partition: int, timestamp: int) -> int:
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=_UNCOMMITTED,
            topics=[
                ListOffsetsTopic(TOPIC, [ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]),
            ],
        )

        def ask(leader: Connection) -> tuple[int, int]:
            answer = leader.ask(request, ListOffsetsResponse, _LIST_OFFSETS).topics[0].partitions[0]
            return answer.error_code, answer.offset

        return self._of_leader(partition, ask)

    def _of_leader(self, partition: int, ask: Callable[[Connection], tuple[int, R]]) -> R:
        """Return the answer of a partition's leader; try again while the partition moves."""
        for tries in reversed(range(_TRIES)):
            try:
                error, answer = ask(self._leader(partition))
            except Disconnected:
                if not tries:
                    raise
                error = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                self.close()
            else:
                if not error:
                    return answer
                if error not in _MOVED:
                    raise self._refused(partition, error)
            if tries:
                time.sleep(_PAUSE_S)
                self._refresh()
        raise Unreadable(f"{self._where(partition)} has no leader that answers ({error_name(error)}): try again later.")

    def _leader(self, partition: int) -> Connection:
        if partition not in self._leaders:
            raise Unreadable(f"There is no {self._where(partition)}: the topic has {len(self._leaders)} partitions.")
        address = self._nodes.get(self._leaders[partition])
        if address is None:
            raise Unreadable(
                f"{self._where(partition)} has no leader: start its brokers, or read its segment files with --offsets."
            )
        connection = self._connections.get(address)
        if connection is None:
            try:
                connection = self._connections[address] = Connection(*address, self._security)
            except Disconnected:
                raise
            except Unreadable as error:
                if address in self._addresses:
                    raise
                host, port = address
                node = self._leaders[partition]
                raise Unreadable(
                    f"{error} The cluster says that broker {node}, the leader of {self._where(partition)}, is at"
                    f" {host}:{port} (advertised.listeners)."
                ) from None
        return connection

    def _any(self) -> Connection:
        """Return a connection to any broker."""
        last: Unreadable | None = None
        for address in (*self._connections, *self._addresses, *self._nodes.values()):
            connection = self._connections.get(address)
            if connection is not None:
                return connection
            try:
                connection = self._connections[address] = Connection(*address, self._security)
            except Unreadable as error:
                last = last or error
            else:
                return connection
        assert last is not None
        raise last

    def _refresh(self) -> None:
        """Ask for the leaders."""
        request = MetadataRequest([MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        answer = self._any().ask(request, MetadataResponse, _METADATA)
        self._nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        topic = answer.topics[0]
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Unreadable(f"The cluster has no {TOPIC}: no group has used it yet.")
        if topic.error_code and topic.error_code not in _MOVED:
            raise self._refused(None, topic.error_code)
        self._leaders = {each.partition_index: each.leader_id for each in topic.partitions} or self._leaders
        if not self._leaders:
            raise Unreadable(f"The cluster does not show the partitions of {TOPIC}: try again later.")

    def _refused(self, partition: int | None, error: int) -> Unreadable:
        if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            user = f"the user {self._security.user}" if self._security.user else "this client"
            return NoRight(
                f"TOPIC_AUTHORIZATION_FAILED: {user} has no right to read {TOPIC}; it needs the ACLs Describe and Read"
                f" on the topic {TOPIC}, and none on groups."
            )
        return Unreadable(
            f"{TOPIC if partition is None else self._where(partition)} cannot be read: {error_name(error)}."
        )

    @staticmethod
    def _where(partition: int) -> str:
        return f"{TOPIC}-{partition}"


def _next(data: bytes, position: int) -> tuple[Batch, int] | None:
    try:
        return read_batch(data, position)
    except CorruptBatch as error:
        raise Unreadable(
            f"{TOPIC} has a batch that cannot be read, at offset {error.offset}: {error.reason}."
        ) from None
