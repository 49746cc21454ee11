"""A coordinator of consumer groups without sockets, its topics, and members that behave as a client does.

`Cluster` drives the rules as the server does and keeps the durable records in a dictionary. A `Consumer` knows its
assignment, and owns each partition until it gives it up.
"""

from __future__ import annotations

from typing import Any

from kafka_shim.apis.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup, group_error
from kafka_shim.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
    error,
)
from kafka_shim.apis.releases import DEFAULT_RELEASE
from kafka_shim.groups.consumer.group import ConsumerGroup
from kafka_shim.groups.interface import Client
from tests.groups.context import GROUP, Context

HOST = "/127.0.0.1"


class Topics:
    """The topics of a cluster: implements `TopicCatalogue`."""

    max_batch_bytes = 1048588

    def __init__(self) -> None:
        self.by_name: dict[str, tuple[bytes, int]] = {}
        self._made = 0

    def create(self, name: str, partitions: int) -> bytes:
        self._made += 1
        topic_id = self._made.to_bytes(16)
        self.by_name[name] = topic_id, partitions
        return topic_id

    def names(self) -> list[str]:
        return list(self.by_name)

    def partitions_of(self, topic: str) -> int:
        return self.by_name.get(topic, (b"", 0))[1]

    def topic_id(self, topic: str) -> bytes | None:
        found = self.by_name.get(topic)
        return None if found is None else found[0]

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((name for name, (found, _) in self.by_name.items() if found == topic_id), None)


class Cluster(Context):
    """One node, and topics that can be created, grown and deleted. `settings_of` are those of single groups."""

    def __init__(self, *settings: str, release: str = DEFAULT_RELEASE, **topics: int) -> None:
        self.topics = Topics()
        self.settings_of: dict[str, dict[str, str]] = {}
        for name, partitions in topics.items():
            self.topics.create(name, partitions)
        super().__init__(*settings, release=release)

    def start(self) -> None:
        self.serve(topics=self.topics, group_settings=lambda group_id: self.settings_of.get(group_id, {}))

    def create(self, topic: str, partitions: int) -> None:
        """A new topic, or more partitions of one."""
        if topic in self.topics.by_name:
            self.topics.by_name[topic] = self.topics.by_name[topic][0], partitions
        else:
            self.topics.create(topic, partitions)
        self.service.topic_changed(topic, self.now)
        self.settle()

    def delete_topic(self, topic: str) -> None:
        topic_id, _ = self.topics.by_name.pop(topic)
        self.service.topic_deleted(topic, topic_id, self.now)
        self.settle()

    def beat(self, request: ConsumerGroupHeartbeatRequest, client_id: str = "c") -> ConsumerGroupHeartbeatResponse:
        """Send one heartbeat of version 1; its records are durable then."""
        answer: ConsumerGroupHeartbeatResponse
        answer = self.service.ask(request, error, Client(client_id, HOST), None, self.now)
        self.settle()
        self.advance(0)
        return answer

    @property
    def consumer_group(self) -> ConsumerGroup:
        group = self.service.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def described(self) -> DescribedGroup:
        (group,) = self.service.ask_each(ConsumerGroupDescribeRequest, [GROUP], group_error)
        return group

    def named(self, topics: Any) -> set[tuple[str, int]]:
        return {(self.topics.topic_name(each.topic_id) or "?", n) for each in topics for n in each.partitions}

    def consumer(self, member_id: str, *topics: str, **options: Any) -> Consumer:
        return Consumer(self, member_id, list(topics), **options)


class Consumer:
    """A client with its epoch, its assignment and the partitions it owns.

    It owns new partitions at once, and gives up none before `obey`.
    """

    def __init__(
        self,
        cluster: Cluster,
        member_id: str,
        topics: list[str],
        *,
        instance_id: str | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = 30_000,
    ) -> None:
        self.cluster = cluster
        self.member_id = member_id
        self.topics = topics
        self.instance_id = instance_id
        self.regex = regex
        self.assignor = assignor
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.epoch = 0
        self.assigned: set[tuple[str, int]] = set()
        self.owned: set[tuple[str, int]] = set()

    def heartbeat(self, *, lost: bool = False, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """One heartbeat with these fields; the answer is taken in unless it gets `lost`."""
        request = ConsumerGroupHeartbeatRequest(GROUP, self.member_id, self.epoch, self.instance_id)
        for name, value in fields.items():
            setattr(request, name, value)
        answer = self.cluster.beat(request, self.member_id)
        if not lost and answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = self.cluster.named(answer.assignment.topic_partitions)
                self.owned |= self.assigned
        return answer

    def join(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        self.epoch, self.owned, self.assigned = 0, set(), set()
        return self.full(**fields)

    def full(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        heartbeat: dict[str, Any] = {
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "subscribed_topic_names": self.topics,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.assignor,
            "topic_partitions": self.owned_by_topic(),
        }
        return self.heartbeat(**heartbeat | fields)

    def owned_by_topic(self) -> list[TopicPartitions]:
        """Its own partitions in the form of a heartbeat."""
        by_topic: dict[str, list[int]] = {}
        for name, number in sorted(self.owned):
            by_topic.setdefault(name, []).append(number)
        ids = ((self.cluster.topics.topic_id(name), numbers) for name, numbers in by_topic.items())
        return [TopicPartitions(topic_id, numbers) for topic_id, numbers in ids if topic_id is not None]

    def obey(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Own exactly the assigned partitions, and report them."""
        self.owned = set(self.assigned)
        return self.heartbeat(topic_partitions=self.owned_by_topic(), **fields)

    @property
    def view(self) -> tuple[int, frozenset[tuple[str, int]], frozenset[tuple[str, int]]]:
        """Its own view of its membership."""
        return self.epoch, frozenset(self.owned), frozenset(self.assigned)

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.heartbeat(member_epoch=epoch)


def settle(*members: Consumer) -> None:
    """Let members send heartbeats until nothing changes any more."""
    for _ in range(20):
        before = [each.view for each in members]
        for each in members:
            assert each.obey().error_code == 0
        if before == [each.view for each in members]:
            return
    raise AssertionError("the group does not settle")
