"""A member of a share group (KIP-932) that a case moves by hand: every request is one call of the case."""

from __future__ import annotations

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
from kafka_shim.conformance.batch import batch_of
from kafka_shim.conformance.trial import Trial
from kafka_shim.conformance.wire import Connection

Acks: TypeAlias = tuple[int, int, list[int]]
"""First and last offset, and the types of an acknowledgement: 1 accept, 2 release, 3 reject, 4 renew."""
Acquired: TypeAlias = tuple[int, int, int]
"""First and last offset, and for the how many-th time they were delivered."""


class ShareMember:
    """One member. `epoch` and `assigned` are what it was last told; `session` is the epoch of its next ShareFetch.

    It fetches from partition 0 of its first topic.
    """

    def __init__(self, trial: Trial, *topics: str) -> None:
        self.id = str(uuid.uuid4())
        self.topics = list(topics)
        self.epoch = 0
        self.assigned: set[tuple[str, int]] = set()
        self.session = 0
        self._trial = trial
        self.wire = trial.connect(f"member-{self.id[:4]}")
        self._reader: Connection | None = None

    def heartbeat(self, **changes: Any) -> ShareGroupHeartbeatResponse:
        """One ShareGroupHeartbeat that says nothing new but `changes`; what it is told is remembered."""
        request = ShareGroupHeartbeatRequest(self._trial.group, self.id, self.epoch)
        for name, value in changes.items():
            setattr(request, name, value)
        answer: ShareGroupHeartbeatResponse = self.wire.call(request, self._trial.version_of(request))
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                names = {topic_id: name for name, topic_id in self._trial.peer.topic_ids.items()}
                topics = answer.assignment.topic_partitions
                self.assigned = {
                    (names.get(each.topic_id, "?"), number) for each in topics for number in each.partitions
                }
        return answer

    def join(self) -> ShareGroupHeartbeatResponse:
        """The first heartbeat."""
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
        """The connection to the leader of its partition; the coordinator's, where that is the same broker."""
        if self._reader is None:
            routes = self._trial.peer.routes
            endpoint = routes.leader(self.topics[0], 0)
            is_here = endpoint == routes.coordinator(self._trial.group)
            self._reader = self.wire if is_here else self._trial.connect_to(endpoint, f"reader-{self.id[:4]}")
        return self._reader

    def fetch(self, *acks: Acks, **changes: Any) -> ShareFetchResponse:
        """One ShareFetch with acknowledgements of partition 0; the first one opens a session."""
        request = ShareFetchRequest(self._trial.group, self.id, self.session, 300, 1, 2**20, 500, 500)
        if self.session == 0 or acks:
            request.topics = [
                FetchTopic(
                    self._trial.topic_id(self.topics[0]),
                    [FetchPartition(0, [AcknowledgementBatch(*each) for each in acks])],
                )
            ]
        for name, value in changes.items():
            setattr(request, name, value)
        answer: ShareFetchResponse = self._records().call(request, self._trial.version_of(request))
        if answer.error_code == 0:
            self.session = 0 if request.share_session_epoch == -1 else request.share_session_epoch + 1
        return answer

    def acquire(self, *acks: Acks, **changes: Any) -> list[Acquired]:
        """Fetch until something was acquired, and say what."""

        def found() -> list[Acquired]:
            answer = self._trial.expect(self.fetch(*acks, **changes), error_code=0)
            return acquired(answer)

        return self._trial.until(found, bool, "nothing was ever acquired")

    def acknowledge(self, *acks: Acks, **changes: Any) -> ShareAcknowledgeResponse:
        """One ShareAcknowledge of partition 0."""
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
        """The error of partition 0 in the answer to a ShareAcknowledge."""
        answer = self._trial.expect(self.acknowledge(*acks, **changes), error_code=0)
        return int(answer.responses[0].partitions[0].error_code)


def acquired(answer: ShareFetchResponse) -> list[Acquired]:
    """What a ShareFetch acquired."""
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for data in topic.partitions
        for each in data.acquired_records
    ]


def produce(trial: Trial, topic: str, *values: bytes) -> None:
    """Write one record batch to partition 0."""
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch_of(*values))])
    answer = trial.call(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]), 9)
    trial.expect(answer.responses[0].partition_responses[0], error_code=0)
