"""Puppets of share groups (KIP-932): scripted members that the coordinator assigns partitions to, several to the same.

Decides what such a member does of its own accord: join with an id of its own, send heartbeats as often as it is told
to, take what it is assigned at once, join anew when it is fenced. It fetches nothing. Its script is a `ConsumerScript`,
of which pattern, instance id, assignor and rebalance timeout count for nothing.

Source: KIP-932; semantics 4.11.
"""

from __future__ import annotations

from kafka_shim.apis.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafka_shim.lab.consumer_puppets import ConsumerPuppet


class SharePuppet(ConsumerPuppet):
    """One member. `owned` is what it may fetch from, `generation` its member epoch, -1 while it has none."""

    api = "ShareGroupHeartbeat"

    def _join(self, now: float) -> None:
        if not self._plays or self._is_joining:
            return
        self._is_joining = True
        self._beat += 1
        self.member_id = self.member_id or self._scheduler.new_id()
        self.owned, self.assigned, self.generation = {}, {}, -1
        request = self._request(0)
        request.rack_id = self.consumer.rack_id
        request.subscribed_topic_names = list(self.consumer.topics)
        self._ask(request, self._heartbeat_answered, now)

    def _request(self, epoch: int) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(self.consumer.group, self.member_id, epoch)

    def _beat_on(self, now: float, beat: int) -> None:
        if beat != self._beat or not self._plays:
            return
        if self.generation < 0:
            self._join(now)
            return
        self._ask(self._request(self.generation), self._heartbeat_answered, now)

    def _reconcile(self, now: float) -> None:
        self.owned = dict(self.assigned)
        self._beat_later(now)
