"""A scripted member of a consumer group (KIP-848): each call of the case sends one heartbeat."""

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
    """One member. `epoch` and `assigned` come from the last answer; its heartbeats report `owned`.

    `owned` follows `assigned` only in `reconcile`, so that a case decides when the member releases a partition.
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
        """Send a ConsumerGroupHeartbeat with only the fields in `changes`; remember epoch and assignment."""
        request = ConsumerGroupHeartbeatRequest(self.group, self.id, self.epoch, self.instance_id)
        for name, value in changes.items():
            setattr(request, name, value)
        version = self._contact.version_of(request)
        answer: ConsumerGroupHeartbeatResponse = self.wire.call(request, version)
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            self.id = answer.member_id or self.id
            if answer.assignment is not None:
                self.assigned = self._partitions_by_name(answer.assignment.topic_partitions)
        return answer

    def _partitions_by_name(self, topics: list[TopicPartitions]) -> Partitions:
        names = self._contact.peer.topic_names()
        return {(names.get(each.topic_id, "?"), number) for each in topics for number in each.partitions}

    def owned_topic_partitions(self) -> list[TopicPartitions]:
        """Return the owned partitions in the form that a heartbeat sends."""
        by_topic: dict[str, list[int]] = {}
        for name, number in sorted(self.owned):
            by_topic.setdefault(name, []).append(number)
        return [TopicPartitions(self._contact.topic_id(name), numbers) for name, numbers in by_topic.items()]

    def full(self, **changes: Any) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat with every field set."""
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
        """Send the first heartbeat, epoch 0, without owned partitions; raise `Failed` unless it succeeds."""
        self.epoch, self.owned = 0, set()
        answer = self.full(**changes)
        self._contact.expect(answer, error_code=0)
        return answer

    def reconcile(self) -> ConsumerGroupHeartbeatResponse:
        """Own exactly the assigned partitions, and report them."""
        self.owned = set(self.assigned)
        return self.heartbeat(topic_partitions=self.owned_topic_partitions())

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        """Leave for good; epoch -2 leaves for a while, as a static member."""
        return self.heartbeat(member_epoch=epoch)
