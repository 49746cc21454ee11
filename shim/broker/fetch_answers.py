"""The answer to a Fetch: reads the partitions with possible news.

An answer with many partitions is made in turns, so that other clients are served in between. `fetches.py` decides the
time of the answer, `fetch_state.py` its candidates. Sources: KIP-74 (limits), KIP-227 (news of a session),
KIP-951 (new leaders); Kafka's `FetchSession` and `ReplicaManager.readFromLog`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from kafka_shim.apis.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.broker.batches import LEADER_EPOCH
from kafka_shim.broker.fetch_sessions import FINAL_EPOCH
from kafka_shim.broker.fetch_state import UNKNOWN, FetchedPartition, FetchState
from kafka_shim.broker.topics import Node

MOST_PARTITIONS: Final = 10_000
"""Partitions in an answer to a session. It is encoded without a pause, and the others can be in the next answer."""

_NO_ABORTS: Final[list[AbortedTransaction]] = []


class FetchAnswer:
    """The answer to a fetch of `state` from node `node_id`, with at most `budget` bytes of records or one larger batch.

    `epoch` is that of the session at the request, `bytes` counts the records until now. The answer to a session has
    only partitions with news; if these are more than MOST_PARTITIONS, the following answers begin with the others.
    """

    __slots__ = (
        "_budget",
        "_first_whole",
        "_is_cut",
        "_leaders",
        "_node_id",
        "_parts",
        "_places",
        "_topics",
        "bytes",
        "epoch",
        "state",
    )

    def __init__(self, node_id: int, state: FetchState, budget: int, epoch: int) -> None:
        self.state = state
        self._node_id = node_id
        self._budget = budget
        self.bytes = 0
        self.epoch = epoch
        self._first_whole = True
        self._leaders: set[int] = set()
        self._topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
        self._parts: Iterator[FetchedPartition] | None = None
        self._places = MOST_PARTITIONS
        self._is_cut = False

    def read(self, room: int, most: int | None = None) -> bool:
        """Look at the next partitions, at most `most`, and take at most `room` bytes of records more; return False if
        the partitions were fewer."""
        state = self.state
        self._budget = min(self._budget, room)
        is_full = state.is_full
        if self._parts is None:
            candidates = state.candidates()
            self._is_cut = not is_full and len(candidates) > MOST_PARTITIONS
            self._parts = iter(candidates)
        parts = list(islice(self._parts, most))
        for part in parts:
            if not (is_full or state.is_news(part, self._node_id)):
                continue
            data = self._read(part)
            if data.records:
                self._budget = max(0, self._budget - len(data.records))
                self.bytes += len(data.records)
                self._first_whole = False
            if self.epoch != FINAL_EPOCH:
                if not (part.answered(data) or is_full):
                    continue
                if data.records or self._is_cut:
                    state.put_last(part)
            topic = self._topics.get((part.topic, part.topic_id))
            if topic is None:
                topic = self._topics[part.topic, part.topic_id] = FetchableTopicResponse(part.topic, part.topic_id)
            topic.partitions.append(data)
            if self._is_cut:
                self._places -= 1
                if not self._places:
                    return False
        return len(parts) == most

    def response(self, session_id: int, nodes: Mapping[int, Node]) -> FetchResponse:
        """Return the answer with all partitions until now."""
        response = FetchResponse(session_id=session_id, responses=list(self._topics.values()))
        if self._leaders:
            response.node_endpoints = [NodeEndpoint(*nodes[each]) for each in sorted(self._leaders & nodes.keys())]
        return response

    def _read(self, part: FetchedPartition) -> PartitionData:
        state, partition = self.state, part.partition
        error = part.refusal(self._node_id)
        if partition is None or error:
            data = PartitionData(
                partition_index=part.index,
                error_code=error,
                high_watermark=UNKNOWN,
                aborted_transactions=_NO_ABORTS if partition is None else None,
                records=b"",
            )
            if partition is not None and state.with_leaders and error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                data.current_leader = LeaderIdAndEpoch(partition.leader, LEADER_EPOCH)
                self._leaders.add(partition.leader)
            return data
        log = partition.log
        records = log.read(
            part.offset,
            min(part.max_bytes, self._budget),
            first_whole=self._first_whole,
            committed=state.read_committed,
        )
        aborted: list[AbortedTransaction] | None = None
        if state.read_committed:
            transactions = log.aborted(part.offset, records)
            aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in transactions] or _NO_ABORTS
        return PartitionData(
            partition_index=part.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=aborted,
            records=records,
        )
