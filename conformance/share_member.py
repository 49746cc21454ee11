"""A scripted member of a share group (KIP-932): each call of the case sends one request."""

from __future__ import annotations

import time
import uuid
from typing import Any, TypeAlias

from kafka_shim.apis.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafka_shim.apis.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kafka_shim.apis.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kafka_shim.conformance.record_batch import record_batch
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.wire import Connection

Acks: TypeAlias = tuple[int, int, list[int]]
"""First and last offset, and the types of an acknowledgement: 1 accept, 2 release, 3 reject, 4 renew."""
Acquired: TypeAlias = tuple[int, int, int]
"""First and last offset, and the delivery count."""


class ShareMember:
    """One member. `epoch` and `assigned` come from the last answer; `session` is the epoch of its next ShareFetch.

    It fetches from partition 0 of its first topic, or from as many partitions of it as `partitions` says.
    """

    def __init__(self, trial: Trial, *topics: str) -> None:
        self.id = str(uuid.uuid4())
        self.topics = list(topics)
        self.epoch = 0
        self.assigned: set[tuple[str, int]] = set()
        self.session = 0
        self.partitions = 1
        self._trial = trial
        self.wire = trial.connect(f"member-{self.id[:4]}")
        self._reader: Connection | None = None

    def heartbeat(self, **changes: Any) -> ShareGroupHeartbeatResponse:
        """Send a ShareGroupHeartbeat with only the fields in `changes`; remember epoch and assignment."""
        request = ShareGroupHeartbeatRequest(self._trial.group, self.id, self.epoch)
        for name, value in changes.items():
            setattr(request, name, value)
        answer: ShareGroupHeartbeatResponse = self.wire.call(request, self._trial.version_of(request))
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                names = self._trial.peer.topic_names()
                topics = answer.assignment.topic_partitions
                self.assigned = {
                    (names.get(each.topic_id, "?"), number) for each in topics for number in each.partitions
                }
        return answer

    def join(self) -> ShareGroupHeartbeatResponse:
        """Send the first heartbeat."""
        return self.heartbeat(member_epoch=0, subscribed_topic_names=self.topics)

    def joined(self) -> ShareMember:
        """Join and send heartbeats until it has partitions."""
        self._trial.expect(self.join(), error_code=0)
        self._trial.until(
            lambda: (self._trial.expect(self.heartbeat(), error_code=0), self.assigned)[1],
            bool,
            "no partition was ever assigned",
        )
        return self

    def leave(self) -> ShareGroupHeartbeatResponse:
        return self.heartbeat(member_epoch=-1)

    def _records(self) -> Connection:
        """Return the connection to the leader of its partition; `wire` if the coordinator is the same broker."""
        if self._reader is None:
            routes = self._trial.peer.routes
            endpoint = routes.leader(self.topics[0], 0)
            is_here = endpoint == routes.coordinator(self._trial.group)
            self._reader = self.wire if is_here else self._trial.connect_to(endpoint, f"reader-{self.id[:4]}")
        return self._reader

    def fetch(self, *acks: Acks, **changes: Any) -> ShareFetchResponse:
        """Send a ShareFetch with acknowledgements for partition 0; the first one opens a session."""
        request = ShareFetchRequest(self._trial.group, self.id, self.session, 300, 1, 2**20, 500, 500)
        if self.session == 0 or acks:
            request.topics = [
                FetchTopic(
                    self._trial.topic_id(self.topics[0]),
                    [FetchPartition(0, [AcknowledgementBatch(*each) for each in acks])]
                    + [FetchPartition(each) for each in range(1, self.partitions) if not acks],
                )
            ]
        for name, value in changes.items():
            setattr(request, name, value)
        answer: ShareFetchResponse = self._records().call(request, self._trial.version_of(request))
        if answer.error_code == 0:
            self.session = 0 if request.share_session_epoch == -1 else request.share_session_epoch + 1
        return answer

    def close(self) -> None:
        """Close its connections, and the session that is on one of them."""
        self._records().close()
        self.wire.close()
        self._reader = None
        self.session = 0

    def acquire(self, *acks: Acks, **changes: Any) -> list[Acquired]:
        """Fetch until records are acquired; return their batches."""

        def batches() -> list[Acquired]:
            answer = self._trial.expect(self.fetch(*acks, **changes), error_code=0)
            return acquired(answer)

        return self._trial.until(batches, bool, "nothing was ever acquired")

    def acknowledge(self, *acks: Acks, **changes: Any) -> ShareAcknowledgeResponse:
        """Send a ShareAcknowledge for partition 0."""
        topics = [
            AcknowledgeTopic(
                self._trial.topic_id(self.topics[0]),
                [AcknowledgePartition(0, [AcknowledgementBatch(*each) for each in acks])],
            )
        ]
        request = ShareAcknowledgeRequest(self._trial.group, self.id, self.session, False, topics if acks else [])
        for name, value in changes.items():
            setattr(request, name, value)
        answer: ShareAcknowledgeResponse = self._records().call(request, self._trial.version_of(request))
        if answer.error_code == 0:
            self.session = 0 if request.share_session_epoch == -1 else request.share_session_epoch + 1
        return answer

    def said_of(self, *acks: Acks, **changes: Any) -> int:
        """Send a ShareAcknowledge; return the error of partition 0."""
        answer = self._trial.expect(self.acknowledge(*acks, **changes), error_code=0)
        return int(answer.responses[0].partitions[0].error_code)


def acquired(answer: ShareFetchResponse) -> list[Acquired]:
    """Return the acquired batches of a ShareFetch answer."""
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for data in topic.partitions
        for each in data.acquired_records
    ]


def produce(trial: Trial, topic: str, *values: bytes, partition: int = 0, key: bytes | None = None) -> None:
    """Write one record batch; its records have the same key, or none."""
    records = record_batch(values, int(time.time() * 1000), key=key)
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])
    answer = trial.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), 9)
    trial.expect(answer.responses[0].partition_responses[0], error_code=0)
