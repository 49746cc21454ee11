"""Puppets of share groups (KIP-932): scripted members that the coordinator assigns partitions to, several to the same.

Decides what such a member does of its own accord: join with an id of its own, send heartbeats as often as it is told
to, take what it is assigned at once, join anew when it is fenced. It fetches nothing. Its script is a `ConsumerScript`,
of which pattern, instance id, assignor and rebalance timeout count for nothing.

Source: KIP-932; semantics 4.11.
"""

from __future__ import annotations

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript

__all__ = ["ConsumerScript", "SharePuppet"]


class SharePuppet(ConsumerPuppet):
    """One member. `owned` is what it may fetch from, `generation` its member epoch, -1 while it has none."""

    api = "ShareGroupHeartbeat"
    key = ApiKey.SHARE_GROUP_HEARTBEAT

    def _joining(self) -> ShareGroupHeartbeatRequest:
        request = self._request(0)
        request.rack_id = self.consumer.rack_id
        request.subscribed_topic_names = list(self.consumer.topics)
        return request

    def _request(self, epoch: int) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(self.consumer.group, self.member_id, epoch)

    def _say_owned(self, request: ShareGroupHeartbeatRequest) -> None:
        """It gives nothing up, so it has nothing to say."""

    def _reconcile(self, now: float) -> None:
        self.owned = dict(self.assigned)
        self._beat_later(now)
