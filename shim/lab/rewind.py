"""Rewind of a live group: new committed offsets, and members that restart from them.

Clients have no request for it. But a member that is answered UNKNOWN_MEMBER_ID (25) drops its partitions, commits
nothing more, and joins as a new member, which fetches committed offsets. So all members are removed, the offsets are
written while the group is Empty, and JoinGroups are held until every removed member has sent one, has left, or can be
considered dead: then no member still works on a partition that another one starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from kafka_shim.apis.wire.errors import ErrorCode
from kafka_shim.groups.group import Expelled, Group
from kafka_shim.lab.interception import Facts, Interception
from kafka_shim.persistence.records import OffsetCommitKey, OffsetCommitValue
from kafka_shim.server.connection import State
from kafka_shim.server.exchange import Exchange
from kafka_shim.server.refusals import Refused

if TYPE_CHECKING:
    from kafka_shim.groups.shard import Shard

Offsets = Mapping[tuple[str, int], int]
"""By topic and partition."""

_MEMBERSHIP: Final = frozenset({"Heartbeat", "SyncGroup", "OffsetCommit", "JoinGroup"})


class CannotRewind(Refused):
    """The group cannot be rewound."""


class _Removed:
    """A removed member that has not returned. `session` is the connection of its last answer."""

    __slots__ = ("instance_id", "rebalance_timeout", "session")

    def __init__(self, member: Expelled) -> None:
        self.instance_id = member.group_instance_id
        self.rebalance_timeout = member.rebalance_timeout
        # Its parked request is answered now, with the error.
        self.session = member.exchange.session if isinstance(member.exchange, Exchange) else None


class Rewind:
    """One rewind, from its start; an `Intercept` until every member has returned, when `is_over` is set."""

    def __init__(self, interception: Interception, group_id: str, offsets: Offsets) -> None:
        self.group_id = group_id
        self.removed = 0
        """Number of members that had to rejoin."""
        self.is_over = False
        self._interception = interception
        self._away: dict[str, _Removed] = {}
        self._held_joins: list[Exchange] = []
        cluster = interception.cluster
        now = cluster.clock()
        shard, group = self._find(offsets)
        waits = self._expel(group, now)
        _write(shard, group_id, offsets, now)
        if self._away:
            interception.end_journal("a group is rewound")
            interception.add(self)
            for member_id, seconds in waits.items():
                self._give_up_after(seconds, member_id)
        else:
            self.is_over = True
        cluster.settle(now)

    async def durable(self) -> None:
        """Wait until the offsets are stored."""
        await self._interception.cluster.durability.flushed()
        await trio.lowlevel.checkpoint()

    async def over(self, timeout: float) -> bool:
        """Wait until every member has returned or is considered dead; return False after `timeout`."""
        return await self._interception.until(lambda: self.is_over, timeout)

    def _find(self, offsets: Offsets) -> tuple[Shard, Group]:
        cluster = self._interception.cluster
        groups = cluster.ownership.owner_of(self.group_id).groups
        shard = groups.shards.get(groups.partition_of(self.group_id))
        if shard is None:
            raise CannotRewind(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group's coordinator is not available.")
        group = shard.groups.get(self.group_id)
        if group is None:
            raise CannotRewind(ErrorCode.GROUP_ID_NOT_FOUND, "There is no such group.")
        for (topic, partition), offset in offsets.items():
            entry = cluster.topics.named(topic)
            if entry is None or entry.partition(partition) is None:
                raise CannotRewind(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {topic}-{partition}.")
            if not 0 <= offset < 2**63:
                raise CannotRewind(ErrorCode.OFFSET_OUT_OF_RANGE, f"An offset must be 0 to {2**63 - 1}, not {offset}.")
        return shard, group

    def _expel(self, group: Group, now: float) -> dict[str, float]:
        """Remove all members; return, by member id, the seconds of silence after which it is dead."""
        expelled = group.expel(now)
        self._away.update((member.member_id, _Removed(member)) for member in expelled)
        self.removed = len(self._away)
        return {member.member_id: member.silence_ends - now for member in expelled}

    # `Intercept`

    def request(self, exchange: Exchange, facts: Facts, now: float) -> bool:
        """See `Intercept`."""
        if facts.group != self.group_id:
            return False
        away = self._away.get(facts.member)
        if facts.api in _MEMBERSHIP and away is not None:
            away.session = exchange.session
        if facts.api == "LeaveGroup" and facts.member in self._away:
            self._on_return(facts.member)
        elif facts.api == "JoinGroup":
            self._join(exchange, facts)
            return True
        elif facts.api == "OffsetCommit" and not facts.member:
            # Some clients commit as if from outside the group after they have lost their membership.
            exchange.substitute(ErrorCode.UNKNOWN_MEMBER_ID, now)
            return True
        return False

    def answer(self, exchange: Exchange, facts: Facts, data: bytes, now: float) -> bool:
        """See `Intercept`."""
        return False

    def _join(self, exchange: Exchange, facts: Facts) -> None:
        exchange.hold()
        self._held_joins.append(exchange)
        for member_id, away in self._away.items():
            if away.session is exchange.session or (facts.instance is not None and facts.instance == away.instance_id):
                self._on_return(member_id)
                return
        # It may have a new connection since that answer.
        for member_id, away in self._away.items():
            if (
                away.session is not None
                and away.session.state is State.CLOSED
                and away.session.client.client_id == facts.client_id
            ):
                self._on_return(member_id)
                return

    def _on_return(self, member_id: str) -> None:
        del self._away[member_id]
        if not self._away:
            # The held requests are released after this request is done.
            self._interception.later(0.0, self._end)

    def _give_up_after(self, seconds: float, member_id: str) -> None:
        """Consider a member dead after a silence of its session timeout; one that got the error, after its rebalance
        timeout.
        """

        def look(now: float) -> None:
            away = self._away.get(member_id)
            if away is not None:
                if away.session is None:
                    self._on_return(member_id)
                else:
                    self._interception.later(away.rebalance_timeout, lambda later: self._on_timeout(member_id))

        self._interception.later(max(seconds, 0.0), look)

    def _on_timeout(self, member_id: str) -> None:
        if member_id in self._away:
            self._on_return(member_id)

    def _end(self, now: float) -> None:
        self.is_over = True
        self._interception.remove(self)
        exchanges, self._held_joins = self._held_joins, []
        for exchange in exchanges:
            exchange.run(now)
        self._interception.settle()


def _write(shard: Shard, group_id: str, offsets: Offsets, now: float) -> None:
    timestamp = shard.wall_ms(now)
    for (topic, partition), offset in offsets.items():
        value = OffsetCommitValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp=timestamp)
        shard.write(OffsetCommitKey(group_id, topic, partition), value)
    if shard.outbox.listening:
        accepted = [{"topic": topic, "partition": p, "offset": offset} for (topic, p), offset in offsets.items()]
        shard.outbox.event(
            "commit",
            group=group_id,
            partition=shard.partition,
            member_id="",
            generation=-1,
            error=0,
            offsets=accepted,
        )
