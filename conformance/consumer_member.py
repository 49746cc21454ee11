"""A member of a consumer group (KIP-848) that a case moves by hand: every heartbeat is one call of the case."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from kafka_shim.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kafka_shim.conformance.contact import Contact

Partitions = set[tuple[str, int]]


class ConsumerMember:
    """One member. `epoch` and `assigned` are of the last answer; `owned` is what its heartbeats report.

    `owned` follows `assigned` only in `obey`, so that a case decides when the member releases a partition.
    """

    def __init__(
        self,
        contact: Contact,
        name: str,
        topics: Iterable[str],
        *,
        group: str | None = None,
        instance_id: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_timeout: int = 30_000,
    ) -> None:
        self.name = name
        self.group = group or contact.group
        self.id = str(uuid.uuid4())
        self.instance_id = instance_id
        self.topics = list(topics)
        self.regex = regex
        self.assignor = assignor
        self.rebalance_timeout = rebalance_timeout
        self.epoch = 0
        self.assigned: Partitions = set()
        self.owned: Partitions = set()
        self._contact = contact
        self.wire = contact.connect(name, client_id=name, group=self.group)

    def heartbeat(self, **changes: Any) -> ConsumerGroupHeartbeatResponse:
        """One ConsumerGroupHeartbeat with no fields but `changes`; epoch and assignment of the answer are kept."""
        request = ConsumerGroupHeartbeatRequest(self.group, self.id, self.epoch, self.instance_id)
        for name, value in changes.items():
            setattr(request, name, value)
        version = self._contact.version_of(request)
        answer: ConsumerGroupHeartbeatResponse = self.wire.call(request, version)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.id = answer.member_id or self.id
            if answer.assignment is not None:
                self.assigned = self._named(answer.assignment.topic_partitions)
        return answer

    def _named(self, topics: list[TopicPartitions]) -> Partitions:
        names = {topic_id: name for name, topic_id in self._contact.peer.topic_ids.items()}
        return {(names.get(each.topic_id, "?"), number) for each in topics for number in each.partitions}

    def owned_topic_partitions(self) -> list[TopicPartitions]:
        """What it owns, as a heartbeat says it."""
        by_topic: dict[str, list[int]] = {}
        for name, number in sorted(self.owned):
            by_topic.setdefault(name, []).append(number)
        return [TopicPartitions(self._contact.topic_id(name), numbers) for name, numbers in by_topic.items()]

    def full(self, **changes: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat that says all there is to say."""
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": self.rebalance_timeout,
            "subscribed_topic_names": self.topics,
            "server_assignor": self.assignor,
            "topic_partitions": self.owned_topic_partitions(),
        }
        if self.regex is not None:
            fields["subscribed_topic_regex"] = self.regex
        return self.heartbeat(**fields | changes)

    def join(self, **changes: Any) -> ConsumerGroupHeartbeatResponse:
        """The first heartbeat, epoch 0, owning nothing; `Failed` unless it is a success."""
        self.epoch, self.owned = 0, set()
        answer = self.full(**changes)
        self._contact.expect(answer, error_code=0)
        return answer

    def obey(self) -> ConsumerGroupHeartbeatResponse:
        """Own exactly what was assigned, and say so."""
        self.owned = set(self.assigned)
        return self.heartbeat(topic_partitions=self.owned_topic_partitions())

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """Leave for good, or with -2 for a while."""
        return self.heartbeat(member_epoch=epoch)
