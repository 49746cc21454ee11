"""Puppets of share groups (KIP-932): scripted members that share partitions with others.

Such a member joins with its own id, heartbeats at the coordinator's interval, takes its assignment at once, and joins
again when it is fenced. It fetches nothing. Its script is a `ConsumerScript`; pattern, instance id, assignor and
rebalance timeout are ignored.

Source: KIP-932; semantics 4.11.
"""

from __future__ import annotations

from kafka_shim.apis.keys import ApiKey
from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.lab.consumer_puppets import ConsumerPuppet, ConsumerScript

__all__ = ["ConsumerScript", "SharePuppet"]


class SharePuppet(ConsumerPuppet):
    """One member. `owned` are the partitions it may fetch, `generation` is its member epoch, -1 without one."""

    kind = "share"
    api = "ShareGroupHeartbeat"
    key = ApiKey.SHARE_GROUP_HEARTBEAT

    def _joining(self) -> ShareGroupHeartbeatRequest:
        request = self._request(0)
        request.rack_id = self.consumer.rack_id
        request.subscribed_topic_names = list(self.consumer.topics)
        return request

    def _request(self, epoch: int) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(self.consumer.group, self.member_id, epoch)

    def _set_owned(self, request: ShareGroupHeartbeatRequest) -> None:
        """Do nothing: it never revokes, so it has nothing to report."""

    def _reconcile(self, now: float) -> None:
        self.owned = dict(self.assigned)
        self._beat_later(now)
