"""The heartbeat that most are: the member is there, has what it had, and nothing is new with its group either.

Decides when a heartbeat may take a short way, which renews the session and ends where the long way of `heartbeat.py`
would. `RepeatedHeartbeat` is for whoever gets the same heartbeat again and again: what was looked at for the last one
is not looked at again as long as the group is calm. Any record of the group, and any change of its topics, ends its
calm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_shim.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_shim.groups.consumer import patterns
from kafka_shim.groups.consumer.live import Calm, ConsumerGroup
from kafka_shim.groups.consumer.sessions import heartbeat_interval_ms, renew_session
from kafka_shim.groups.consumer.states import JOIN, MemberState
from kafka_shim.groups.group import Group
from kafka_shim.groups.interface import Client
from kafka_shim.groups.timers import Timer

_NEVER_CALM: Final = Calm(float("-inf"))


def says_nothing_new(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a heartbeat is one that most are: the member is there, and has what it had."""
    return (
        request.member_epoch > JOIN
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
    )


def steady(group: Group | None, request: ConsumerGroupHeartbeatRequest, client: Client, now: float) -> int | None:
    """The short way of a heartbeat that `says_nothing_new`, where nothing is new with its group and its topics either:
    the session is renewed, and the heartbeat interval, in milliseconds, is the answer. None, and nothing done, if
    something is new."""
    if not isinstance(group, ConsumerGroup):
        return None
    member = group.members.get(request.member_id)
    epoch = request.member_epoch
    if (
        member is None
        or epoch != member.epoch
        or epoch != group.group_epoch
        or epoch != group.target_epoch
        or member.state is not MemberState.STABLE
        or member.client_id != client.client_id
        or member.client_host != client.client_host
        or (request.instance_id is not None and request.instance_id != member.instance_id)
        or member.classic is not None
        or group.metadata_stale
        or now >= patterns.due(group)
        or group.is_crowded
    ):
        return None
    shard = group.shard
    if shard.batch > shard.outbox.required_batch:
        shard.outbox.touch(shard)
    renew_session(group, member, now)
    return heartbeat_interval_ms(group)


class RepeatedHeartbeat:
    """A heartbeat of one client that `says_nothing_new`, and is sent again and again."""

    __slots__ = ("_calm", "_client", "_group", "_groups", "_request", "_session")

    def __init__(self, groups: Mapping[str, Group], request: ConsumerGroupHeartbeatRequest, client: Client) -> None:
        self._groups = groups
        self._request = request
        self._client = client
        self._calm = _NEVER_CALM
        self._group: ConsumerGroup
        self._session: Timer

    def again(self, now: float) -> int | None:
        """As `steady`: the heartbeat interval in milliseconds, or None, and nothing done, if something is new."""
        calm = self._calm
        if now >= calm.until or self._group.calm is not calm:
            return self._look(now)
        group = self._group
        shard = group.shard
        if shard.group_settings(group.group_id):
            return self._look(now)
        if shard.batch > shard.outbox.required_batch:
            shard.outbox.touch(shard)
        config = shard.config
        session = self._session
        if calm.now != now:
            calm.now, calm.deadline = now, now + config.group_consumer_session_timeout_ms / 1000
        deadline = calm.deadline
        if session.queued <= deadline:
            session.deadline = deadline
        else:
            shard.arm(session, deadline)
        return config.group_consumer_heartbeat_interval_ms

    def _look(self, now: float) -> int | None:
        """Look at everything; what was found holds as long as the group is calm."""
        self._calm = _NEVER_CALM
        group = self._groups.get(self._request.group_id)
        interval_ms = steady(group, self._request, self._client, now)
        if interval_ms is not None:
            assert isinstance(group, ConsumerGroup)
            if group.calm is None:
                group.calm = Calm(patterns.due(group))
            self._group = group
            self._calm = group.calm
            self._session = group.sessions[self._request.member_id]
        return interval_ms
