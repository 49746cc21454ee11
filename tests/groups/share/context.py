"""Members of share groups on the coordinator without sockets of the consumer groups' tests."""

from __future__ import annotations

from kafka_shim.apis.share_group_describe import DescribedGroup, ShareGroupDescribeRequest, group_error
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, error
from kafka_shim.groups.interface import Client
from kafka_shim.groups.share.group import ShareGroup
from tests.groups.consumer.context import HOST
from tests.groups.consumer.context import Cluster as ConsumerCluster
from tests.groups.context import GROUP


class Cluster(ConsumerCluster):
    """One node, and topics that can be created, grown and deleted."""

    def share_beat(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        """Send one heartbeat; its records are durable then."""
        answer: ShareGroupHeartbeatResponse
        answer = self.service.ask(request, error, Client(request.member_id, HOST), self.now)
        self.settle()
        return answer

    @property
    def share_group(self) -> ShareGroup:
        group = self.service.groups[GROUP]
        assert isinstance(group, ShareGroup)
        return group

    def shown(self) -> DescribedGroup:
        """The group by ShareGroupDescribe."""
        (group,) = self.service.ask_each(ShareGroupDescribeRequest, [GROUP], group_error)
        return group

    def sharer(self, member_id: str, *topics: str) -> Sharer:
        return Sharer(self, member_id, list(topics))


class Sharer:
    """A client with its epoch and its assignment."""

    def __init__(self, cluster: Cluster, member_id: str, topics: list[str]) -> None:
        self.cluster = cluster
        self.member_id = member_id
        self.topics = topics
        self.epoch = 0
        self.assigned: set[tuple[str, int]] = set()

    def heartbeat(self, *, epoch: int | None = None, topics: list[str] | None = None) -> ShareGroupHeartbeatResponse:
        """One heartbeat, at its own epoch unless another is given; the answer is taken in."""
        sent = self.epoch if epoch is None else epoch
        answer = self.cluster.share_beat(
            ShareGroupHeartbeatRequest(GROUP, self.member_id, sent, subscribed_topic_names=topics)
        )
        if answer.error_code == 0:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = self.cluster.named(answer.assignment.topic_partitions)
        return answer

    def join(self) -> ShareGroupHeartbeatResponse:
        return self.heartbeat(epoch=0, topics=self.topics)

    def leave(self) -> ShareGroupHeartbeatResponse:
        return self.heartbeat(epoch=-1)


def settle(*members: Sharer) -> None:
    """Let members send heartbeats until nothing changes any more."""
    for _ in range(10):
        before = [(each.epoch, each.assigned) for each in members]
        for each in members:
            assert each.heartbeat().error_code == 0
        if before == [(each.epoch, each.assigned) for each in members]:
            return
    raise AssertionError("the group does not settle")
